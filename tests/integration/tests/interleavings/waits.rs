//! Waiting, wake-ups and refusals while calls are in progress.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use zico_core::{AllocError, Begin, Bytes, Lifetime, Request, Ticks};
use zico_mock::policy::{AlwaysStart, Exclusive};
use zico_mock::{Operation, Utilisation};
use zico_tests::hook::When;
use zico_tests::waves::{Reckless, regions};

use super::{Setup, blocks, out_of_memory};

/// Whether a request that was made in mid-call was told that there is no memory, for good.
type Answer = Arc<Mutex<Option<bool>>>;

/// One job's trouble with the device is not another's.
#[test]
fn what_the_device_refuses_one_job_does_not_stop_another() {
    let setup = Setup::new(4, |config| config);
    let ((one, _), (two, _), (three, _)) =
        (setup.join("one"), setup.join("two"), setup.join("three"));
    one.free(one.alloc(blocks(1)).unwrap()).unwrap();
    two.free(two.alloc(blocks(3)).unwrap()).unwrap();
    setup.hook.on(Operation::Record, When::Before, || true);
    three.alloc(blocks(2)).unwrap();
}

#[test]
fn a_free_wakes_another_thread_of_the_job() {
    let setup = Setup::new(2, |config| config);
    let ((one, _), (two, _)) = (setup.join("one"), setup.join("two"));
    let half = Request::new(Bytes::mib(1), Lifetime::Iteration);
    let (first, _second) = (one.alloc(half).unwrap(), one.alloc(half).unwrap());
    two.alloc(blocks(1)).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting = pin!(one.alloc_async(half));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    one.free(first).unwrap();
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}

/// Two jobs hold what the other one needs. The one that asks beyond its profile is told, the other
/// one is not; and none of them spins.
#[test]
fn whoever_asks_beyond_its_profile_is_told_even_if_another_finds_that_nothing_goes_on() {
    whoever_asks_beyond_its_profile_is_told(false);
}

#[test]
fn whoever_asks_beyond_its_profile_is_told_and_nobody_else() {
    whoever_asks_beyond_its_profile_is_told(true);
}

fn whoever_asks_beyond_its_profile_is_told(gets_something: bool) {
    let setup = Setup::new(10, |config| config.policy(Box::new(Reckless)));
    let (greedy, good) = (setup.join("greedy"), setup.join("good"));
    setup.learn(&greedy, &[3]);
    setup.learn(&good, &[4, 3]);
    let (greedy, good) = (greedy.0, good.0);
    assert_eq!(greedy.begin(None).unwrap(), Begin::Started);
    assert_eq!(good.begin(None).unwrap(), Begin::Started);
    good.alloc(blocks(4)).unwrap();
    // It begins as always; what comes then is more than the other one can do without.
    greedy.alloc(blocks(3)).unwrap();
    greedy.alloc(blocks(2)).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut beyond = pin!(greedy.alloc_async(blocks(5)));
    assert!(beyond.as_mut().poll(&mut context).is_pending());
    if gets_something {
        // Another thread of the same job does: the first one still waits.
        greedy.alloc(blocks(1)).unwrap();
    }
    let mut within = pin!(good.alloc_async(blocks(3)));
    let first = within.as_mut().poll(&mut context);
    assert!(first.is_pending(), "{first:?}");
    let told = beyond.as_mut().poll(&mut context);
    assert!(matches!(told, Poll::Ready(Err(AllocError::OutOfMemory(_)))), "{told:?}");
}

#[test]
fn a_request_that_was_given_up_is_nobodys_deadlock() {
    let setup = Setup::new(11, |config| config.policy(Box::new(Reckless)));
    let (prober, other) = (setup.join("prober"), setup.join("other"));
    setup.learn(&prober, &[4, 1]);
    setup.learn(&other, &[5]);
    let (prober, other) = (prober.0, other.0);
    assert_eq!(prober.begin(None).unwrap(), Begin::Started);
    assert_eq!(other.begin(None).unwrap(), Begin::Started);
    prober.alloc(blocks(4)).unwrap();
    other.alloc(blocks(5)).unwrap();
    assert!(matches!(prober.alloc(blocks(5)), Err(AllocError::Busy(_))));
    let small = Request::new(Bytes::kib(4), Lifetime::Iteration);
    prober.alloc(small).unwrap();
    assert!(!out_of_memory(&other.alloc(blocks(2))), "the prober goes on, and will free");
}

