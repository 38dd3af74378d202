//! Every interleaving of two threads on one pool, within a bound on preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg zico_loom" LOOM_MAX_PREEMPTIONS=3 \
//!   cargo test --release -p zico-loom --target-dir target/loom
//! ```
//!
//! The core's locks and atomics are loom's here; the mock device keeps std's lock, within which no
//! thread is ever switched. Budgets are one or two regions, so that every boundary is hit. A thread
//! that is told to wait looks again only when the pool's generation has changed: a wake-up that is
//! lost leaves it waiting for ever, which loom reports.

#![cfg(all(zico_loom, test))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

// Of the package of tests, without what else is in it: that would have to be built for loom too.
#[path = "../../integration/src/between.rs"]
pub mod between;
#[path = "../../integration/src/hook.rs"]
pub mod hook;

use std::sync::atomic::{AtomicU32, Ordering};

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;
use zico_core::policy::{Policy, TimeShift};
use zico_core::{
    AllocError, Begin, Block, Bytes, Device, Job, JobConfig, Lifetime, Pool, PoolConfig, Request,
    Resume, ResumeError, SuspendError, Ticks,
};
use zico_mock::policy::{AlwaysStart, Exclusive};
use zico_mock::{MockConfig, MockDevice, Utilisation};

use between::Between;
use hook::When;

const REGION: Bytes = Bytes::mib(2);

fn pool(regions: u64, policy: impl Policy + 'static) -> (MockDevice, Pool<MockDevice>) {
    let budget = Bytes::new(regions * REGION.value());
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = PoolConfig::new(budget).region_size(REGION).policy(Box::new(policy));
    (device.clone(), Pool::new(device, config).unwrap())
}

fn join(device: &MockDevice, pool: &Pool<MockDevice>) -> Job<MockDevice> {
    pool.join("job", device.add_stream()).unwrap()
}

/// One region, however long that takes.
fn take(pool: &Pool<MockDevice>, job: &Job<MockDevice>) -> Block {
    loop {
        let seen = pool.generation();
        match job.alloc(Request::new(REGION, Lifetime::Iteration)) {
            Ok(block) => return block,
            Err(AllocError::Busy(_)) => wait(pool, seen),
            Err(error) => panic!("{error}"),
        }
    }
}

fn wait(pool: &Pool<MockDevice>, seen: u32) {
    while pool.generation() == seen {
        thread::yield_now();
    }
}

fn all_came_back(device: &MockDevice, pool: Pool<MockDevice>) {
    pool.poll().unwrap();
    let snapshot = pool.snapshot();
    assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
    drop(pool);
    assert_eq!((device.usage().physical, device.usage().ranges), (Bytes::ZERO, 0));
    assert_eq!(device.violation_count(), 0);
}

/// One job frees and polls while another asks for the only region: the one that waits is woken in
/// every order of free, fence, poll and denial.
#[test]
fn a_region_is_handed_over_and_the_wake_up_is_not_lost() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (giver, taker) = (join(&device, &pool), join(&device, &pool));
        let block = take(&pool, &giver);
        let other = pool.clone();
        let giving = thread::spawn(move || {
            giver.free(block).unwrap();
            other.poll().unwrap();
            drop(giver);
        });
        let block = take(&pool, &taker);
        taker.free(block).unwrap();
        giving.join().unwrap();
        drop(taker);
        all_came_back(&device, pool);
    });
}

/// The same with a task that sleeps until its waker is called.
#[test]
fn a_task_that_sleeps_is_woken() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (giver, taker) = (join(&device, &pool), join(&device, &pool));
        let block = take(&pool, &giver);
        let other = pool.clone();
        let giving = thread::spawn(move || {
            giver.free(block).unwrap();
            other.poll().unwrap();
            drop(giver);
        });
        let request = Request::new(REGION, Lifetime::Iteration);
        let block = loom::future::block_on(taker.alloc_async(request)).unwrap();
        taker.free(block).unwrap();
        giving.join().unwrap();
        drop(taker);
        all_came_back(&device, pool);
    });
}

