//! Memory held between iterations, reserved memory, and errors of other jobs: situations that once
//! ended in a deadlock or a wrong refusal.
//!
//! A job that waits asks again after the device has finished and the pool has been polled. An
//! answer of `waits` means that a thread would wait for ever.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, Device, DeviceError, Job, JobConfig, Lifetime,
    Pool, PoolConfig, Request, Ticks,
};
use zico_mock::{MockConfig, MockDevice, Operation, Utilisation};
use zico_tests::between::Between;
use zico_tests::hook::{Hook, When};
use zico_tests::waves::{REGION, regions};

fn pool(budget: u64) -> (MockDevice, Pool<MockDevice>) {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let config = PoolConfig::new(regions(budget)).region_size(REGION);
    (device.clone(), Pool::new(device, config).unwrap())
}

fn join(device: &MockDevice, pool: &Pool<MockDevice>, name: &str) -> Job<MockDevice> {
    pool.join(JobConfig::new(name).without_plans(), device.add_stream()).unwrap()
}

fn iteration(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

fn persistent(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Persistent)
}

/// Asks up to four times: an answer, or none.
fn answer<T>(
    device: &MockDevice,
    poll: impl Fn(),
    mut ask: impl FnMut() -> Option<T>,
) -> Option<T> {
    (0..4).find_map(|_| {
        device.run_until_idle();
        poll();
        ask()
    })
}

/// The block, or why not; none if it waits.
fn alloc<D: Device>(
    device: &MockDevice,
    pool: &Pool<D>,
    job: &Job<D>,
    request: Request,
) -> Option<Result<Block, AllocError<D::Error>>>
where
    D::Error: DeviceError,
{
    answer(
        device,
        || drop(pool.poll()),
        || match job.alloc(request) {
            Err(AllocError::Busy(_)) => None,
            done => Some(done),
        },
    )
}

/// Whether it begins, or why not; none if it waits.
fn begin(
    device: &MockDevice,
    pool: &Pool<MockDevice>,
    job: &Job<MockDevice>,
) -> Option<Result<(), BeginError>> {
    answer(
        device,
        || pool.poll().unwrap(),
        || match job.begin(None) {
            Ok(Begin::Wait(_)) => None,
            Ok(Begin::Started) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        },
    )
}

/// One iteration: begin, allocate up to this many regions, free them.
fn learn(
    device: &MockDevice,
    pool: &Pool<MockDevice>,
    job: &Job<MockDevice>,
    peak: u64,
    times: u32,
) {
    for _ in 0..times {
        assert_eq!(begin(device, pool, job), Some(Ok(())));
        let block = alloc(device, pool, job, iteration(peak)).unwrap().unwrap();
        job.free(block).unwrap();
        job.end().unwrap();
    }
    device.run_until_idle();
    pool.poll().unwrap();
}

/// A has a block of its first iteration, and asks for its second; B's first iteration, of which
/// nobody knows what it takes, needs little.
fn a_block_carried_into_the_next_iteration(request: Request, frees: bool) {
    let (device, pool) = pool(8);
    let [a, b] = ["A", "B"].map(|name| join(&device, &pool, name));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    let carried = a.alloc(request).unwrap();
    a.end().unwrap();
    assert_eq!(begin(&device, &pool, &b), Some(Ok(())));
    let _ = a.begin(None);
    let block = alloc(&device, &pool, &b, iteration(2));
    let block = block.unwrap_or_else(|| panic!("both wait:\n{}", pool.snapshot())).unwrap();
    b.free(block).unwrap();
    b.end().unwrap();
    assert_eq!(begin(&device, &pool, &a), Some(Ok(())));
    if frees {
        a.free(carried).unwrap();
    }
    a.end().unwrap();
}

#[test]
fn a_learned_block_is_carried_beside_a_first_iteration() {
    a_block_carried_into_the_next_iteration(Request::learned(Bytes::mib(1)), true);
}

#[test]
fn a_block_of_an_iteration_is_carried_beside_a_first_iteration() {
    a_block_carried_into_the_next_iteration(iteration(1), true);
}

#[test]
fn a_block_of_an_iteration_is_kept_beside_a_first_iteration() {
    a_block_carried_into_the_next_iteration(iteration(1), false);
}