#[test]
fn a_fence_in_flight_is_waited_for() {
    let setup = Setup::new(2, |config| config);
    let ((one, _), (two, _)) = (setup.join("one"), setup.join("two"));
    let (first, second) = (one.alloc(blocks(1)).unwrap(), one.alloc(blocks(1)).unwrap());
    one.free(first).unwrap();
    let (answer, pool) = (Answer::default(), setup.pool.clone());
    let (slot, one, asker) = (answer.clone(), one.clone(), two.clone());
    setup.hook.on(Operation::Record, When::After, move || {
        one.free(second).unwrap();
        pool.poll().unwrap();
        *slot.lock().unwrap() = Some(out_of_memory(&asker.alloc(blocks(2))));
        false
    });
    setup.pool.poll().unwrap();
    assert_eq!(*answer.lock().unwrap(), Some(false));
    two.alloc(blocks(2)).unwrap();
}

#[test]
fn what_a_job_leaves_behind_is_looked_at_before_memory_is_refused() {
    let setup = Setup::new(1, |config| config.policy(Box::new(AlwaysStart)));
    let ((one, _), (two, _)) = (setup.join("one"), setup.join("two"));
    one.alloc(blocks(1)).unwrap();
    drop(one);
    assert!(!out_of_memory(&two.alloc(blocks(1))));
}

#[test]
fn a_lease_that_fails_lets_a_waiting_job_start() {
    let setup = Setup::new(10, |config| config);
    let (one, two) = (setup.join("one"), setup.join("two"));
    setup.learn(&two, &[7]);
    let (asked, waiting) = (Arc::new(Mutex::new(None)), two.0.clone());
    let slot = asked.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        *slot.lock().unwrap() = Some(waiting.begin(None).unwrap());
        true
    });
    assert!(one.0.alloc(blocks(8)).is_err());
    assert_eq!(*asked.lock().unwrap(), Some(Begin::Wait(None)));
    assert_eq!(two.0.begin(None).unwrap(), Begin::Started);
}

#[test]
fn parked_blocks_come_back_whatever_happens_meanwhile() {
    // An event that could not be recorded, outside an iteration.
    let setup = Setup::new(2, |config| config);
    let ((one, _), (two, _)) = (setup.join("one"), setup.join("two"));
    let side = setup.device.add_stream();
    let block = one.alloc(blocks(2)).unwrap();
    one.record_use(block, side).unwrap();
    for _ in 0..2 {
        setup.hook.on(Operation::Record, When::Before, || true);
    }
    one.free(block).unwrap();
    setup.pool.poll().unwrap();
    let block = two.alloc(blocks(2)).unwrap();
    two.free(block).unwrap();

    // A free while the iteration ends.
    assert_eq!(one.begin(None).unwrap(), Begin::Started);
    let (block, other) = (one.alloc(blocks(1)).unwrap(), one.alloc(blocks(1)).unwrap());
    one.record_use(block, side).unwrap();
    one.free(other).unwrap();
    let freeing = one.clone();
    setup.hook.on(Operation::Record, When::Before, move || {
        freeing.free(block).unwrap();
        false
    });
    one.end().unwrap();
    setup.pool.poll().unwrap();
    two.alloc(blocks(2)).unwrap();
}

#[test]
fn a_block_on_its_way_back_is_waited_for() {
    let setup = Setup::new(1, |config| config);
    let (job, _) = setup.join("job");
    let side = setup.device.add_stream();
    assert_eq!(job.begin(None).unwrap(), Begin::Started);
    let block = job.alloc(blocks(1)).unwrap();
    job.record_use(block, side).unwrap();
    setup.device.launch(side, Ticks::millis(1), Utilisation::FULL).unwrap();
    job.free(block).unwrap();
    let (answer, asker) = (Answer::default(), job.clone());
    let slot = answer.clone();
    setup.hook.on(Operation::OrderAfter, When::Before, move || {
        *slot.lock().unwrap() = Some(out_of_memory(&asker.alloc(blocks(1))));
        false
    });
    job.end().unwrap();
    assert_eq!(*answer.lock().unwrap(), Some(false));
}

#[test]
fn a_lowered_budget_is_reached_when_nothing_runs_any_more() {
    let setup = Setup::new(10, |config| config.policy(Box::new(Exclusive)));
    let (one, two) = (setup.join("one"), setup.join("two"));
    setup.learn(&one, &[7]);
    setup.learn(&two, &[7]);
    assert_eq!(one.0.begin(None).unwrap(), Begin::Started);
    assert!(matches!(two.0.begin(None).unwrap(), Begin::Wait(_)));
    one.0.end().unwrap();
    setup.pool.set_budget(regions(3)).unwrap();
    two.0.withdraw();
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.budget_status().pending, Bytes::ZERO, "one may start, and withdraws");

    let setup = Setup::new(10, |config| config);
    let (job, pool) = (setup.join("job").0, setup.pool.clone());
    setup.hook.on(Operation::Create, When::Before, move || {
        pool.set_budget(regions(3)).unwrap();
        true
    });
    assert!(job.alloc(blocks(8)).is_err());
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.budget_status().pending, Bytes::ZERO, "a lease that fails");
}
