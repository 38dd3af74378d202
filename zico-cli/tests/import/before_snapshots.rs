//! What was in use before a snapshot's history began, and which device it is of.

use serde_json::{Value, json};
use zico_cli::import::{Device, Doubt, Options, Recorded, Source};
use zico_core::Bytes;

use crate::profile::{message, short};
use crate::snapshots::{read_with, snapshot};

/// A block in a segment.
fn block(size: i64, requested: i64, state: &str) -> Value {
    json!({"size": size, "requested_size": requested, "state": state})
}

/// One iteration, in which 10 bytes come and go, and 30 of before go; 100 and 7 of before are in
/// use at the end on this device, 50 on another one, and 64 wait to be free.
fn midrun() -> Value {
    let entries = [("alloc", 1, 10, 0), ("free_requested", 1, 10, 0), ("free_requested", 2, 30, 0)];
    let mut snapshot =
        snapshot(&entries, &[("iteration", "START", 1_000), ("iteration", "END", 9_000)]);
    snapshot["segments"] = json!([
        {"device": 0, "address": 4096, "blocks": [
            block(512, 100, "active_allocated"),
            block(512, 64, "active_pending_free"),
            block(512, 9, "inactive"),
            block(512, 7, "active_allocated"),
        ]},
        {"device": 1, "address": 4096, "blocks": [block(512, 50, "active_allocated")]},
    ]);
    snapshot
}

#[test]
fn what_was_in_use_before_is_in_the_segments_and_in_the_frees() {
    let recorded = read_with(&midrun(), &Options::default()).unwrap();
    let setup = |recorded: &Recorded| short(&recorded.trace)[0].clone();
    assert_eq!(setup(&recorded), "iteration 0=30, persistent 1=100, persistent 2=7");
    let stats = &recorded.trace.stats().iterations[0];
    assert_eq!((stats.live_at_start.value(), stats.live_at_end.value()), (137, 107));
    let before = &recorded.origin.before;
    assert_eq!((before.bytes.value(), before.block.value()), (137, 0));
    assert_eq!((before.source, before.doubt), (Source::Segments, None));
    let lines = ["In use before the recording: 137 B, by the segments and the frees"];
    assert_eq!(recorded.origin.lines(), lines);
    // The user knows of more, or of less than there is.
    let given = |bytes| Options { kept_before: Some(bytes), ..Options::default() };
    let told = read_with(&midrun(), &given(Bytes::new(1137))).unwrap();
    assert_eq!(told.origin.before.block.value(), 1000);
    assert!(setup(&told).starts_with("persistent 0=1000, "), "{}", setup(&told));
    let error = read_with(&midrun(), &given(Bytes::new(136))).unwrap_err();
    let expected =
        "--kept-before 136 B cannot be: 137 B of what was there before are in the snapshot";
    assert_eq!(message(&error), expected);
    // Without segments only the frees tell.
    let mut bare = midrun();
    bare.as_object_mut().unwrap().remove("segments");
    let before = read_with(&bare, &Options::default()).unwrap().origin.before;
    assert_eq!((before.bytes.value(), before.source), (30, Source::Frees));
    assert_eq!(before.doubt, Some(Doubt::NoSegments));
}

#[test]
fn of_several_devices_the_one_that_allocates_the_most_is_taken() {
    let mut several = midrun();
    let entry = |bytes: i64| json!({"action": "alloc", "addr": 4097, "size": bytes, "stream": 0, "time_us": 2000});
    several["device_traces"] = json!([several["device_traces"][0], [entry(20)], [], [entry(20)]]);
    let cuda = |index| Device::Accelerator { kind: 1, index };
    let recorded = read_with(&several, &Options::default()).unwrap();
    assert_eq!((recorded.origin.device, recorded.origin.others), (cuda(1), vec![cuda(0), cuda(3)]));
    assert_eq!(recorded.origin.before.bytes.value(), 50, "of its own segments");
    let index = |index| Options { device_index: Some(index), ..Options::default() };
    let first = read_with(&several, &index(0)).unwrap();
    assert_eq!((first.origin.device, first.origin.before.bytes.value()), (cuda(0), 137));
    for wrong in [2, 4, u32::MAX] {
        let error = message(&read_with(&several, &index(wrong)).unwrap_err());
        let expected = format!(
            "the snapshot has no allocations of device {wrong}, only of CUDA device 0, CUDA device 1, CUDA \
             device 3"
        );
        assert_eq!(error, expected);
    }
}
