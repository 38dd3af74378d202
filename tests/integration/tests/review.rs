//! What a review of the core has found, each in the shortest program that shows it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use zico_core::{
    AllocError, AutoJob, Begin, BeginError, Bytes, JobConfig, Lifetime, Pool, PoolConfig, Request,
    Ticks,
};
use zico_mock::policy::AlwaysStart;
use zico_mock::{MockConfig, MockDevice, Operation, Utilisation};
use zico_tests::between::Between;
use zico_tests::hook::{Hook, When};
use zico_tests::waves::{REGION, regions};

fn own(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

fn stays(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Persistent)
}

fn part(of: u64, lifetime: Lifetime) -> Request {
    Request::new(Bytes::new(REGION.value() / of), lifetime)
}

fn mock(gib: u64) -> MockDevice {
    MockDevice::new(MockConfig::new(Bytes::gib(gib))).unwrap()
}

fn config(budget: u64) -> PoolConfig {
    PoolConfig::new(regions(budget)).region_size(REGION)
}

/// A future as its task would poll it: when the pool's generation has changed, it asks again.
fn look<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// I1, I8: a fence of more than 1024 regions is passed in slices. A lease of regions behind it that
/// the device refuses between two slices puts them back as draining, in a fence whose list has lost
/// them. A job leases its own that drain, for blocks of another lifetime.
#[test]
fn regions_behind_a_fence_that_is_half_passed_come_back_from_a_lease_that_fails() {
    let device = mock(4);
    let hook = Hook::new(device.clone());
    let pool = Pool::new(hook.clone(), config(1500)).unwrap();
    let stream = device.add_stream();
    let a = pool.join("a", stream).unwrap();
    let b = pool.join("b", device.add_stream()).unwrap();
    let block = a.alloc(own(1500)).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    a.free(block).unwrap();
    let (others, inner, time) = (pool.clone(), hook.clone(), device.clone());
    hook.on(Operation::Map, When::Before, move || {
        // Another thread polls. Its second look at the fence fails.
        time.run_until_idle();
        inner.on(Operation::Query, When::Before, || false);
        inner.on(Operation::Query, When::Before, || true);
        others.poll().unwrap();
        true
    });
    let refused = a.alloc(Request::new(regions(1500), Lifetime::Persistent));
    assert!(matches!(refused, Err(AllocError::Device(_))), "{refused:?}");
    for _ in 0..4 {
        device.run_until_idle();
        pool.poll().unwrap();
    }
    assert_eq!(a.held().draining, Bytes::ZERO, "the device has passed all of it");
    b.alloc(own(1500)).unwrap();
}

/// I4, I6: of more than 4096 free regions those are looked at first that this lease has chosen
/// already.
#[test]
fn a_lease_finds_all_free_regions_of_very_many() {
    let device = mock(16);
    let pool = Pool::new(device.clone(), config(7000)).unwrap();
    let a = pool.join("a", device.add_stream()).unwrap();
    let b = pool.join("b", device.add_stream()).unwrap();
    let blocks = (a.alloc(own(5500)).unwrap(), b.alloc(own(1500)).unwrap());
    a.free(blocks.0).unwrap();
    b.free(blocks.1).unwrap();
    device.run_until_idle();
    pool.poll().unwrap();
    let all = a.alloc(own(7000));
    assert!(all.is_ok(), "all 7000 are free: {}", all.unwrap_err());
}

/// I4: what another stream uses keeps the pool from saying that nothing can go on. When that is
/// over and no page has become empty by it, nobody asks again.
#[test]
fn those_who_wait_are_told_when_the_last_parked_block_is_released() {
    let device = mock(1);
    let pool = Pool::new(Between::new(device.clone()), config(8)).unwrap();
    let a = pool.join("a", device.add_stream()).unwrap();
    let b = pool.join("b", device.add_stream()).unwrap();
    let side = device.add_stream();
    let [x, _y] = [(); 2].map(|()| a.alloc(part(4, Lifetime::Iteration)).unwrap());
    a.record_use(x, side).unwrap();
    pool.device().mute(side);
    a.free(x).unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    let mut waits = pin!(a.begin_async(None));
    assert!(look(waits.as_mut()).is_none());
    let mut wants = pin!(b.alloc_async(own(8)));
    assert!(look(wants.as_mut()).is_none());
    pool.device().unmute(side);
    let done = (0..20).any(|_| {
        device.run_until_idle();
        pool.poll().unwrap();
        look(waits.as_mut()).is_some() || look(wants.as_mut()).is_some()
    });
    assert!(done, "both wait for ever: {:?}", pool.waits());
}

