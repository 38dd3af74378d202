//! Iterations that are over when the next one begins: what is freed before is freed within them.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use zico_core::{
    Activity, AllocError, AutoJob, Begin, BeginError, Block, Bytes, Device, Job, Lifetime,
    NotRunning, Pool, PoolConfig, Request, Resume, Ticks,
};
use zico_mock::policy::Exclusive;
use zico_mock::{MockBroker, MockConfig, MockDevice};

const REGION: Bytes = Bytes::mib(2);

fn regions(count: u64) -> Bytes {
    Bytes::new(REGION.value() * count)
}

fn setup(budget: u64) -> (MockDevice, Pool<MockDevice>) {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let patience = Ticks::millis(50);
    let config = PoolConfig::new(regions(budget)).region_size(REGION).patience(patience);
    (device.clone(), Pool::new(device, config).unwrap())
}

fn alloc(job: &Job<MockDevice>, count: u64) -> Block {
    job.alloc(Request::new(regions(count), Lifetime::Iteration)).unwrap()
}

/// An iteration takes six regions. Its gradients, four, are freed after its end has been marked.
fn iterate(device: &MockDevice, pool: &Pool<MockDevice>, job: &Job<MockDevice>, lazily: bool) {
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let (activations, gradients) = (alloc(job, 2), alloc(job, 4));
    job.free(activations).unwrap();
    end(job, lazily);
    job.free(gradients).unwrap();
    device.run_until_idle();
    pool.poll().unwrap();
}

fn end(job: &Job<MockDevice>, lazily: bool) {
    let ended = if lazily { job.end_with_next() } else { job.end() };
    assert_eq!(ended, Ok(()));
}

/// What a job does, and how many iterations of it have ended.
fn state(pool: &Pool<MockDevice>, job: &Job<MockDevice>) -> (Activity, u64) {
    let jobs = pool.snapshot().jobs;
    let found = jobs.iter().find(|one| one.id == job.id()).unwrap();
    (found.activity, found.iterations)
}

fn activity(pool: &Pool<MockDevice>, job: &Job<MockDevice>) -> Activity {
    state(pool, job).0
}

/// What is left at the end of an iteration, others cannot count on: so two such jobs take turns,
/// unless its end is the next one's begin.
#[test]
fn what_is_freed_before_the_next_iteration_others_can_count_on() {
    for (lazily, second) in [(false, Begin::Wait(None)), (true, Begin::Started)] {
        let (device, pool) = setup(9);
        let jobs = ["one", "other"].map(|name| pool.join(name, device.add_stream()).unwrap());
        for _ in 0..6 {
            for job in &jobs {
                iterate(&device, &pool, job, lazily);
                // Else the other one could not begin, of which nothing is known yet.
                let _ = job.end();
            }
        }
        let [one, other] = &jobs;
        assert_eq!(one.begin(None), Ok(Begin::Started));
        let (activations, gradients) = (alloc(one, 2), alloc(one, 4));
        one.free(activations).unwrap();
        device.run_until_idle();
        pool.poll().unwrap();
        let begun = other.begin(None).unwrap();
        let same = matches!((begun, second), (Begin::Wait(_), Begin::Wait(_))) || begun == second;
        assert!(same, "{begun:?} where it ends lazily: {lazily}");
        // It gets all, as soon as the first one has freed what it has left.
        end(one, lazily);
        one.free(gradients).unwrap();
        device.run_until_idle();
        pool.poll().unwrap();
        if second != Begin::Started {
            assert_eq!(other.begin(None), Ok(Begin::Started));
        }
        let blocks = [alloc(other, 2), alloc(other, 4)];
        blocks.into_iter().for_each(|block| other.free(block).unwrap());
        assert_eq!(device.violations(), []);
    }
}

#[test]
fn an_iteration_that_is_over_ends_once() {
    let (device, pool) = setup(16);
    let job = pool.join("job", device.add_stream()).unwrap();
    assert_eq!(job.end_with_next(), Err(NotRunning));
    for iteration in 1..4 {
        iterate(&device, &pool, &job, true);
        assert_eq!(activity(&pool, &job), Activity::Running, "it is not over yet");
        assert_eq!(job.end_with_next(), Ok(()), "said twice");
        assert_eq!(state(&pool, &job).1, iteration - 1);
    }
    assert_eq!(job.end(), Ok(()), "or at once");
    assert_eq!(job.end(), Err(NotRunning));
    assert_eq!(job.begin(None), Ok(Begin::Started));
    assert_eq!(job.begin(None), Err(BeginError::AlreadyRunning));
    assert_eq!(state(&pool, &job).1, 3);
    // A job that goes to the host has no iteration.
    let block = alloc(&job, 2);
    job.end_with_next().unwrap();
    assert_eq!(job.suspend().unwrap(), regions(2));
    assert_eq!(job.resume().unwrap(), Resume::Done);
    job.free(block).unwrap();
    assert_eq!(device.violations(), []);
}