/// One job frees and trims while another asks: the region is never taken and destroyed at once.
#[test]
fn a_region_is_trimmed_or_taken() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (giver, taker) = (join(&device, &pool), join(&device, &pool));
        let block = take(&pool, &giver);
        let other = pool.clone();
        let giving = thread::spawn(move || {
            giver.free(block).unwrap();
            other.trim(Bytes::ZERO).unwrap();
            giver
        });
        let block = take(&pool, &taker);
        taker.free(block).unwrap();
        drop(giving.join().unwrap());
        drop(taker);
        all_came_back(&device, pool);
    });
}

/// One thread frees a block, and with it a page, while another thread of the job allocates: a page
/// that is leased again is never given back by the free before.
#[test]
fn a_page_is_given_back_and_leased_again() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let block = take(&pool, &job);
        let other = job.clone();
        let freeing = thread::spawn(move || other.free(block).unwrap());
        let first = take(&pool, &job);
        freeing.join().unwrap();
        let second = take(&pool, &job);
        assert_ne!(first.address(), second.address());
        assert_eq!(job.held().iteration, pool.budget(), "both are leased");
        job.free(first).unwrap();
        job.free(second).unwrap();
        drop(job);
        all_came_back(&device, pool);
    });
}

/// One thread frees a block that another stream uses while another thread of the job allocates: the
/// block is parked, released once, and not lost.
#[test]
fn a_block_is_parked_and_released() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let block = take(&pool, &job);
        job.record_use(block, device.add_stream()).unwrap();
        let other = job.clone();
        let freeing = thread::spawn(move || other.free(block).unwrap());
        let first = take(&pool, &job);
        freeing.join().unwrap();
        let second = take(&pool, &job);
        assert_ne!(first.address(), second.address());
        job.free(first).unwrap();
        job.free(second).unwrap();
        drop(job);
        all_came_back(&device, pool);
    });
}

/// The budget is lowered while a job leases: it gets its second region before, or an answer, and
/// what is beyond the budget goes back.
#[test]
fn a_budget_is_lowered_during_a_lease() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = join(&device, &pool);
        let first = take(&pool, &job);
        let other = pool.clone();
        let lowering = thread::spawn(move || other.set_budget(REGION).unwrap());
        let second = job.alloc(Request::new(REGION, Lifetime::Iteration));
        lowering.join().unwrap();
        match second {
            Ok(second) => job.free(second).unwrap(),
            Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) => {}
            Err(error) => panic!("{error}"),
        }
        pool.poll().unwrap();
        let status = pool.budget_status();
        assert_eq!((status.held, status.pending), (REGION, Bytes::ZERO));
        job.free(first).unwrap();
        drop(job);
        all_came_back(&device, pool);
    });
}

/// A job leaves with a live block while another asks for the only region.
#[test]
fn a_job_that_leaves_lets_the_other_in() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (leaver, taker) = (join(&device, &pool), join(&device, &pool));
        take(&pool, &leaver);
        let other = pool.clone();
        let leaving = thread::spawn(move || {
            drop(leaver);
            other.poll().unwrap();
        });
        take(&pool, &taker);
        leaving.join().unwrap();
        drop(taker);
        all_came_back(&device, pool);
    });
}

/// Two threads of one job both have to grow its arena: one does, the other waits for it, and their
/// blocks are apart.
#[test]
fn two_threads_grow_one_arena() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let (other_pool, other_job) = (pool.clone(), job.clone());
        let other = thread::spawn(move || take(&other_pool, &other_job));
        let mine = take(&pool, &job);
        let theirs = other.join().unwrap();
        assert!(mine.address().value().abs_diff(theirs.address().value()) >= REGION.value());
        job.free(mine).unwrap();
        job.free(theirs).unwrap();
        drop(job);
        all_came_back(&device, pool);
    });
}

/// Two jobs take turns: never both at once, and the end of one wakes the other.
#[test]
fn iterations_take_turns() {
    loom::model(|| {
        let (device, pool) = pool(1, Exclusive);
        let running = std::sync::Arc::new(AtomicU32::new(0));
        let turn =
            |job: Job<MockDevice>, pool: Pool<MockDevice>, running: std::sync::Arc<AtomicU32>| {
                loop {
                    let seen = pool.generation();
                    if job.begin(None).unwrap() == Begin::Started {
                        break;
                    }
                    wait(&pool, seen);
                }
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                job.end().unwrap();
            };
        let (one, two) = (join(&device, &pool), join(&device, &pool));
        let (other_pool, other_running) = (pool.clone(), running.clone());
        let other = thread::spawn(move || turn(one, other_pool, other_running));
        turn(two, pool.clone(), running);
        other.join().unwrap();
        all_came_back(&device, pool);
    });
}

