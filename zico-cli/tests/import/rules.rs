//! The rules by which a profile becomes a trace.

use proptest::prelude::*;
use zico_core::Ticks;
use zico_mock::trace::Iteration;

use crate::profile::{annotation, memory, message, op, read, short, span};

fn steps_of(events: &[String]) -> Vec<String> {
    short(&read(events).unwrap())
}

#[test]
fn events_are_merged_by_time_and_not_by_place() {
    let events = [
        memory("150", 8, -64),
        memory("110", 8, 64),
        op("120", "20.125"),
        annotation("forward", "105", "50"),
        annotation("iteration", "100", "100"),
        // Two at one moment: as they stand in the file.
        memory("160", 8, 32),
        memory("160", 8, -32),
    ];
    let expected = ["", "forward, iteration 0=64, run 20125, free 0, iteration 1=32, free 1"];
    assert_eq!(steps_of(&events), expected);
}

#[test]
fn times_keep_their_nanoseconds() {
    // More digits than a 64-bit float has, and the order of the events hangs on the last one.
    let events = [
        annotation("iteration", "1712345678901234.000", "1000.001"),
        memory("1712345678901235.002", 8, -64),
        memory("1712345678901235.001", 8, 64),
        op("1712345678901236.003", "10.000"),
    ];
    let trace = read(&events).unwrap();
    assert_eq!(short(&trace), ["", "iteration 0=64, free 0, run 10000"]);
    assert_eq!(trace.iterations()[0].recorded(), Ticks::new(1_000_001));
}

#[test]
fn iterations_reach_to_the_next_one_and_the_last_to_its_end() {
    let events = [
        annotation("iteration", "100", "50"),
        annotation("iteration", "200", "50"),
        memory("10", 7, 16), // freed in the teardown, so kept by all iterations
        memory("250", 7, -16),
        memory("170", 8, 64),  // between the marks
        memory("210", 8, -64), // in the second iteration
        memory("220", 9, 32),
        memory("250", 9, -32), // teardown: the mark has just ended
    ];
    let trace = read(&events).unwrap();
    assert_eq!(short(&trace), ["persistent 0=16", "iteration 1=64", "free 1, iteration 2=32"]);
    let recorded: Vec<_> = trace.iterations().iter().map(Iteration::recorded).collect();
    assert_eq!(recorded, [Ticks::micros(100), Ticks::micros(50)]);
}

#[test]
fn profiler_steps_stand_in_for_iterations() {
    let step = |number: u32, at: &str| annotation(&format!("ProfilerStep#{number}"), at, "50");
    let memory = [memory("110", 8, 64), memory("210", 8, -64)];
    let mut events = [&memory[..], &[step(7, "100"), step(8, "200")]].concat();
    assert_eq!(steps_of(&events), ["", "iteration 0=64", "free 0"]);
    // With marks of both kinds only `iteration` counts, and only as the user's annotation.
    events.push(span("gpu_user_annotation", "iteration", "0", "1000"));
    assert_eq!(steps_of(&events).len(), 3);
    events.push(annotation("iteration", "100", "200"));
    assert_eq!(steps_of(&events), ["", "iteration 0=64, free 0"]);
}

#[test]
fn the_setup_is_what_is_alive_when_iterations_begin() {
    let events = [
        memory("10", 1, 100), // a parameter
        memory("20", 2, 7),   // gone before the first iteration
        memory("30", 2, -7),
        memory("40", 2, 20),    // a first batch, freed in an iteration
        memory("50", 3, -1000), // from before the recording, and gone too
        memory("110", 4, -5),   // from before the recording, alive until here
        memory("120", 2, -20),
        annotation("iteration", "100", "50"),
    ];
    let expected = ["iteration 0=5, persistent 1=100, iteration 2=20", "free 0, free 2"];
    assert_eq!(steps_of(&events), expected);
}

#[test]
fn what_the_first_of_several_iterations_leaves_is_persistent() {
    let mut events = vec![
        memory("110", 1, 10), // optimizer state
        memory("120", 2, 20), // alive into the next iteration only
        annotation("iteration", "100", "50"),
    ];
    assert_eq!(steps_of(&events), ["", "iteration 0=10, iteration 1=20"]);
    events.extend([
        annotation("iteration", "200", "50"),
        memory("210", 2, -20),
        memory("220", 3, 30), // alive at the end, but not from the first iteration
    ]);
    assert_eq!(
        steps_of(&events),
        ["", "persistent 0=10, iteration 1=20", "free 1, iteration 2=30"]
    );
}