/// Both profiles are known and each fits alone: the first in line waits for what the second will
/// free in the iteration that it may not begin before the first.
#[test]
fn the_first_in_line_does_not_wait_for_one_behind_it() {
    let (device, pool) = pool(8);
    let [a, b] = ["A", "B"].map(|name| join(&device, &pool, name));
    learn(&device, &pool, &b, 7, 3);
    for _ in 0..3 {
        assert_eq!(begin(&device, &pool, &a), Some(Ok(())));
        let block = alloc(&device, &pool, &a, iteration(2)).unwrap().unwrap();
        a.free(block).unwrap();
        a.end().unwrap();
    }
    assert_eq!(begin(&device, &pool, &a), Some(Ok(())));
    let carried = alloc(&device, &pool, &a, iteration(2)).unwrap().unwrap();
    a.end().unwrap();
    let first = begin(&device, &pool, &b);
    let second = begin(&device, &pool, &a);
    assert!(first.is_some() || second.is_some(), "both wait:\n{}", pool.snapshot());
    if second == Some(Ok(())) {
        a.free(carried).unwrap();
        a.end().unwrap();
        assert!(begin(&device, &pool, &b).is_some());
    }
}

#[test]
fn a_persistent_block_is_asked_for_between_iterations() {
    let (device, pool) = pool(8);
    let [a, b] = ["A", "B"].map(|name| join(&device, &pool, name));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.alloc(iteration(1)).unwrap();
    a.end().unwrap();
    assert_eq!(begin(&device, &pool, &b), Some(Ok(())));
    let kept = alloc(&device, &pool, &a, persistent(1));
    let block = alloc(&device, &pool, &b, iteration(2));
    assert!(kept.is_some() || block.is_some(), "both wait:\n{}", pool.snapshot());
}

#[test]
fn an_idle_job_that_holds_something_stops_nobody() {
    let (device, pool) = pool(8);
    let [a, b] = ["A", "B"].map(|name| join(&device, &pool, name));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.alloc(iteration(1)).unwrap();
    a.end().unwrap();
    assert_eq!(begin(&device, &pool, &b), Some(Ok(())));
    let block = alloc(&device, &pool, &b, iteration(1));
    assert!(matches!(block, Some(Ok(_))), "7 of 8 are free:\n{}", pool.snapshot());
}

#[test]
fn jobs_without_iterations_that_wait_for_each_other_are_told() {
    let (device, pool) = pool(8);
    let jobs = ["A", "B", "C"].map(|name| join(&device, &pool, name));
    jobs.iter().for_each(|job| _ = job.alloc(iteration(2)).unwrap());
    let told = (0..4).any(|_| {
        pool.poll().unwrap();
        jobs.iter().any(|job| matches!(job.alloc(iteration(4)), Err(AllocError::OutOfMemory(_))))
    });
    assert!(told, "all wait:\n{}", pool.snapshot());
}

/// X can never have another iteration: its own doing. F is not to be refused for that.
#[test]
fn persistent_growth_is_held_against_the_own_peak_first() {
    let (device, pool) = pool(8);
    let [x, f] = ["X", "F"].map(|name| join(&device, &pool, name));
    learn(&device, &pool, &x, 5, 3);
    if alloc(&device, &pool, &x, persistent(4)).unwrap().is_ok() {
        let one = alloc(&device, &pool, &f, persistent(1));
        assert!(matches!(one, Some(Ok(_))), "4 of 8 are free:\n{}", pool.snapshot());
    }
}

#[test]
fn within_its_floor_a_job_is_not_refused() {
    let (device, pool) = pool(8);
    let x = join(&device, &pool, "X");
    learn(&device, &pool, &x, 5, 3);
    let f = pool.join(JobConfig::new("F").floor(regions(3)), device.add_stream()).unwrap();
    let _ = alloc(&device, &pool, &x, persistent(1));
    let one = f.alloc(persistent(1));
    assert!(one.is_ok(), "three are reserved for it: {}", one.unwrap_err());
}

/// Another job's stream that takes no events is not this job's trouble.
#[test]
fn a_stream_that_takes_no_events_ends_nobody_elses_wait() {
    const LOOK: Duration = Duration::from_millis(1);
    let mock = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let config = PoolConfig::new(regions(4)).region_size(REGION);
    let pool = Pool::new(Between::new(mock.clone()), config).unwrap();
    let stream = mock.add_stream();
    let a = pool.join("A", mock.add_stream()).unwrap();
    let b = pool.join(JobConfig::new("B").declare(regions(3)), stream).unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    let block = b.alloc(iteration(3)).unwrap();
    pool.device().mute(stream);
    b.free(block).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.alloc_blocking(iteration(2), LOOK).map(drop));
        thread::sleep(Duration::from_millis(30));
        let early = waiting.is_finished();
        pool.device().unmute(stream);
        b.end().unwrap();
        let result = waiting.join().unwrap();
        assert!(!early && result.is_ok(), "A was told of B's stream: {result:?}");
    });
}