/// A job of which nothing is known waits for those that run. One that is over, and has nothing left
/// to free, runs no longer once its job has done nothing for a second: a job that has done all its
/// iterations and stays does not hold up one that is new for as long as the pool has patience.
#[test]
fn one_that_has_nothing_left_is_not_waited_for_for_long() {
    for (is_left, patience) in [(false, 1000), (true, 60_000)] {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let config = PoolConfig::new(regions(9)).region_size(REGION);
        let pool = Pool::new(device.clone(), config).unwrap();
        let jobs = ["done", "new"].map(|name| pool.join(name, device.add_stream()).unwrap());
        let [done, new] = &jobs;
        (0..3).for_each(|_| iterate(&device, &pool, done, true));
        let block = is_left.then(|| alloc(done, 1));
        pool.poll().unwrap();
        assert!(matches!(new.begin(None), Ok(Begin::Wait(_))));
        let stands_since = device.now().value();
        let after = |milliseconds: u64| {
            device.advance_to(Ticks::new(stands_since + milliseconds * 1_000_000));
            pool.poll().unwrap();
            new.begin(None).unwrap()
        };
        assert!(matches!(after(patience - 1), Begin::Wait(_)), "{is_left}");
        assert_eq!(after(patience), Begin::Started, "{is_left}");
        assert_eq!(activity(&pool, done), Activity::Idle);
        block.into_iter().for_each(|block| done.free(block).unwrap());
        assert_eq!(device.violations(), []);
    }
}

/// Else what it has left would be taken to come back for ever.
#[test]
fn whoever_looks_ends_it_where_its_job_does_nothing_more() {
    let (device, pool) = setup(16);
    let job = pool.join("job", device.add_stream()).unwrap();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let (one, other) = (alloc(&job, 2), alloc(&job, 2));
    job.end_with_next().unwrap();
    let mut now = device.now();
    let mut passes = |millis| {
        now = now.saturating_add(Ticks::millis(millis));
        device.advance_to(now);
        pool.poll().unwrap();
        activity(&pool, &job)
    };
    assert_eq!(passes(40), Activity::Running);
    job.free(one).unwrap();
    assert_eq!([passes(40), passes(40)], [Activity::Running; 2], "it has gone on");
    assert_eq!(passes(10), Activity::Idle);
    job.free(other).unwrap();
    assert_eq!(job.begin(None), Ok(Begin::Started));
}

/// The adapter's marks are such ends: a framework says that a step has been made, and frees then.
#[test]
fn phases_end_so() {
    let (device, pool) = setup(16);
    let job = AutoJob::with_phases(pool.join("job", device.add_stream()).unwrap());
    let mut left: Option<Block> = None;
    for _ in 0..6 {
        let gradients = job.alloc(Request::learned(regions(2))).unwrap();
        left.replace(gradients).into_iter().for_each(|block| job.free(block).unwrap());
        let ended = job.end_phase();
        assert_eq!(activity(&pool, job.job()) == Activity::Running, ended);
    }
    let job = job.into_job();
    assert_eq!(activity(&pool, &job), Activity::Idle);
    assert!(matches!(job.alloc(Request::learned(regions(99))), Err(AllocError::OutOfMemory(_))));
}

/// Two jobs of which one has iterations of 5 ms and the other one of 20 go on in turn, each ending
/// an iteration as the next one begins. How long each has run.
fn shares(device: &MockDevice, jobs: [&Job<MockDevice>; 2], hear: impl Fn()) -> [u64; 2] {
    let lengths = [5, 20].map(Ticks::millis);
    let mut had = [Ticks::ZERO; 2];
    assert_eq!(jobs[0].begin(None), Ok(Begin::Started));
    assert!(matches!(jobs[1].begin(None), Ok(Begin::Wait(_))));
    let mut runs = 0;
    for _ in 0..120 {
        let job = jobs[runs];
        let block = alloc(job, 6);
        device.advance_to(device.now().saturating_add(lengths[runs]));
        had[runs] = had[runs].saturating_add(lengths[runs]);
        end(job, true);
        job.free(block).unwrap();
        hear();
        if job.begin(None) != Ok(Begin::Started) {
            runs = 1 - runs;
            device.run_until_idle();
            hear();
            assert_eq!(jobs[runs].begin(None), Ok(Begin::Started));
        }
    }
    assert_eq!(device.violations(), []);
    had.map(Ticks::value)
}

/// One for one the job with the short iterations would have a fifth of the time.
#[test]
fn jobs_that_do_not_fit_beside_each_other_share_the_time() {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let config = || PoolConfig::new(regions(9)).region_size(REGION).policy(Box::new(Exclusive));
    let pool = Pool::new(device.clone(), config()).unwrap();
    let jobs = ["one", "other"].map(|name| pool.join(name, device.add_stream()).unwrap());
    let [one, other] = shares(&device, [&jobs[0], &jobs[1]], || {
        pool.poll().unwrap();
    });
    assert!(one * 10 > other * 9 && other * 10 > one * 9, "{one} {other}");

    let broker = MockBroker::new(device.clone(), config()).unwrap();
    let clients = [(); 2].map(|()| broker.connect().unwrap());
    let jobs = [&clients[0], &clients[1]]
        .map(|client| client.pool().join("job", device.add_stream()).unwrap());
    let [one, other] = shares(&device, [&jobs[0], &jobs[1]], || {
        for client in &clients {
            client.serve();
            client.pool().poll().unwrap();
        }
    });
    assert!(one * 10 > other * 9 && other * 10 > one * 9, "apart: {one} {other}");
}
