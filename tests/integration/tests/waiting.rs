//! Blocking and async waiting, on threads of the operating system.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use zico_core::{AllocError, Begin, Bytes, Class, Job, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_mock::policy::{AlwaysStart, Exclusive};
use zico_mock::{FaultPlan, Faulty, MockConfig, MockDevice, Operation, Utilisation};

const REGION: Bytes = Bytes::mib(2);
const LOOK: Duration = Duration::from_millis(1);

fn pool(regions: u64) -> (MockDevice, Pool<MockDevice>) {
    let budget = Bytes::new(regions * REGION.value());
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = PoolConfig::new(budget).region_size(REGION).policy(Box::new(Exclusive));
    (device.clone(), Pool::new(device, config).unwrap())
}

fn join(device: &MockDevice, pool: &Pool<MockDevice>) -> Job<MockDevice> {
    pool.join("job", device.add_stream()).unwrap()
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn four_threads_take_turns() {
    let (device, pool) = pool(4);
    let running = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let job = join(&device, &pool);
            scope.spawn(|| {
                let job = job;
                for _ in 0..50 {
                    job.begin_blocking(None, LOOK).unwrap();
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    // All there is: whoever began before has to give it up.
                    let request = Request::new(Bytes::mib(8), Lifetime::Iteration);
                    let block = job.alloc_blocking(request, LOOK).unwrap();
                    job.free(block).unwrap();
                    running.fetch_sub(1, Ordering::SeqCst);
                    job.end().unwrap();
                }
            });
        }
    });
    assert_eq!(device.violation_count(), 0);
}

/// The device has passed all that a job's last iteration has given up, and nobody has looked since.
/// Where the jobs do not fit beside each other, that is looked at before it waits for the device.
#[test]
fn a_job_that_begins_waits_for_nothing_that_the_device_has_passed() {
    let device = MockDevice::new(MockConfig::new(Bytes::mib(22)).budget(Bytes::mib(22))).unwrap();
    let config = PoolConfig::new(Bytes::mib(22)).region_size(REGION).policy(Box::new(AlwaysStart));
    let pool = Pool::new(device.clone(), config).unwrap();
    let [one, other] = [0, 1].map(|_| join(&device, &pool));
    let iterate = |job: &Job<MockDevice>| {
        assert_eq!(job.begin(None), Ok(Begin::Started));
        let block = job.alloc(Request::new(Bytes::mib(12), Lifetime::Iteration)).unwrap();
        job.free(block).unwrap();
        job.end().unwrap();
    };
    for _ in 0..4 {
        iterate(&one);
        iterate(&other);
        pool.poll().unwrap();
    }
    iterate(&one);
    assert_eq!(other.begin(None), Ok(Begin::Started));
    assert_eq!(one.begin(None), Ok(Begin::Started));
}

#[test]
fn a_blocked_thread_sees_the_device_pass() {
    let (device, pool) = pool(1);
    let stream = device.add_stream();
    let (giver, taker) = (pool.join("giver", stream).unwrap(), join(&device, &pool));
    let request = Request::new(REGION, Lifetime::Iteration);
    let block = giver.alloc(request).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    giver.free(block).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| taker.alloc_blocking(request, LOOK).unwrap());
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "the device has yet to pass the launch");
        device.run_until_idle();
        waiting.join().unwrap();
    });
}

#[test]
fn a_device_that_fails_ends_a_blocked_allocation() {
    let (device, _) = pool(1);
    let faulty = Faulty::new(device.clone(), FaultPlan::none());
    let pool = Pool::new(faulty, PoolConfig::new(REGION).region_size(REGION)).unwrap();
    let stream = device.add_stream();
    let giver = pool.join("giver", stream).unwrap();
    let taker = pool.join("taker", device.add_stream()).unwrap();
    let request = Request::new(REGION, Lifetime::Iteration);
    let block = giver.alloc(request).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    giver.free(block).unwrap();
    let failing = FaultPlan::none().random(Operation::Query, 1000, 1, Class::Lost);
    pool.device().set_plan(failing);
    let failed = taker.alloc_blocking(request, LOOK);
    assert!(matches!(failed, Err(AllocError::Device(_))), "{failed:?}");
}

#[test]
fn a_task_is_woken_once_for_each_change_and_not_before() {
    let (device, pool) = pool(1);
    let (one, two) = (join(&device, &pool), join(&device, &pool));
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    assert_eq!(one.begin(None), Ok(Begin::Started));
    let mut begin = pin!(two.begin_async(None));
    assert_eq!(begin.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(begin.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    one.end().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(begin.as_mut().poll(&mut context), Poll::Ready(Ok(())));
}

/// Of a wait that has ended nothing is kept, however it ended: the waker goes with the future, and
/// only its own.
#[test]
fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let (device, pool) = pool(1);
    let job = join(&device, &pool);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let known = Arc::strong_count(&count);
    let mut stays = pin!(pool.changed(pool.generation()));
    assert_eq!(stays.as_mut().poll(&mut context), Poll::Pending);
    for _ in 0..100 {
        let mut goes = pin!(pool.changed(pool.generation()));
        assert_eq!(goes.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(goes.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(Arc::strong_count(&count), known + 2);
    }
    assert_eq!(Arc::strong_count(&count), known + 1);
    assert_eq!(job.begin(None), Ok(Begin::Started));
    job.end().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "the other one of the same task is woken");
    assert_eq!(stays.as_mut().poll(&mut context), Poll::Ready(()));
}

/// Nothing is kept of a task that no longer waits for memory.
#[test]
fn a_dropped_task_is_forgotten() {
    let (device, pool) = pool(1);
    let (one, two) = (join(&device, &pool), join(&device, &pool));
    let count = Arc::new(Count::default());
    let request = Request::new(REGION, Lifetime::Iteration);
    let block = one.alloc(request).unwrap();
    {
        let waker = Waker::from(count.clone());
        let mut waiting = pin!(two.alloc_async(request));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(Arc::strong_count(&count) > 2);
    }
    assert_eq!(Arc::strong_count(&count), 1);
    one.free(block).unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
}

/// A task that no longer wants to start does not hold up those behind it.
#[test]
fn a_dropped_task_leaves_the_queue() {
    let (device, pool) = pool(1);
    let jobs: Vec<Job<MockDevice>> = (0..3).map(|_| join(&device, &pool)).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(jobs[0].begin(None), Ok(Begin::Started));
    {
        let mut first = pin!(jobs[1].begin_async(None));
        assert_eq!(first.as_mut().poll(&mut context), Poll::Pending);
        assert!(matches!(jobs[2].begin(None), Ok(Begin::Wait(_))));
    }
    jobs[0].end().unwrap();
    assert_eq!(jobs[2].begin(None), Ok(Begin::Started));
    // One that has been admitted and not told makes way as well.
    let mut second = pin!(jobs[1].begin_async(None));
    assert_eq!(second.as_mut().poll(&mut context), Poll::Pending);
    assert!(matches!(jobs[0].begin(None), Ok(Begin::Wait(_))));
    jobs[2].end().unwrap();
    jobs[1].withdraw();
    assert_eq!(jobs[0].begin(None), Ok(Begin::Started));
}
