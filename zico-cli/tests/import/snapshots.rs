//! The rules by which a memory snapshot becomes a trace.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use zico_cli::import::snapshot::{self, SnapshotError};
use zico_cli::import::{self, Options, Problem, Recorded};
use zico_core::Ticks;
use zico_mock::bundled;
use zico_mock::trace::{BlockId, Iteration, Step, Trace};

use crate::pickles::pickle;
use crate::profile::{message, short};

/// A snapshot of one device with these entries, `(action, addr, size, time_us)`, and these marks,
/// `(name, stage, time_us)`. Each event is 20 microseconds after the one before if its time is 0.
pub(crate) fn snapshot(entries: &[(&str, i64, i64, i64)], marks: &[(&str, &str, i64)]) -> Value {
    let mut now = 1_000;
    let entries: Vec<Value> = entries
        .iter()
        .map(|&(action, addr, size, at)| {
            now = if at == 0 { now + 20 } else { at };
            json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": now})
        })
        .collect();
    let mark = |&(name, stage, at): &(&str, &str, i64)| json!({"name": name, "stage": stage, "device": 0, "time_us": at});
    let marks: Vec<Value> = marks.iter().map(mark).collect();
    json!({"segments": [], "device_traces": [entries], "external_annotations": marks})
}

fn read(snapshot: &Value) -> Result<Trace, SnapshotError> {
    read_with(snapshot, &Options::default()).map(|recorded| recorded.trace)
}

pub(crate) fn read_with(snapshot: &Value, options: &Options) -> Result<Recorded, SnapshotError> {
    snapshot::read(&*pickle(snapshot), "t".to_owned(), "by hand".to_owned(), options)
}

fn said(snapshot: &Value) -> String {
    message(&read(snapshot).unwrap_err())
}