/// I4: one thread of a job waits, another goes on for a moment and then waits for the first. Where
/// nothing can go on any more, nobody is told.
#[test]
fn a_job_that_has_gone_on_by_another_thread_is_told_that_nothing_can() {
    for goes_on in [false, true] {
        let device = mock(1);
        let pool = Pool::new(device.clone(), config(8)).unwrap();
        let join = |name| {
            let terms = JobConfig::new(name).declare(regions(4));
            pool.join(terms, device.add_stream()).unwrap()
        };
        let (a, b) = (join("a"), join("b"));
        assert_eq!((a.begin(None), b.begin(None)), (Ok(Begin::Started), Ok(Begin::Started)));
        a.alloc(own(4)).unwrap();
        b.alloc(own(2)).unwrap();
        b.alloc(part(4, Lifetime::Iteration)).unwrap();
        // The first thread of `b` wants more than there is.
        let mut first = pin!(b.alloc_async(own(3)));
        assert!(look(first.as_mut()).is_none());
        if goes_on {
            // The second one has what it needs, and from now on waits for the first.
            b.alloc(part(4, Lifetime::Iteration)).unwrap();
        }
        let mut other = pin!(a.alloc_async(own(3)));
        let done = (0..20).any(|_| {
            let done = look(other.as_mut()).is_some() || look(first.as_mut()).is_some();
            device.run_until_idle();
            pool.poll().unwrap();
            done
        });
        assert!(done, "both wait for ever (goes on: {goes_on}): {:?}", pool.waits());
    }
}

/// I7: a declaration of more than there is, where the policy lets all begin that the pool does.
#[test]
fn an_absurd_declaration_does_not_overflow_a_claim() {
    let device = mock(1);
    let pool = Pool::new(device.clone(), config(64).policy(Box::new(AlwaysStart))).unwrap();
    let a = pool.join("a", device.add_stream()).unwrap();
    let terms = JobConfig::new("b").declare(Bytes::MAX);
    let b = pool.join(terms, device.add_stream()).unwrap();
    b.alloc(stays(1)).unwrap();
    assert!(matches!(b.begin(None), Err(BeginError::NeverFits { .. })));
    for size in 1..5 {
        assert_eq!(a.begin(None), Ok(Begin::Started));
        a.free(a.alloc(own(size)).unwrap()).unwrap();
        a.end().unwrap();
    }
}

/// I7: the same in a snapshot, with regions of 8 GiB.
#[test]
fn an_absurd_declaration_does_not_overflow_a_snapshot() {
    let device = mock(64);
    let config = PoolConfig::new(Bytes::gib(64)).region_size(Bytes::gib(8));
    let pool = Pool::new(device.clone(), config).unwrap();
    let terms = JobConfig::new("a").declare(Bytes::MAX);
    let a = pool.join(terms, device.add_stream()).unwrap();
    assert!(!pool.snapshot().jobs.is_empty());
    assert!(a.begin(None).is_err());
}

/// I1: a lowered budget that has been reached by what is leased is not gone beyond again, whatever
/// the policy, before somebody polls.
#[test]
fn what_is_beyond_a_lowered_budget_is_nobodys() {
    let device = mock(1);
    let pool = Pool::new(device.clone(), config(8).policy(Box::new(AlwaysStart))).unwrap();
    let a = pool.join("a", device.add_stream()).unwrap();
    assert_eq!(a.begin(None), Ok(Begin::Started));
    let block = a.alloc(own(6)).unwrap();
    pool.set_budget(regions(2)).unwrap();
    a.free(block).unwrap();
    a.end().unwrap();
    device.run_until_idle();
    let again = [(); 3].map(|()| a.alloc(own(2)).is_ok());
    pool.poll().unwrap();
    assert_eq!(again, [true, false, false], "{:?}", pool.budget_status());
}

/// I4, I6: an allocation of a job whose iterations are detected waits for its iteration to begin,
/// and is given up. Then that iteration is let in, and nobody ever begins it: all others wait for
/// ever.
#[test]
fn an_allocation_that_is_given_up_does_not_keep_others_from_starting() {
    let device = mock(1);
    let pool = Pool::new(device.clone(), config(8)).unwrap();
    let a = pool.join("a", device.add_stream()).unwrap();
    let b = AutoJob::new(pool.join("b", device.add_stream()).unwrap());
    assert_eq!(a.begin(None), Ok(Begin::Started));
    {
        let mut wants = pin!(b.alloc_async(own(1)));
        assert!(look(wants.as_mut()).is_none(), "an iteration of which nothing is known runs");
    }
    a.end().unwrap();
    let started = (0..5).any(|minutes| {
        device.advance_to(Ticks::millis(100_000 * (minutes + 1)));
        pool.poll().unwrap();
        a.begin(None) == Ok(Begin::Started)
    });
    assert!(started, "waits for ever: {:?}", pool.waits());
}