/// A job that leaves while another thread has its parked blocks in hand.
#[test]
fn a_job_that_leaves_during_a_poll_keeps_its_streams_waits() {
    let mock = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let hook = Hook::new(mock.clone());
    let pool = Pool::new(hook.clone(), PoolConfig::new(REGION).region_size(REGION)).unwrap();
    let (own, side) = (mock.add_stream(), mock.add_stream());
    let job = pool.join("A", own).unwrap();
    let block = job.alloc(iteration(1)).unwrap();
    job.record_use(block, side).unwrap();
    mock.launch(side, Ticks::millis(1), Utilisation::FULL).unwrap();
    // It cannot be made to wait now: the block stays parked.
    hook.on(Operation::OrderAfter, When::Before, || true);
    job.free(block).unwrap();
    hook.on(Operation::Query, When::Before, move || {
        drop(job);
        false
    });
    pool.poll().unwrap();
    pool.poll().unwrap();
    assert_eq!(pool.snapshot().free, Bytes::ZERO, "the other stream still uses it");
    mock.run_until_idle();
    pool.poll().unwrap();
    assert_eq!(pool.snapshot().free, REGION);
}

/// One thread leases a page, another frees meanwhile, so that the block goes where it fits more
/// tightly.
#[test]
fn a_page_that_was_leased_for_nothing_goes_back() {
    let mock = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let hook = Hook::new(mock.clone());
    let pool = Pool::new(hook.clone(), PoolConfig::new(regions(8)).region_size(REGION)).unwrap();
    let job = Arc::new(pool.join("A", mock.add_stream()).unwrap());
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let half = Request::new(Bytes::mib(1), Lifetime::Iteration);
    let [a, b] = [job.alloc(half).unwrap(), job.alloc(half).unwrap()];
    let e = job.alloc(iteration(1)).unwrap();
    let other = Mutex::new(Some(job.clone()));
    hook.on(Operation::Create, When::Before, move || {
        let other = other.lock().unwrap().take().unwrap();
        [e, a].into_iter().for_each(|block| other.free(block).unwrap());
        false
    });
    let c = job.alloc(half).unwrap();
    [b, c].into_iter().for_each(|block| job.free(block).unwrap());
    job.end().unwrap();
    mock.run_until_idle();
    pool.poll().unwrap();
    assert_eq!(job.held().total(), Bytes::ZERO, "nothing is live");
}

/// What another stream still uses counts towards a cap for as long as it does; then it is waited
/// for.
#[test]
fn what_is_parked_is_waited_for_under_a_cap_as_well() {
    let (device, pool) = pool(8);
    let own = device.add_stream();
    let job = pool.join(JobConfig::new("A").cap(regions(2)), own).unwrap();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let block = job.alloc(Request::new(regions(2), Lifetime::Iteration)).unwrap();
    let side = device.add_stream();
    job.record_use(block, side).unwrap();
    device.launch(side, Ticks::millis(1), Utilisation::FULL).unwrap();
    job.free(block).unwrap();
    let now = job.alloc(iteration(2));
    assert!(!matches!(now, Err(AllocError::BeyondCap { .. })), "{}", now.unwrap_err());
    if let Ok(block) = now {
        job.free(block).unwrap();
    }
    let next = alloc(&device, &pool, &job, iteration(2));
    assert!(matches!(next, Some(Ok(_))), "it holds no live block: {next:?}");
}

/// What is parked behind a stream that takes no events just now comes back: no reason to refuse for
/// good.
#[test]
fn what_is_parked_while_no_event_is_taken_is_waited_for() {
    let mock = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let config = PoolConfig::new(regions(2)).region_size(REGION);
    let pool = Pool::new(Between::new(mock.clone()), config).unwrap();
    let (own, side) = (mock.add_stream(), mock.add_stream());
    let job = pool.join("A", own).unwrap();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let block = job.alloc(iteration(2)).unwrap();
    job.record_use(block, side).unwrap();
    mock.launch(side, Ticks::millis(1), Utilisation::FULL).unwrap();
    pool.device().mute(own);
    job.free(block).unwrap();
    let now = job.alloc(Request::new(regions(2), Lifetime::Iteration));
    assert!(!matches!(now, Err(AllocError::OutOfMemory(_))), "{}", now.unwrap_err());
    pool.device().unmute(own);
}
