//! Files: recognised by their content, and named with the reason if they are of no use.

use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use zico_cli::convert::{Description, convert};
use zico_cli::import::{self, Options, Problem, kineto};
use zico_core::{Bytes, Ticks};
use zico_mock::trace::{Phase, Step, Trace};

use crate::profile::message;

const SAMPLE: &[u8] = include_bytes!("../data/midrun-sample.json.gz");

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(content).unwrap();
    file.finish().unwrap()
}

fn unzip(file: &[u8]) -> String {
    std::io::read_to_string(MultiGzDecoder::new(file)).unwrap()
}

/// Puts `content` into a file of its own, called `name`.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn sample() -> Trace {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/midrun-sample.json.gz");
    import::open(Path::new(path)).unwrap()
}

#[test]
fn a_profile_that_starts_in_the_middle_of_a_run_is_understood() {
    let sample = sample();
    assert_eq!(sample.name(), "midrun-sample");
    let provenance = "imported from midrun-sample.json.gz; in use before the recording: unknown";
    assert!(sample.provenance().ends_with(provenance), "{}", sample.provenance());
    assert_eq!(sample.setup(), []);
    let stats = sample.stats();
    assert_eq!(stats.iterations.len(), 3);
    for stats in &stats.iterations {
        assert_eq!((stats.allocations, stats.frees, stats.launches), (25, 25, 18));
        assert_eq!((stats.peak, stats.live_at_end), (Bytes::new(404_528), Bytes::ZERO));
        assert_eq!(stats.peak_phase, None::<Phase>);
    }
    assert_eq!(stats.iterations[0].work, Ticks::new(870_945));
}

#[test]
fn files_are_recognised_by_what_is_in_them() {
    let sample = sample();
    let json = unzip(SAMPLE);
    let mut ztrace = Vec::new();
    sample.write(&mut ztrace).unwrap();
    for (name, content) in [
        ("midrun-sample.a.gz", json.clone().into_bytes()),
        ("midrun-sample.b.json", gzip(json.as_bytes())),
        ("midrun-sample.c.json", ztrace.clone()),
        ("midrun-sample", gzip(&ztrace)),
        ("midrun-sample.d", [b" \n\t", json.as_bytes()].concat()),
        (
            "midrun-sample.e",
            [gzip(&json.as_bytes()[..999]), gzip(&json.as_bytes()[999..])].concat(),
        ),
    ] {
        let trace = import::open(&file(name, &content)).unwrap();
        assert_eq!(trace.name(), sample.name());
        assert_eq!(trace.iterations(), sample.iterations(), "{name}");
    }
}

#[test]
fn files_that_are_of_no_use_are_named_with_the_reason() {
    let json = unzip(SAMPLE);
    let middle = json.find("[memory]").unwrap();
    let record = json[..middle].matches("\"ph\"").count() - 1;
    let cut_off = format!("the file is cut off (record {record} of traceEvents, line 1 column");
    let broken = json.replacen("[memory]\",", "[memory]\";", 1);
    let mut ztrace = Vec::new();
    sample().write(&mut ztrace).unwrap();
    let mut wrong_sum = SAMPLE.to_vec();
    *wrong_sum.iter_mut().nth_back(5).unwrap() ^= 1;
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(65 << 20));
    for (content, expected) in [
        (vec![], "the file is empty"),
        (gzip(b""), "the file is empty"),
        (
            b"PK\x03\x04".to_vec(),
            "neither a profile (JSON) nor a memory snapshot (pickle) nor a .ztrace",
        ),
        (gzip(SAMPLE), "neither a profile (JSON) nor a memory snapshot (pickle) nor a .ztrace"),
        (json.as_bytes()[..middle].to_vec(), &cut_off),
        (gzip(&json.as_bytes()[..middle]), &cut_off),
        (SAMPLE[..SAMPLE.len() / 2].to_vec(), "the file is cut off (record "),
        (SAMPLE[..SAMPLE.len() - 1].to_vec(), "the file is cut off (outside of traceEvents)"),
        (SAMPLE[..5].to_vec(), "the file cannot be read"),
        (wrong_sum, "corrupt gzip stream"),
        (broken.into_bytes(), "the JSON is broken (record "),
        (b"{\"a\": 1}".to_vec(), "the JSON has no traceEvents"),
        (b"{\"traceEvents\": 1}".to_vec(), "expected a list of events at line 1"),
        (
            b"{\"traceEvents\": [3]}".to_vec(),
            "the JSON is not that of a profile (record 0 of traceEvents",
        ),
        (b"[3]".to_vec(), "the JSON is not that of a profile (record 0 of the list"),
        (b"[]".to_vec(), "the profile has no memory events"),
        (b"[{\"ph\": \"i\"},".to_vec(), "the file is cut off (record 1 of the list"),
        (b"[{\"ph\": 1; 2}]".to_vec(), "the JSON is broken (record 0 of the list"),
        (b" 3".to_vec(), "expected an object with traceEvents"),
        (b"{\"traceEvents\": []} x".to_vec(), "trailing characters at line 1 column 21"),
        (gzip(long.as_bytes()), "a single record takes more than 64 MiB"),
        (ztrace[..ztrace.len() / 2].to_vec(), "reading it as a .ztrace: is damaged or cut off"),
    ] {
        let path = file("of-no-use", &content);
        let message = message(&import::open(&path).unwrap_err());
        assert!(message.starts_with(&format!("cannot import {}", path.display())), "{message}");
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
    let missing = import::open(Path::new("no/such/file")).unwrap_err();
    assert!(matches!(missing.problem, Problem::Io(_)), "{missing:?}");
    let folder = import::open(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_err();
    assert!(matches!(folder.problem, Problem::Io(_)), "{folder:?}");
}

/// The format of Chrome's traces has it so too: events, and nothing around them.
#[test]
fn a_list_of_events_alone_is_a_profile() {
    let json = unzip(SAMPLE);
    let (_, events) = json.split_once("\"traceEvents\":").unwrap();
    let mut depth = 0;
    let end = events.find(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ']' && depth == 0
    });
    let list = format!("\n{}\n", &events[..=end.unwrap()]);
    let alone = import::open(&file("midrun-sample.f.json", list.as_bytes())).unwrap();
    assert_eq!(alone.iterations(), sample().iterations());
}