/// An iteration is over when the next one begins, or whoever looks ends it: one of the two does.
#[test]
fn an_iteration_that_is_over_is_ended_by_one_thread() {
    loom::model(|| {
        let device = MockDevice::new(MockConfig::new(REGION).budget(REGION)).unwrap();
        let config = PoolConfig::new(REGION).region_size(REGION).patience(Ticks::ZERO);
        let pool = Pool::new(device.clone(), config).unwrap();
        let job = join(&device, &pool);
        assert_eq!(job.begin(None), Ok(Begin::Started));
        let block = take(&pool, &job);
        job.end_with_next().unwrap();
        let other = pool.clone();
        let looking = thread::spawn(move || other.poll().unwrap());
        job.free(block).unwrap();
        loop {
            let seen = pool.generation();
            match job.begin(None).unwrap() {
                Begin::Started => break,
                Begin::Wait(_) => wait(&pool, seen),
            }
        }
        job.end().unwrap();
        looking.join().unwrap();
        assert_eq!(pool.snapshot().jobs[0].iterations, 2);
        drop(job);
        all_came_back(&device, pool);
    });
}

/// Two threads look at the same fence at once: what it guards is freed once, and not lost, and what
/// the next one guards is not freed with it.
#[test]
fn two_threads_poll_one_fence() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let stream = device.add_stream();
        let job = pool.join("job", stream).unwrap();
        let blocks = [take(&pool, &job), take(&pool, &job)];
        for block in blocks {
            device.launch(stream, Ticks::micros(10), Utilisation::FULL).unwrap();
            job.free(block).unwrap();
            pool.poll().unwrap();
        }
        device.advance_to(device.now().saturating_add(Ticks::micros(10)));
        let other = pool.clone();
        let polling = thread::spawn(move || other.poll().unwrap());
        pool.poll().unwrap();
        polling.join().unwrap();
        let snapshot = pool.snapshot();
        assert_eq!((snapshot.free, snapshot.jobs[0].held.draining), (REGION, REGION));
        device.run_until_idle();
        pool.poll().unwrap();
        assert_eq!(pool.snapshot().free, Bytes::new(2 * REGION.value()));
        drop(job);
        all_came_back(&device, pool);
    });
}

