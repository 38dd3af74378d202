//! What was in use before a recording began, and which device it is of.

use std::path::Path;

use zico_cli::convert::{Description, convert};
use zico_cli::import::kineto::KinetoError;
use zico_cli::import::{self, Before, Device, Doubt, Options, Recorded, Source};
use zico_core::{Bytes, Lifetime};
use zico_mock::trace::{Step, Trace};

use crate::profile::{annotation, memory, message, read_with, short};

const GPU: i32 = 1;

/// A memory event of an accelerator after which `total`, as it stands in the file, is in use there.
fn on(device: i32, at: &str, address: u32, bytes: i64, total: &str) -> String {
    let place = format!(
        r#""Device Type": {GPU}, "Device Id": {device}, "Total Allocated": {total}, "Total Reserved": 9"#
    );
    memory(at, address, bytes).replace(r#""Device Type": 0, "Device Id": -1"#, &place)
}

fn read(events: &[String]) -> Recorded {
    read_with(events, &Options::default()).unwrap()
}

fn given(bytes: u64) -> Options {
    Options { kept_before: Some(Bytes::new(bytes)), ..Options::default() }
}

fn index(number: u32) -> Options {
    Options { device_index: Some(number), ..Options::default() }
}

fn cuda(index: i32) -> Device {
    Device::Accelerator { kind: GPU, index }
}

/// An iteration in which 10 bytes come and go, and 70 of before go.
fn midrun(totals: [&str; 3]) -> Vec<String> {
    vec![
        annotation("iteration", "0", "1000"),
        on(0, "10", 1, 10, totals[0]),
        on(0, "20", 1, -10, totals[1]),
        on(0, "30", 2, -70, totals[2]),
    ]
}

/// What is known, what is one block, and who says so.
fn figures(recorded: &Recorded) -> (u64, u64, Source, Option<Doubt>) {
    let Before { bytes, block, source, doubt } = recorded.origin.before;
    (bytes.value(), block.value(), source, doubt)
}

/// What the file itself says: `Total Allocated` is 4,121,780,224 after the first event, of
/// 25,165,824 bytes, and 6,629,508,096 at most.
#[test]
fn what_a_gpu_had_before_its_profile_began_persists() {
    const BEFORE: Bytes = Bytes::new(4_121_780_224 - 25_165_824);
    const PEAK: Bytes = Bytes::new(6_629_508_096);
    assert_eq!((BEFORE.value().div_ceil(1 << 20), PEAK.value() >> 20), (3907, 6322));
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v100-excerpt.json.gz"));
    let imported = import::open_with(path, &Options::default()).unwrap();
    let (trace, origin) = (imported.trace, imported.origin.unwrap());
    assert_eq!((origin.device, origin.others.as_slice()), (cuda(1), [].as_slice()));
    let before = Before { bytes: BEFORE, block: BEFORE, source: Source::Totals, doubt: None };
    assert_eq!(origin.before, before);
    let first = trace.setup().first().copied();
    let Some(Step::Alloc { bytes, lifetime, .. }) = first else { panic!("{first:?}") };
    assert_eq!((bytes, lifetime), (BEFORE, Lifetime::Persistent));
    let stats = trace.stats();
    assert_eq!((stats.peak, stats.iterations.len()), (PEAK, 1));
    let step = &stats.iterations[0];
    assert_eq!((step.allocations, step.frees), (2677, 2677));
    assert_eq!((step.live_at_start, step.live_at_end), (BEFORE, BEFORE));
    assert_eq!(step.persistent_at_start, BEFORE);
    let said = "; in use before the recording: 3.82 GiB, by Total Allocated";
    assert!(trace.provenance().ends_with(said), "{}", trace.provenance());
    // The converted trace has the same, and says so whatever else is said of it.
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("v100-excerpt.ztrace");
    let description = Description { provenance: Some("mine".to_owned()), ..Description::default() };
    let summary = convert(path, &output, description, &Options::default()).unwrap();
    assert_eq!(summary.origin, Some(origin));
    let converted = import::open(&output).unwrap();
    assert_eq!(converted.provenance(), format!("mine{said}"));
    assert_eq!((converted.setup(), converted.stats().peak), (trace.setup(), PEAK));
}

#[test]
fn what_the_profile_frees_is_no_part_of_what_persists() {
    let mut events = midrun(["110", "100", "30"]);
    let recorded = read(&events);
    assert_eq!(figures(&recorded), (100, 30, Source::Totals, None));
    let steps = "iteration 2=10, free 2, free 1";
    assert_eq!(short(&recorded.trace), ["persistent 0=30, iteration 1=70", steps]);
    // Freed before the first iteration, it is no part of the trace; freed after the last one, it
    // stays.
    events.push(on(0, "-5", 3, -8, "100"));
    events.push(on(0, "2000", 4, -25, "5"));
    let recorded = read(&events);
    assert_eq!(figures(&recorded), (108, 30, Source::Totals, None));
    assert_eq!(short(&recorded.trace), ["persistent 0=30, iteration 1=70", steps]);
    // Nothing is left: no block.
    let recorded = read(&midrun(["80", "70", "0"]));
    assert_eq!(figures(&recorded), (70, 0, Source::Totals, None));
    assert_eq!(recorded.trace.provenance(), "by hand");
    let lines = ["In use before the recording: 70 B, by Total Allocated"];
    assert_eq!(recorded.origin.lines(), lines);
    assert!(recorded.origin.warnings().is_empty());
}

#[test]
fn the_device_that_allocates_the_most_is_taken_unless_one_is_named() {
    let mut events = vec![annotation("iteration", "0", "1000"), memory("5", 9, 4096)];
    for (device, bytes) in [(0, 10), (2, 30), (3, 30)] {
        let before = 100 * (i64::from(device) + 1);
        let total = |bytes: i64| (before + bytes).to_string();
        events.push(on(device, "10", 1, bytes, &total(bytes)));
        events.push(on(device, "20", 1, -bytes, &total(0)));
    }
    let recorded = read(&events);
    let (device, others) = (recorded.origin.device, recorded.origin.others.clone());
    assert_eq!((device, others), (cuda(2), vec![cuda(0), cuda(3)]), "the first of two alike");
    assert_eq!(figures(&recorded), (300, 300, Source::Totals, None));
    let said = "The memory is that of CUDA device 2; the recording also has CUDA device 0, CUDA device 3 \
                (--device-index)";
    assert_eq!(recorded.origin.warnings(), [said]);
    assert_eq!(recorded.origin.lines()[0], said);
    let provenance = recorded.trace.provenance();
    assert!(provenance.contains("; the memory of CUDA device 2, one of 3;"), "{provenance}");
    for (number, kept, bytes) in [(0, 100, 10), (2, 300, 30), (3, 400, 30)] {
        let recorded = read_with(&events, &index(number)).unwrap();
        let steps = format!("iteration 1={bytes}, free 1");
        assert_eq!(short(&recorded.trace), [format!("persistent 0={kept}"), steps]);
        assert_eq!(recorded.origin.others.len(), 2);
    }
    let error = read_with(&events, &index(1)).unwrap_err();
    let expected = "the profile has no memory events of an accelerator 1, only of CUDA device 0, CUDA \
                    device 2, CUDA device 3, the CPU";
    assert_eq!(message(&error), expected);
    let host = read_with(&events[..2], &index(0)).unwrap_err();
    assert!(message(&host).ends_with("only of the CPU"), "{host}");
    assert!(matches!(read_with(&events[..1], &index(0)), Err(KinetoError::NoMemory)));
    // A number that no device can have.
    assert!(read_with(&events, &index(u32::MAX)).is_err());
}

#[test]
fn totals_that_cannot_be_are_doubted_and_nothing_is_lost() {
    let recorded = ["persistent 0=0, ", "iteration 0=70"];
    for (totals, doubt) in [
        (["-110", "-100", "-30"], Doubt::NoCommonTotals),
        (["NULL", "\"x\"", "{}"], Doubt::NoCommonTotals),
        (["1e30", "1.5", "[]"], Doubt::NoCommonTotals),
        (["99999999999999999999", "1e400", "true"], Doubt::NoCommonTotals),
        (["5", "1000000", "3"], Doubt::NoCommonTotals),
        (["5", "5", "5"], Doubt::NoCommonTotals),
        // Less than what the events free.
        (["50", "40", "0"], Doubt::TotalsTooLow),
    ] {
        let events = midrun(totals.map(|total| if total == "NULL" { "null" } else { total }));
        let totals = format!("{totals:?}");
        let read = read(&events);
        let source = read.origin.before.source;
        assert_eq!(figures(&read), (70, 0, source, Some(doubt)), "{totals}");
        assert_eq!(short(&read.trace)[0], recorded[1], "{totals}");
        let lines = read.origin.lines().join("\n");
        let start =
            "In use before the recording: at least 70 B, by the frees. But its Total Allocated ";
        assert!(lines.starts_with(start), "{lines}");
        assert!(lines.ends_with("if you know, say --kept-before SIZE"), "{lines}");
        assert_eq!(read.origin.warnings(), read.origin.lines());
        let provenance = read.trace.provenance();
        assert!(provenance.ends_with("; in use before the recording: at least 70 B, by the frees"));
        // Who knows may say so.
        let told = read_with(&events, &given(1000)).unwrap();
        assert_eq!(figures(&told), (1000, 930, Source::User, None), "{totals}");
    }
}

#[test]
fn events_that_are_lost_or_out_of_order_do_not_hide_what_was_there() {
    let totals = |third: &str| {
        let mut events = midrun(["110", "100", "30"]);
        events[2] = on(0, "20", 1, -10, third);
        events
    };
    let recorded = read(&totals("777"));
    let doubt = Some(Doubt::TotalsDiffer { events: 1, of: 3 });
    assert_eq!(figures(&recorded), (100, 30, Source::Totals, doubt));
    let lines = recorded.origin.lines();
    let said = "In use before the recording: 100 B, by Total Allocated; 30 B of it for good: one persistent \
                block, the first. But in 1 of 3 memory events Total Allocated says something else: events \
                are missing or out of order";
    assert_eq!(lines, [said]);
    for odd in ["-1", "null", "\"NaN\"", "1e999"] {
        assert_eq!(figures(&read(&totals(odd))), (100, 30, Source::Totals, doubt), "{odd}");
    }
    // An older PyTorch gives no totals at all.
    let events = midrun(["1", "2", "3"]);
    let without: Vec<String> =
        events.iter().map(|event| event.replace("Total Allocated", "Total")).collect();
    let recorded = read(&without);
    assert_eq!(figures(&recorded), (70, 0, Source::Frees, Some(Doubt::NoTotals)));
}

#[test]
fn totals_without_end_are_doubted() {
    let recorded = |huge: u64, options: &Options| {
        let totals = [huge, huge - 10, huge - 80].map(|total| total.to_string());
        read_with(&midrun([&totals[0], &totals[1], &totals[2]]), options)
    };
    for huge in [u64::MAX, i64::MAX.unsigned_abs(), 1 << 51] {
        let read = recorded(huge, &Options::default()).unwrap();
        let doubt = Some(Doubt::TotalsTooHigh);
        assert_eq!(figures(&read), (70, 0, Source::Frees, doubt), "{huge}");
        // Who knows better can say so.
        let told = recorded(huge, &given(1000)).unwrap();
        assert_eq!(figures(&told), (1000, 930, Source::User, None));
    }
    let most = recorded((1 << 50) + 10, &Options::default()).unwrap();
    assert_eq!(figures(&most), (1 << 50, (1 << 50) - 70, Source::Totals, None));
    // All that is ever allocated has to be counted.
    for options in [given(u64::MAX - 9), given(u64::MAX)] {
        let error = recorded(1000, &options).unwrap_err();
        assert!(message(&error).contains("add up to more than can be counted"), "{error}");
    }
}

#[test]
fn the_cpu_does_not_say_what_was_there_but_the_user_may() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/midrun-sample.json.gz"));
    let open = |options: &Options| import::open_with(path, options).unwrap();
    let origin = open(&Options::default()).origin.unwrap();
    let unknown = Before {
        bytes: Bytes::ZERO,
        block: Bytes::ZERO,
        source: Source::Totals,
        doubt: Some(Doubt::HostTotals),
    };
    assert_eq!((origin.device, &origin.before), (Device::Cpu, &unknown));
    let lines = origin.lines();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("In use before the recording: unknown. But PyTorch counts"),
        "{lines:?}"
    );
    let told = open(&given(5 << 30));
    let step = &told.trace.stats().iterations[2];
    assert_eq!(step.persistent_at_start, Bytes::gib(5));
    assert_eq!(step.peak, Bytes::new((5 << 30) + 404_528));
    assert_eq!(told.origin.unwrap().before.source, Source::User);
    // A profile of the CPU from the beginning has seen everything.
    let whole = [memory("5", 1, 100), annotation("iteration", "10", "9"), memory("12", 2, 1)];
    assert_eq!(read(&whole).origin.before.doubt, None);
    let later = [whole[0].clone(), annotation("ProfilerStep#7", "10", "9"), whole[2].clone()];
    assert_eq!(read(&later).origin.before.doubt, Some(Doubt::HostTotals));
    let first = [whole[0].clone(), annotation("ProfilerStep#0", "10", "9"), whole[2].clone()];
    assert_eq!(read(&first).origin.before.doubt, None);
}

#[test]
fn what_is_given_cannot_be_less_than_what_is_known() {
    let events = midrun(["110", "100", "30"]);
    for (bytes, block) in [(70, 0), (71, 1), (4096, 4026)] {
        let recorded = read_with(&events, &given(bytes)).unwrap();
        assert_eq!(figures(&recorded), (bytes, block, Source::User, None));
        let said = "as given by --kept-before";
        assert!(recorded.trace.provenance().ends_with(said), "{}", recorded.trace.provenance());
    }
    let error = message(&read_with(&events, &given(69)).unwrap_err());
    let expected =
        "--kept-before 69 B cannot be: the profile frees 70 B that were in use before it began";
    assert_eq!(error, expected);
}

/// Of a trace there is nothing left to be said.
#[test]
fn a_ztrace_has_no_origin() {
    let trace: Trace = zico_mock::bundled::open("dlrm").unwrap();
    let mut file = Vec::new();
    trace.write(&mut file).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-origin.ztrace");
    std::fs::write(&path, file).unwrap();
    assert_eq!(import::open_with(&path, &given(7)).unwrap().origin, None);
}