/// What bounds a record does not bound a file.
#[test]
fn long_profiles_are_read_to_the_end() {
    let filler = format!("{{\"name\": \"{}\"}}, ", "x".repeat(1 << 20));
    let json = unzip(SAMPLE).replacen("[{", &format!("[{}{{", filler.repeat(66)), 1);
    let read = kineto::read(json.as_bytes(), String::new(), String::new(), &Options::default());
    assert_eq!(read.unwrap().trace.iterations(), sample().iterations());
}

#[test]
fn converting_keeps_all_but_the_description() {
    let input = file("to-convert.json.gz", SAMPLE);
    let output = input.with_file_name("converted.ztrace");
    let description = Description { name: Some("mine".to_owned()), ..Description::default() };
    let summary = convert(&input, &output, description, &Options::default()).unwrap();
    let converted = import::open(&output).unwrap();
    assert_eq!((converted.name(), &*summary.name), ("mine", "mine"));
    assert_eq!(converted.iterations(), sample().iterations());
    assert_eq!((summary.iterations, summary.blocks), (3, 75));
    assert_eq!((summary.setup_blocks, summary.launches), (0, 54));
    assert_eq!(summary.read, SAMPLE.len() as u64);
    assert_eq!(summary.written, output.metadata().unwrap().len());

    let nowhere =
        convert(&input, Path::new("no/such/folder/x"), Description::default(), &Options::default());
    assert!(message(&nowhere.unwrap_err()).starts_with("cannot write no/such/folder/x: "));
    let nothing =
        convert(Path::new("no/such/file"), &output, Description::default(), &Options::default());
    assert!(message(&nothing.unwrap_err()).starts_with("cannot import no/such/file: "));
}

/// Times by a rule: 4 GB/s is a quarter of a nanosecond for each byte.
#[test]
fn converting_with_a_bandwidth_times_each_block() {
    let input = file("to-time.json.gz", SAMPLE);
    let output = input.with_file_name("timed.ztrace");
    let rate = NonZeroU64::new(4_000_000_000);
    let description = Description { bandwidth: rate, ..Description::default() };
    convert(&input, &output, description, &Options::default()).unwrap();
    let timed = import::open(&output).unwrap();
    assert!(timed.provenance().ends_with("; times by a rule: each block written at 4 GB/s"));
    for (timed, recorded) in timed.iterations().iter().zip(sample().iterations()) {
        let other = |step: &&Step| !matches!(step, Step::Launch { .. });
        assert!(timed.steps().iter().filter(other).eq(recorded.steps().iter().filter(other)));
        let mut total = 0;
        for pair in timed.steps().windows(2) {
            let Step::Alloc { bytes, .. } = pair[0] else { continue };
            let work = bytes.value() / 4;
            total += work;
            let launched = matches!(pair[1], Step::Launch { .. });
            assert!(pair[1] == Step::Launch { work: Ticks::new(work) } || work == 0 && !launched);
        }
        assert_eq!(timed.recorded(), Ticks::new(total));
    }
}

proptest! {
    /// A profile with a few changed bytes gives a trace or an error.
    #[test]
    fn damage_is_survived(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut json = unzip(SAMPLE).into_bytes();
        let mut zipped = SAMPLE.to_vec();
        for (at, byte) in changes {
            let at_json = at.index(json.len());
            json[at_json] = byte;
            let at_zipped = at.index(zipped.len());
            zipped[at_zipped] ^= byte;
        }
        let read = |content: &[u8]| kineto::read(content, String::new(), String::new(), &Options::default());
        let _ = read(&json);
        prop_assert!(read(&json[..cut.index(json.len())]).is_err());
        let _ = read(&unzip_what_can_be(&zipped));
    }
}

fn unzip_what_can_be(file: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let _ = MultiGzDecoder::new(file).take(1 << 22).read_to_end(&mut content);
    content
}