/// One thread polls while another frees a block that a side stream still uses, and drops the job:
/// whoever of them has the parked block in hand, its region is nobody's before the side stream has
/// passed (I3).
#[test]
fn a_job_leaves_while_its_parked_block_is_in_hand() {
    loom::model(|| {
        let device = MockDevice::new(MockConfig::new(REGION).budget(REGION)).unwrap();
        let config = PoolConfig::new(REGION).region_size(REGION);
        let pool = Pool::new(Between::new(device.clone()), config).unwrap();
        // The order of the device's calls is one of the things that are tried.
        let calls = AtomicUsize::new(0);
        pool.device().at_each_call(std::sync::Arc::new(move |_, when| {
            if when == When::Before {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let job = pool.join("job", device.add_stream()).unwrap();
        let side = device.add_stream();
        let block = job.alloc(Request::new(REGION, Lifetime::Iteration)).unwrap();
        job.record_use(block, side).unwrap();
        device.launch(side, Ticks::micros(10), Utilisation::FULL).unwrap();
        let other = pool.clone();
        let polling = thread::spawn(move || other.poll().unwrap());
        job.free(block).unwrap();
        drop(job);
        polling.join().unwrap();
        pool.poll().unwrap();
        assert_eq!(pool.snapshot().free, Bytes::ZERO, "the side stream still uses it");
        device.run_until_idle();
        pool.poll().unwrap();
        let snapshot = pool.snapshot();
        assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
    });
}

/// One thread leases a page while another makes room where the block fits more tightly: with all
/// blocks freed the job holds nothing, not even the page that was leased for nothing (I4, I6).
#[test]
fn a_page_leased_in_vain_is_given_back() {
    loom::model(|| {
        let (device, pool) = pool(3, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let half = Request::new(Bytes::mib(1), Lifetime::Iteration);
        assert_eq!(job.begin(None).unwrap(), Begin::Started);
        let [first, second] = [job.alloc(half).unwrap(), job.alloc(half).unwrap()];
        // Between the page of these two and the one that is leased next.
        let whole = take(&pool, &job);
        let other = job.clone();
        let freeing = thread::spawn(move || {
            other.free(whole).unwrap();
            other.free(first).unwrap();
        });
        let third = job.alloc(half).unwrap();
        freeing.join().unwrap();
        job.free(second).unwrap();
        job.free(third).unwrap();
        job.end().unwrap();
        pool.poll().unwrap();
        assert_eq!(job.held().total(), Bytes::ZERO, "nothing is live");
        drop(job);
        all_came_back(&device, pool);
    });
}

/// A job is made to leave while a thread of it takes a region and frees it: the thread gets its
/// block or is told, what it has goes back with the rest, and nothing stays leased.
#[test]
fn a_job_is_made_to_leave_while_it_allocates() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let kept = take(&pool, &job);
        let (other, id) = (pool.clone(), job.id());
        let evicting = thread::spawn(move || {
            assert!(other.evict(id).is_some());
            other.poll().unwrap();
        });
        match job.alloc(Request::new(REGION, Lifetime::Iteration)) {
            Ok(block) => _ = job.free(block),
            Err(AllocError::Left | AllocError::Busy(_)) => {}
            Err(error) => panic!("{error}"),
        }
        _ = job.free(kept);
        evicting.join().unwrap();
        pool.poll().unwrap();
        assert!(job.held().total().is_zero());
        drop(job);
        all_came_back(&device, pool);
    });
}

/// Comes back from the host, however long that takes.
fn come_back(pool: &Pool<MockDevice>, job: &Job<MockDevice>) {
    loop {
        let seen = pool.generation();
        if job.resume().unwrap() == Resume::Done {
            return;
        }
        wait(pool, seen);
    }
}

/// The copies are made, and what they were made of is free.
fn pass(device: &MockDevice, pool: &Pool<MockDevice>) {
    device.run_until_idle();
    pool.poll().unwrap();
}

/// A job begins an iteration while another one's thread takes it to the host, where it has its only
/// region: the one begins before or after the other one has had its turn, and both go on.
#[test]
fn a_job_begins_while_it_is_made_to_give_way() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let join = || {
            let config = JobConfig::new("job").preemptible(Ticks::ZERO);
            pool.join(config, device.add_stream()).unwrap()
        };
        let (here, comes) = (join(), join());
        let block = here.alloc(Request::new(REGION, Lifetime::Persistent)).unwrap();
        assert_eq!(here.begin(None), Ok(Begin::Started));
        here.end().unwrap();
        let (devices, pools) = (device.clone(), pool.clone());
        let one = thread::spawn(move || {
            while comes.alloc(Request::new(REGION, Lifetime::Persistent)).is_err() {
                pass(&devices, &pools);
                thread::yield_now();
            }
            drop(comes);
        });
        while here.begin(None).unwrap() != Begin::Started {
            pass(&device, &pool);
            thread::yield_now();
        }
        here.end().unwrap();
        // The other one may wait for it still.
        drop(here);
        let _ = block;
        one.join().unwrap();
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// Two iterations have two regions each, one more than they have declared, and need a third, where
/// there are four. One of them goes to the host within its own call: neither is told that there is
/// no memory, and neither misses a wake-up.
#[test]
fn an_iteration_is_interrupted_while_another_waits() {
    let mut model = loom::model::Builder::new();
    // There and back is longer than loom expects of a model, and two preemptions take minutes.
    model.max_branches = 10_000;
    model.preemption_bound = Some(1);
    model.check(|| {
        let (device, pool) = pool(4, AlwaysStart);
        let [one, two] = [(), ()].map(|()| {
            let config = JobConfig::new("job").declare(REGION).interruptible();
            let job = pool.join(config, device.add_stream()).unwrap();
            assert_eq!(job.begin(None), Ok(Begin::Started));
            (0..2).for_each(|_| _ = take(&pool, &job));
            job
        });
        let goes_on = |device: MockDevice, pool: Pool<MockDevice>, job: Job<MockDevice>| {
            loop {
                let seen = pool.generation();
                match job.alloc(Request::new(REGION, Lifetime::Iteration)) {
                    Ok(_) => break,
                    Err(AllocError::Busy(_)) => {
                        pass(&device, &pool);
                        wait(&pool, seen);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            job.end().unwrap();
            drop(job);
            pass(&device, &pool);
        };
        let (devices, pools) = (device.clone(), pool.clone());
        let other = thread::spawn(move || goes_on(devices, pools, one));
        goes_on(device.clone(), pool.clone(), two);
        other.join().unwrap();
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// A job goes to the host while another takes the only region: that one misses no wake-up.
#[test]
fn a_job_goes_to_the_host_and_another_has_its_room() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (goes, stays) = (join(&device, &pool), join(&device, &pool));
        take(&pool, &goes);
        let (other, host) = (pool.clone(), device.clone());
        let going = thread::spawn(move || {
            assert_eq!(goes.suspend().unwrap(), REGION);
            pass(&host, &other);
            goes
        });
        let block = take(&pool, &stays);
        stays.free(block).unwrap();
        drop(going.join().unwrap());
        drop(stays);
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// A job comes back while another frees the only region: it misses no wake-up either.
#[test]
fn a_job_comes_back_when_another_frees_its_room() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let (goes, stays) = (join(&device, &pool), join(&device, &pool));
        let block = take(&pool, &goes);
        goes.suspend().unwrap();
        pass(&device, &pool);
        let taken = take(&pool, &stays);
        let other = pool.clone();
        let staying = thread::spawn(move || {
            stays.free(taken).unwrap();
            other.poll().unwrap();
            stays
        });
        come_back(&pool, &goes);
        goes.free(block).unwrap();
        drop((goes, staying.join().unwrap()));
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// A job goes to the host and comes back while a thread of it frees a block and allocates another:
/// it has its block, or is told that the job is away.
#[test]
fn a_job_is_suspended_while_it_frees_and_allocates() {
    loom::model(|| {
        let (device, pool) = pool(2, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let block = take(&pool, &job);
        let other = job.clone();
        let using = thread::spawn(move || {
            other.free(block).unwrap();
            match other.alloc(Request::new(REGION, Lifetime::Iteration)) {
                Ok(block) => other.free(block).unwrap(),
                Err(AllocError::Suspended | AllocError::Busy(_)) => {}
                Err(error) => panic!("{error}"),
            }
        });
        match job.suspend() {
            Ok(_) => come_back(&pool, &job),
            Err(SuspendError::Busy) => {}
            Err(error) => panic!("{error}"),
        }
        using.join().unwrap();
        pass(&device, &pool);
        assert_eq!(job.held().total(), Bytes::ZERO, "nothing is live");
        drop(job);
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// A job is made to leave while it goes to the host or comes back: all it had goes, there and here.
#[test]
fn a_job_is_made_to_leave_while_it_moves() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let job = join(&device, &pool);
        take(&pool, &job);
        let (other, id) = (pool.clone(), job.id());
        let evicting = thread::spawn(move || {
            assert!(other.evict(id).is_some());
            other.poll().unwrap();
        });
        match job.suspend() {
            Ok(_) => match job.resume() {
                Ok(_) | Err(ResumeError::Left) => {}
                Err(error) => panic!("{error}"),
            },
            Err(SuspendError::Left) => {}
            Err(error) => panic!("{error}"),
        }
        evicting.join().unwrap();
        pool.poll().unwrap();
        drop(job);
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}

/// Two threads bring one job back: once.
#[test]
fn two_threads_bring_one_job_back() {
    loom::model(|| {
        let (device, pool) = pool(1, TimeShift::default());
        let job = Arc::new(join(&device, &pool));
        let block = take(&pool, &job);
        job.suspend().unwrap();
        let (other, pools) = (job.clone(), pool.clone());
        let one = thread::spawn(move || come_back(&pools, &other));
        come_back(&pool, &job);
        one.join().unwrap();
        job.free(block).unwrap();
        drop(job);
        pass(&device, &pool);
        all_came_back(&device, pool);
        assert_eq!(device.host_usage().0, Bytes::ZERO);
    });
}