/// An iteration, always of the same shape: 30 blocks that stay for it, 30 that do not, and all are
/// freed.
fn iteration(entries: &mut Vec<(&'static str, i64, i64, i64)>) {
    for i in 1..=30 {
        entries.push(("alloc", i << 20, i * 1000, 0));
        entries.push(("alloc", (i + 100) << 20, i * 7, 0));
        entries.push(("free_requested", (i + 100) << 20, i * 7, 0));
        entries.push(("free_completed", (i + 100) << 20, i * 7, 0));
    }
    entries.extend((1..=30).rev().map(|i| ("free_requested", i << 20, i * 1000, 0)));
}

#[test]
fn what_python_writes_is_understood_in_each_protocol() {
    for protocol in 2..=5 {
        let file = format!("tests/data/snapshot-{protocol}.pickle");
        let trace = import::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let expected = [
            "persistent 0=4000, persistent 1=1000",
            "run 130000, forward, iteration 2=2000, run 50000, iteration 3=700, run 40000, free 3, \
             run 26000, persistent 4=64, run 1000000, free 2, run 26000",
            "run 130000, forward, iteration 5=2000, run 50000, iteration 6=700, run 40000, free 6, \
             run 21000, iteration 7=500, run 1000000, free 5, run 26000",
            "run 130000, forward, iteration 8=2000, run 50000, iteration 9=700, run 40000, free 9, \
             run 21000, free 7, run 1021000, free 8, run 26000",
        ];
        assert_eq!(short(&trace), expected, "protocol {protocol}");
        let recorded = trace.iterations().iter().map(Iteration::recorded).collect::<Vec<_>>();
        assert_eq!(recorded, [1772, 1767, 1288].map(Ticks::micros));
        assert_eq!(trace.name(), format!("snapshot-{protocol}"));
        let of = format!(
            "recorded with the PyTorch memory snapshot, imported from snapshot-{protocol}.pickle; \
             iterations as annotated"
        );
        assert_eq!(trace.provenance(), of);
    }
}

#[test]
fn iterations_are_detected_where_none_are_marked() {
    let mut entries = vec![
        ("alloc", 1, 5_000_000, 0),      // weights
        ("free_requested", 2, 3_000, 0), // from before
        ("alloc", 3, 77, 0),             // optimizer state, in a first iteration unlike others
        ("alloc", 4, 40, 0),             // a batch that the first one frees
    ];
    (0..4).for_each(|_| iteration(&mut entries));
    entries.push(("free_requested", 4, 40, 0)); // teardown
    entries.push(("free_requested", 1, 5_000_000, 0));
    let trace = read(&snapshot(&entries, &[])).unwrap();
    assert_eq!(short(&trace)[0], "persistent 0=5000000, persistent 1=77, persistent 2=40");
    assert!(trace.provenance().ends_with("by hand; iterations detected"));
    assert_eq!(trace.iterations().len(), 4);
    for iteration in &trace.stats().iterations {
        assert_eq!((iteration.allocations, iteration.frees), (60, 60));
        assert_eq!(
            (iteration.live_at_start.value(), iteration.live_at_end.value()),
            (5_000_117, 5_000_117)
        );
        assert_eq!(iteration.launches, 60 + 60);
    }
    // As soon as they do not repeat, they are none.
    entries.truncate(4 + 150);
    assert!(said(&snapshot(&entries, &[])).starts_with("the snapshot has no iterations: "));
    // What repeats, but is a small part of the whole, is a loop in something else.
    let mut entries: Vec<_> = (0..1000).map(|i| ("alloc", i << 30, 1 + i * i, 0)).collect();
    (0..4).for_each(|_| iteration(&mut entries));
    assert!(matches!(read(&snapshot(&entries, &[])), Err(SnapshotError::NoIterations)));
    // And marks count more than what repeats.
    let marked = snapshot(&entries, &[("iteration", "START", 1_000), ("iteration", "END", 9_000)]);
    assert_eq!(read(&marked).unwrap().iterations().len(), 1);
}

/// A recorded job as a snapshot without marks, which has to find the iterations that are alike.
#[test]
fn recorded_jobs_are_understood_without_their_marks() {
    let jobs = [
        ("bert-base", 2),
        ("gcn", 0),
        ("gnmt", 0),
        ("mobilenet_v2", 2),
        ("resnet50", 2),
        ("unet", 2),
        ("whisper-tiny", 0),
    ];
    for (name, alike) in jobs {
        let recorded = bundled::open(name).unwrap();
        let iterations = recorded.iterations().iter().flat_map(Iteration::steps);
        let (mut entries, mut now) = (Vec::new(), 1_000);
        let size = |block: BlockId| i64::try_from(recorded.blocks()[block.index()].bytes.value());
        for step in recorded.setup().iter().chain(iterations) {
            let (action, block) = match *step {
                Step::Alloc { block, .. } => ("alloc", block),
                Step::Free { block } => ("free_requested", block),
                Step::Launch { work } => {
                    now += i64::try_from(work.value() / 1000).unwrap();
                    continue;
                }
                Step::Use { .. } | Step::Phase(_) => continue,
            };
            let address = i64::from(block.value()) << 32;
            entries.push((action, address, size(block).unwrap(), now));
        }
        let found = read(&snapshot(&entries, &[]));
        if alike == 0 {
            // What it trains on is drawn anew for each iteration, and so are some sizes.
            assert!(matches!(found, Err(SnapshotError::NoIterations)), "{name}");
            continue;
        }
        let figures = |trace: &Trace| {
            let iterations = trace.stats().iterations;
            let last = iterations[iterations.len() - alike..].to_vec();
            let figures = last.into_iter().map(|stats| {
                let live = (stats.live_at_start, stats.peak, stats.trough, stats.live_at_end);
                (stats.allocations, stats.frees, stats.persistent_at_start, live)
            });
            figures.collect::<Vec<_>>()
        };
        let found = found.unwrap();
        assert_eq!(
            found.iterations().len(),
            alike,
            "{name}: the optimizer's state is in the first"
        );
        assert_eq!(figures(&found), figures(&recorded), "{name}");
    }
}

#[test]
fn what_follows_the_iterations_is_none_of_them() {
    for others in [1, 30, 59, 60, 61, 200] {
        let mut entries = vec![("alloc", 5, 5, 0), ("alloc", 6, 6, 0)];
        (0..5).for_each(|_| iteration(&mut entries));
        entries.extend((10..10 + others).map(|i| ("alloc", i, i, 0)));
        entries.push(("free_requested", 6, 6, 0));
        let trace = read(&snapshot(&entries, &[])).unwrap();
        assert_eq!(trace.iterations().len(), 5, "{others} other allocations");
        assert!(trace.stats().iterations.iter().all(|iteration| iteration.frees == 60));
        assert_eq!(short(&trace)[0], "persistent 0=5, persistent 1=6");
    }
    // An iteration with one allocation more among them: too few are alike.
    let mut entries = Vec::new();
    (0..3).for_each(|_| iteration(&mut entries));
    entries.extend([("alloc", 9, 9, 0), ("free_requested", 9, 9, 0)]);
    (0..3).for_each(|_| iteration(&mut entries));
    entries.extend((10..70).map(|i| ("alloc", i, i, 0)));
    assert!(matches!(read(&snapshot(&entries, &[])), Err(SnapshotError::NoIterations)));
}

#[test]
fn marks_are_nested_cut_off_and_of_other_names() {
    let entries = [("alloc", 1, 10, 1_100), ("free_requested", 1, 10, 1_200)];
    let steps = [
        ("ProfilerStep#3", "START", 1_050),
        ("Optimizer.step#Adam.step", "START", 1_060),
        ("Optimizer.step#Adam.step", "END", 1_110),
        ("ProfilerStep#3", "END", 1_150),
        ("ProfilerStep#4", "START", 1_150),
        ("ProfilerStep#4", "END", 1_300),
        ("ProfilerStep#5", "START", 1_300),
    ];
    let trace = read(&snapshot(&entries, &steps)).unwrap();
    assert_eq!(
        short(&trace),
        ["", "run 50000, iteration 0=10, run 50000", "run 50000, free 0, run 100000"]
    );
    let marks = [("iteration", "START", 1_050), ("iteration", "END", 1_150)];
    let trace = read(&snapshot(&entries, &[&steps[..], &marks].concat())).unwrap();
    assert_eq!(short(&trace), ["", "run 50000, iteration 0=10, run 50000"]);
    let nested = [("iteration", "START", 1_020), marks[0], marks[1], ("iteration", "END", 1_400)];
    let expected = "record 1: the iteration starts before that of record 0 ends";
    assert_eq!(said(&snapshot(&entries, &nested)), expected);
}

#[test]
fn frees_count_when_the_program_asks_for_them() {
    let marks = [("iteration", "START", 1_000), ("iteration", "END", 9_000)];
    let both = [
        ("alloc", 1, 10, 0),
        ("free_requested", 1, 10, 0),
        ("alloc", 2, 10, 0),
        ("free_completed", 1, 10, 0),
    ];
    let steps = |entries: &[_]| {
        short(&read(&snapshot(entries, &marks)).unwrap())[1].replace("run 20000, ", "")
    };
    assert!(steps(&both).starts_with("iteration 0=10, free 0, iteration 1=10"));
    // `skip_actions=["free_requested"]`
    let completed = [both[0], both[2], both[3]];
    assert!(steps(&completed).starts_with("iteration 0=10, iteration 1=10, free 0"));
}

#[test]
fn events_of_one_moment_keep_their_order() {
    let marks = [("iteration", "START", 1_000), ("iteration", "END", 9_000)];
    // The second is recorded with an earlier time than the first: another thread's clock.
    let entries =
        [("alloc", 1, 10, 1_020), ("free_requested", 1, 10, 1_019), ("alloc", 1, 20, 1_020)];
    let trace = read(&snapshot(&entries, &marks)).unwrap();
    let expected = "run 20000, iteration 0=10, free 0, iteration 1=20, run 7979998";
    assert_eq!(short(&trace), ["", expected]);
}

#[test]
fn snapshots_that_make_no_sense_are_named() {
    let marks = [("iteration", "START", 1_000), ("iteration", "END", 9_000)];
    let good = [("alloc", 1, 10, 0), ("free_requested", 1, 10, 0)];
    let with = |entries: &[(&str, i64, i64, i64)]| snapshot(entries, &marks);
    let changed = |path: &str, value: Value| {
        let mut snapshot = with(&good);
        *snapshot.pointer_mut(path).unwrap() = value;
        snapshot
    };
    let added = |key: &str, value: Value| {
        let mut snapshot = with(&good);
        snapshot[key] = value;
        snapshot
    };
    let segment = |more: Value| json!([{"device": 0, "address": 4096, "blocks": [more]}]);
    let wide: serde_json::Map<_, _> = (0..65).map(|i| (format!("field{i}"), json!(1))).collect();
    let max = i64::MAX;
    let none = SnapshotError::NoHistory.to_string();
    for (snapshot, expected) in [
        (json!([]), "the pickle is no memory snapshot of PyTorch"),
        (json!({"segments": []}), "the pickle is no memory snapshot of PyTorch"),
        (json!({"device_traces": {}}), "device_traces is no list"),
        (json!({"device_traces": [[], 5]}), "device_traces[1] is no list"),
        (json!({"device_traces": [[7]]}), "device_traces[0][0] is no dictionary"),
        (json!({"device_traces": []}), &none),
        (with(&[("segment_alloc", 1, 2, 0), ("segment_free", 1, 2, 0)]), &none),
        (changed("/device_traces/0/1", json!({})), "device_traces[0][1]: action is missing"),
        (
            changed("/device_traces/0/0/action", json!(1)),
            "device_traces[0][0]: action is not of its type",
        ),
        (
            changed("/device_traces/0/0/size", json!("1")),
            "device_traces[0][0]: size is not of its type",
        ),
        (
            changed("/device_traces/0/0/size", json!(-1)),
            "device_traces[0][0]: size is -1, which is out of range",
        ),
        (
            changed("/device_traces/0/0/time_us", json!(max)),
            "time_us is 9223372036854775807, which is out of range",
        ),
        (changed("/device_traces/0/0", Value::Object(wide)), "device_traces[0][0] has 65 fields"),
        (added("external_annotations", json!(0)), "external_annotations is no list"),
        (added("external_annotations", json!([0])), "external_annotations[0] is no dictionary"),
        (
            added("external_annotations", json!([{"name": "iteration", "stage": "START"}])),
            "external_annotations[0]: time_us is missing",
        ),
        (added("segments", json!([[]])), "segments[0] is no dictionary"),
        (added("segments", json!([{"device": 0, "address": 0}])), "segments[0]: blocks is missing"),
        (added("segments", segment(json!({"size": 1}))), "segments[0].blocks[0]: state is missing"),
        (
            added("segments", segment(json!({"size": -1, "state": "inactive"}))),
            "segments[0].blocks[0]: size is -1",
        ),
        (
            added("segments", segment(json!({"size": max, "state": "inactive"}))),
            "which is out of range",
        ),
        (with(&[good[0], good[0]]), "record 1: 0x1 is allocated, but is in use since record 0"),
        (
            with(&[good[0], ("free_requested", 1, 9, 0)]),
            "record 1: 9 bytes are freed at 0x1, where record 0 allocated 10",
        ),
        (
            with(&[("alloc", 1, max, 0), ("alloc", 2, max, 0), ("alloc", 3, 2, 0)]),
            "bytes add up to more than can be counted",
        ),
    ] {
        let said = said(&snapshot);
        assert!(said.contains(expected), "{said:?} does not say {expected:?}");
    }
}

/// Shared lists make a small file long: 70,000 times the same 300 entries are too many.
#[test]
fn shared_lists_do_not_make_work_without_end() {
    let mut file = b"\x80\x02}(X\x0d\0\0\0device_traces](".to_vec();
    file.extend(b"](");
    file.extend(pickle(&json!({"action": "snapshot"}))[2..].strip_suffix(b".").unwrap());
    file.extend(b"q\x01");
    file.extend(b"h\x01".repeat(299));
    file.extend(b"eq\x02");
    file.extend(b"h\x02".repeat(70_000));
    file.extend(b"eu.");
    let error =
        snapshot::read(&*file, String::new(), String::new(), &Options::default()).unwrap_err();
    assert!(matches!(error, SnapshotError::TooMany), "{error}");
}

#[test]
fn a_snapshot_that_is_of_no_use_is_named_with_its_file() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evil.pickle.gz");
    std::fs::write(&path, b"\x80\x04cos\nsystem\n").unwrap();
    let error = import::open(&path).unwrap_err();
    assert!(matches!(error.problem, Problem::Snapshot(_)));
    let expected = format!(
        "cannot import {}: reading it as a memory snapshot: byte 2: GLOBAL is not carried out: a \
         snapshot is plain data and needs none",
        path.display()
    );
    assert_eq!(message(&error), expected);
}

proptest! {
    /// Events with any figures, in any order: the rules hold together.
    #[test]
    fn any_snapshots_are_survived(
        entries in proptest::collection::vec((0..3usize, 0..6i64, 0..3i64, 900..1100i64), 1..60),
        marks in proptest::collection::vec((0..3usize, 0..2usize, 900..1100i64), 0..9),
    ) {
        let action = |i| ["alloc", "free_requested", "free_completed"][i];
        let name = |i| ["iteration", "ProfilerStep#1", "forward"][i];
        let entries: Vec<_> = entries.iter().map(|&(i, addr, size, at)| (action(i), addr, size, at)).collect();
        let marks: Vec<_> = marks.iter().map(|&(i, j, at)| (name(i), ["START", "END"][j], at)).collect();
        let _ = read(&snapshot(&entries, &marks));
    }
}