#[test]
fn launches_stand_between_the_memory_events_that_cut_them() {
    let events = [
        annotation("iteration", "0", "1000"),
        annotation("backward", "105", "10"), // cuts nothing
        op("100", "100"),
        op("120", "30"),
        memory("160", 1, 1),
        memory("165", 1, -1), // 5 microseconds apart: no launch between them
        op("300", "9.999"),   // too short
        op("990", "20"),      // begins in the iteration
        op("1000", "20"),     // and that one after it
    ];
    let expected = "run 20000, backward, run 30000, run 10000, iteration 0=1, free 0, run 35000";
    assert_eq!(steps_of(&events)[1], format!("{expected}, run 10000"));
}

#[test]
fn accelerators_go_before_the_cpu() {
    let on = |device: &str, event: String| {
        event.replace("\"Device Type\": 0, \"Device Id\": -1", device)
    };
    let gpu = |id: u32, event| on(&format!("\"Device Type\": 1, \"Device Id\": {id}"), event);
    let mut events = vec![
        annotation("iteration", "0", "1000"),
        memory("10", 1, 1),
        gpu(0, memory("20", 1, 2)), // the same address on another device
        memory("30", 1, -1),
        gpu(0, memory("40", 1, -2)),
        gpu(0, memory("50", 1, 0)), // an address without memory
    ];
    assert_eq!(steps_of(&events), ["", "iteration 0=2, free 0"]);
    events.push(gpu(3, memory("60", 1, 1))); // less than on the first one
    assert_eq!(steps_of(&events), ["", "iteration 0=2, free 0"]);
    // An older exporter does not say the device.
    let plain =
        events.iter().take(2).map(|event| on("\"x\": 0", event.clone())).collect::<Vec<_>>();
    assert_eq!(steps_of(&plain), ["", "iteration 0=1"]);
}

#[test]
fn what_is_not_used_may_be_anything() {
    let events = [
        "{}".to_owned(),
        r#"{"ph": 1, "name": null, "cat": ["x"], "ts": "soon", "args": 5, "more": {"a": [1]}}"#
            .to_owned(),
        r#"{"ph": "M", "name": "process_name", "pid": "Spans", "tid": {}}"#.to_owned(),
        r#"{"ph": "X", "cat": "kernel", "name": "[memory]"}"#.to_owned(),
        annotation("iteration", "0", "1000").replace("user", "\\u0075ser"),
        memory("10", 1, 1).replace("\"pid\": 1, \"tid\": 1,", ""),
        op("11", "1").replace("\"pid\": 1", "\"pid\": \"python\""),
    ];
    assert_eq!(steps_of(&events), ["", "iteration 0=1"]);
}

#[test]
fn events_that_make_no_sense_are_named() {
    let iteration = annotation("iteration", "0", "1000");
    let cases = [
        (vec![iteration.clone()], "no memory events: record it with profile(profile_memory=True)"),
        (vec![memory("1", 1, 1)], "no iterations"),
        (
            vec![memory("1", 1, 1), iteration.clone(), annotation("iteration", "999", "5")],
            "record 2",
        ),
        (
            vec![iteration.clone(), memory("1", 16, 5), memory("2", 16, 6)],
            "record 2: 0x10 is allocated, but is in use since record 1",
        ),
        (
            vec![iteration.clone(), memory("1", 16, 5), memory("2", 16, -6)],
            "record 2: 6 bytes are freed at 0x10, where record 1 allocated 5",
        ),
        (vec![memory("true", 1, 1)], "record 0: ts is true"),
        (vec![memory("1e300", 1, 1)], "record 0: ts is 1e300"),
        (
            vec![memory("1", 1, 1).replace("Addr", "Adr")],
            "record 0: args (with Bytes and Addr) is {\"Adr\": 1",
        ),
        (vec![op("1", "1"), op("1", "1").replace("\"dur\"", "\"d\"")], "record 1: dur is missing"),
        (vec![op("1", "-1")], "record 0: dur is -1"),
        (vec![op("9223372036854775", "1")], "record 0: dur is 1"),
        (
            vec![iteration, memory("1", 1, i64::MAX), memory("2", 2, i64::MAX), memory("3", 3, 2)],
            "step 2 of iteration 0: bytes add up to more than can be counted",
        ),
    ];
    for (events, expected) in cases {
        let message = message(&read(&events).unwrap_err());
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}

proptest! {
    /// Events with any figures, in any order: the rules hold together.
    #[test]
    fn any_events_are_survived(events in proptest::collection::vec(
        (0..5u8, 0..200u32, 0..60u32, -3..4i64), 1..60,
    )) {
        let mut all = vec![annotation("iteration", "50", "50")];
        all.extend(events.into_iter().map(|(kind, at, dur, bytes)| match kind {
            0 => op(&at.to_string(), &dur.to_string()),
            1 => annotation("ProfilerStep#1", &at.to_string(), &dur.to_string()),
            2 => annotation("forward", &at.to_string(), &dur.to_string()),
            _ => memory(&at.to_string(), dur, bytes),
        }));
        if let Ok(trace) = read(&all) {
            prop_assert_eq!(trace.iterations().len(), 1);
        }
    }
}
