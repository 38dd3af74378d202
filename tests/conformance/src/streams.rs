//! Clauses about streams, events and time.

use zico_core::{Bytes, Passed, Ticks};

use super::{Check, Workload, must, must_not};

pub(super) fn checks<D: Workload>() -> Vec<Check<D>> {
    vec![
        ("an event passes with the work before it", an_event_passes_with_the_work_before_it),
        ("an event does not wait for later work", an_event_does_not_wait_for_later_work),
        ("a stream runs in order", a_stream_runs_in_order),
        ("a passed event stays passed", a_passed_event_stays_passed),
        ("a stream waits for an event", a_stream_waits_for_an_event),
        ("a passed event holds nothing up", a_passed_event_holds_nothing_up),
        ("waits reach through streams", waits_reach_through_streams),
        ("foreign streams are refused", foreign_streams_are_refused),
        ("no call waits for work", no_call_waits_for_work),
        ("the clock never goes backwards", the_clock_never_goes_backwards),
    ]
}

/// Long enough for a host to make some calls meanwhile, on a slow machine too.
const LONG: Ticks = Ticks::millis(400);

fn record<D: Workload>(device: &D, stream: D::Stream) -> D::Event {
    must(device.record(stream), "recording an event")
}

fn has_passed<D: Workload>(device: &D, event: &D::Event) -> bool {
    must(device.query(event), "querying an event") == Passed::Yes
}

/// Waits for an event that should complete soon; far less than [`LONG`].
fn passes_soon<D: Workload>(device: &D, event: &D::Event) -> bool {
    for _ in 0..1000 {
        if has_passed(device, event) {
            return true;
        }
        device.pass(Ticks::micros(100));
    }
    false
}

fn an_event_passes_with_the_work_before_it<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    device.enqueue(stream, LONG);
    let event = record(device, stream);
    assert!(!has_passed(device, &event), "an event must not pass before the work before it");
    device.finish();
    assert!(has_passed(device, &event), "an event must pass when the work before it has finished");
}

fn an_event_does_not_wait_for_later_work<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    let event = record(device, stream);
    device.enqueue(stream, LONG);
    let end = record(device, stream);
    assert!(passes_soon(device, &event), "an event must not wait for work enqueued after it");
    assert!(!has_passed(device, &end), "an event must not pass before the work before it");
    device.finish();
}

fn a_stream_runs_in_order<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    let events: Vec<_> = (0..20)
        .map(|_| {
            device.enqueue(stream, Ticks::millis(1));
            record(device, stream)
        })
        .collect();
    for _ in 0..10 {
        // The later one first: the device runs on between two queries.
        let passed: Vec<_> = events.iter().rev().map(|event| has_passed(device, event)).collect();
        assert!(passed.is_sorted(), "an event must not pass before an earlier one of its stream");
        device.pass(Ticks::millis(2));
    }
    device.finish();
}

fn a_passed_event_stays_passed<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    device.enqueue(stream, Ticks::micros(10));
    let event = record(device, stream);
    device.finish();
    device.enqueue(stream, LONG);
    let _later = record(device, stream);
    for _ in 0..3 {
        assert!(has_passed(device, &event), "an event that has passed must stay so");
    }
    device.finish();
    assert!(has_passed(device, &event), "an event that has passed must stay so");
}

fn a_stream_waits_for_an_event<D: Workload>(device: &D) {
    let (first, second) = (device.idle_stream(), device.idle_stream());
    let before = record(device, second);
    device.enqueue(first, LONG);
    let fence = record(device, first);
    must(device.order_after(second, &fence), "ordering a stream after an event");
    device.enqueue(second, Ticks::micros(1));
    let end = record(device, second);
    device.pass(Ticks::millis(1));
    assert!(passes_soon(device, &before), "a wait must not hold up what was enqueued before it");
    let (ended, passed) = (has_passed(device, &end), has_passed(device, &fence));
    assert!(passed || !ended, "work ordered after an event must not run before it has passed");
    device.finish();
    assert!(has_passed(device, &end), "work ordered after an event must run once it has passed");
}

fn a_passed_event_holds_nothing_up<D: Workload>(device: &D) {
    let (first, second) = (device.idle_stream(), device.idle_stream());
    let event = record(device, first);
    device.finish();
    device.enqueue(first, LONG);
    let busy = record(device, first);
    must(device.order_after(second, &event), "ordering a stream after a passed event");
    let end = record(device, second);
    assert!(passes_soon(device, &end), "an event that has passed must hold nothing up");
    assert!(!has_passed(device, &busy), "an event must not pass before the work before it");
    device.finish();
}

fn waits_reach_through_streams<D: Workload>(device: &D) {
    let streams: Vec<_> = (0..4).map(|_| device.idle_stream()).collect();
    device.enqueue(streams[0], LONG);
    let mut events = vec![record(device, streams[0])];
    for pair in streams.windows(2) {
        if let Some(last) = events.last() {
            must(device.order_after(pair[1], last), "ordering a stream after an event");
        }
        events.push(record(device, pair[1]));
    }
    let passed: Vec<_> = events.iter().rev().map(|event| has_passed(device, event)).collect();
    assert!(passed.is_sorted(), "a wait must hold up the events behind it");
    device.finish();
    let all = events.iter().all(|event| has_passed(device, event));
    assert!(all, "a chain of waits must end when the first event has passed");
}

fn foreign_streams_are_refused<D: Workload>(device: &D) {
    let Some(stream) = device.foreign_stream() else { return };
    must_not(device.record(stream), "recording on a stream of another device");
    let event = record(device, device.idle_stream());
    let result = device.order_after(stream, &event);
    must_not(result, "ordering a stream of another device");
}

fn no_call_waits_for_work<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    device.enqueue(stream, LONG);
    let busy = record(device, stream);
    let running = |call: &str| {
        assert!(!has_passed(device, &busy), "{call} must not wait for work on a stream to finish");
    };
    let unit = device.caps().granularity;
    let range = must(device.reserve(unit, unit), "reserving");
    running("reserve");
    let memory = must(device.create(unit), "creating one unit");
    running("create");
    must(device.map(&range, Bytes::ZERO, &[&memory]), "mapping");
    running("map");
    must(device.order_after(stream, &busy), "ordering a stream after its own event");
    running("order_after");
    must(device.unmap(&range, Bytes::ZERO, unit), "unmapping");
    running("unmap");
    must(device.destroy(memory), "destroying memory that is mapped nowhere");
    running("destroy");
    must(device.release(range), "releasing an empty range");
    running("release");
    device.finish();
}

fn the_clock_never_goes_backwards<D: Workload>(device: &D) {
    let stream = device.idle_stream();
    let mut last = device.now();
    for step in 0..100 {
        if step % 10 == 0 {
            device.enqueue(stream, Ticks::micros(50));
        }
        device.pass(Ticks::micros(step));
        let now = device.now();
        assert!(now >= last, "the clock must not go back: {last} and then {now}");
        last = now;
    }
    device.finish();
    assert!(device.now() >= last, "the clock must not go back");
}
