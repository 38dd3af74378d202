//! Jobs that do not mark their iterations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::policy::TimeShift;
use zico_core::{
    Activity, AllocError, AutoJob, Begin, Block, Bytes, Lifetime, Pool, PoolConfig, Request,
};
use zico_mock::policy::Exclusive;
use zico_mock::replay::{Machine, ReplayConfig, needs, replay, varied};
use zico_mock::trace::Trace;
use zico_mock::{MockConfig, MockDevice, bundled};

fn pool(mib: u64, config: impl FnOnce(PoolConfig) -> PoolConfig) -> Pool<MockDevice> {
    let budget = Bytes::mib(mib);
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = config(PoolConfig::new(budget).region_size(Bytes::mib(2)));
    Pool::new(device, config).unwrap()
}

fn join(pool: &Pool<MockDevice>, name: &str) -> AutoJob<MockDevice> {
    AutoJob::new(pool.join(name, pool.device().add_stream()).unwrap())
}

/// An iteration of 60 blocks: sizes rise, and all are freed again. It stops where memory is not to
/// be had.
fn wave(job: &AutoJob<MockDevice>, unit: u64, live: &mut Vec<Block>) -> Result<(), String> {
    while live.len() < 60 {
        let bytes = Bytes::kib(unit * (1 + live.len() as u64));
        match job.alloc(Request::new(bytes, Lifetime::Iteration)) {
            Ok(block) => live.push(block),
            Err(AllocError::Busy(_)) => return Err("busy".to_owned()),
            Err(error) => panic!("{error}"),
        }
    }
    live.drain(..).rev().for_each(|block| job.free(block).unwrap());
    Ok(())
}

#[test]
fn a_job_is_understood_without_marks_and_again_after_it_has_changed() {
    let pool = pool(200, |config| config.policy(Box::new(TimeShift::default())));
    let job = join(&pool, "unmarked");
    let mut live = Vec::new();
    job.alloc(Request::new(Bytes::mib(4), Lifetime::Persistent)).unwrap();
    let snapshot = || pool.snapshot().jobs.remove(0);
    assert_eq!(snapshot().activity, Activity::Idle, "that was its setup");
    (0..10).for_each(|_| wave(&job, 40, &mut live).unwrap());
    let found = job.detected().unwrap();
    assert_eq!(found.period, 60);
    assert!(found.repeats >= 8, "{found:?}");
    let before = snapshot();
    assert!(before.iterations >= 6, "{before:?}");
    // Other sizes: it goes on as one iteration that may need whatever there is ...
    wave(&job, 30, &mut live).unwrap();
    assert_eq!((job.detected(), snapshot().claim), (None, None));
    assert_eq!(snapshot().activity, Activity::Running);
    // ... until it has repeated for as long as it did before.
    (0..25).for_each(|_| wave(&job, 30, &mut live).unwrap());
    assert_eq!(job.detected().map(|found| found.period), Some(60));
    assert!(snapshot().iterations > before.iterations + 3);
    // From now on it marks them itself: the one that runs has ended.
    let job = job.into_job();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    job.end().unwrap();
    assert!(job.end().is_err());
}

/// What the job still holds is part of the iteration that it has come from.
#[test]
fn a_detected_iteration_goes_on_while_its_memory_is_held() {
    let pool = pool(200, |config| config);
    let job = join(&pool, "unmarked");
    let mut live = Vec::new();
    (0..6).for_each(|_| wave(&job, 40, &mut live).unwrap());
    let iterations = || pool.snapshot().jobs[0].iterations;
    let before = iterations();
    let blocks = (1..=60).map(|i| job.alloc(Request::new(Bytes::kib(40 * i), Lifetime::Iteration)));
    let mut blocks: Vec<Block> = blocks.map(Result::unwrap).collect();
    assert_eq!(iterations(), before + 1, "each ends where the next one begins");
    let held = blocks.remove(0);
    blocks.into_iter().for_each(|block| job.free(block).unwrap());
    wave(&job, 40, &mut live).unwrap();
    assert_eq!(iterations(), before + 1, "a block is held");
    job.free(held).unwrap();
    wave(&job, 40, &mut live).unwrap();
    assert_eq!(iterations(), before + 2);
}

#[test]
fn an_allocation_waits_where_its_iteration_may_not_begin() {
    let pool = pool(200, |config| config.policy(Box::new(Exclusive)));
    let (one, two) = (join(&pool, "one"), join(&pool, "two"));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    (0..5).for_each(|_| wave(&one, 40, &mut first).unwrap());
    assert!(wave(&two, 40, &mut second).is_err(), "the last iteration of the other one still runs");
    assert!(second.is_empty());
    // It ends with the allocation that begins the next one, which has to wait in its turn.
    assert!(wave(&one, 40, &mut first).is_err());
    let mut done = [0; 2];
    for _ in 0..40 {
        done[0] += u32::from(wave(&two, 40, &mut second).is_ok());
        done[1] += u32::from(wave(&one, 40, &mut first).is_ok());
    }
    assert!(done.into_iter().all(|done| done > 10), "{done:?}");
}

/// D59: a job in whose allocations there is no order has iterations that nobody can find. Others do
/// not wait for ever beside one, nor does a job that is never down to little.
#[test]
fn a_job_without_order_lets_others_have_their_turn() {
    for keeps in [0, 20] {
        let pool = pool(200, |config| config.policy(Box::new(TimeShift::default())));
        let (one, two) = (join(&pool, "no order"), join(&pool, "other"));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let kept = Request::new(Bytes::mib(keeps.max(1)), Lifetime::Iteration);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut done = [0; 2];
        let _kept = one.alloc(kept).unwrap();
        for _ in 0..400 {
            let unit = if keeps > 0 { 30 } else { rng.u64(20..60) };
            done[0] += u32::from(wave(&one, unit, &mut first).is_ok());
            done[1] += u32::from(wave(&two, 40, &mut second).is_ok());
        }
        assert!(done.into_iter().all(|done| done > 10), "{keeps}: {done:?}");
    }
}

/// Two steps of a discriminator and one of a generator, which needs most; `skip` is a mark that
/// does not come. Whether an iteration has ended at each.
fn adversarial(job: &AutoJob<MockDevice>, skip: Option<usize>) -> Vec<bool> {
    let step = |(number, unit): (usize, u64)| {
        let blocks = (1..=8).map(|i| job.alloc(Request::learned(Bytes::kib(unit * i))).unwrap());
        let mut blocks: Vec<Block> = blocks.collect();
        // The discriminator's gradients stay until the generator has made its step.
        let left = if number == 2 { 0 } else { 1 };
        blocks.drain(left..).for_each(|block| job.free(block).unwrap());
        (blocks.pop(), skip != Some(number) && job.end_phase())
    };
    let (mut kept, mut ends) = (Vec::new(), Vec::new());
    for phase in [100, 100, 300].into_iter().enumerate() {
        if phase.0 == 2 {
            kept.drain(..).for_each(|block| job.free(block).unwrap());
        }
        let (block, ended) = step(phase);
        kept.extend(block);
        ends.push(ended);
    }
    ends
}

/// What is expected of the next iteration is what it was, whether a mark did not come or there was
/// one too many.
#[test]
fn marks_of_phases_are_iterations_as_they_repeat_and_one_that_is_missing_changes_one() {
    let pool = pool(200, |config| config);
    let job = AutoJob::with_phases(pool.join("adversarial", pool.device().add_stream()).unwrap());
    job.alloc(Request::new(Bytes::mib(4), Lifetime::Persistent)).unwrap();
    assert!(!job.end_phase() && job.detected().is_none(), "that was its setup");
    (0..5).for_each(|_| drop(adversarial(&job, None)));
    assert_eq!(job.detected().map(|found| found.period), Some(3));
    assert_eq!(adversarial(&job, None), [false, false, true]);
    let snapshot = || job.job().snapshot();
    let before = snapshot();
    let profile = job.job().profile().unwrap();
    assert_eq!(adversarial(&job, Some(1)), [false, false, false], "where it ends nobody knows");
    assert_eq!(adversarial(&job, None), [false, false, true], "two in one");
    assert_eq!(snapshot().iterations, before.iterations + 1);
    assert_eq!(adversarial(&job, None), [false, false, true]);
    assert!(!job.end_phase(), "nothing has been allocated");
    let outlier = job.alloc(Request::learned(Bytes::kib(50))).unwrap();
    assert!(!job.end_phase(), "one too many");
    job.free(outlier).unwrap();
    assert_eq!(adversarial(&job, None), [false, false, true]);
    // It takes as long as before and no more memory.
    (0..2).for_each(|_| drop(adversarial(&job, None)));
    let now = job.job().profile().unwrap();
    assert_eq!((now.peak(), now.operations()), (profile.peak(), profile.operations()));
    // From now on it marks its iterations itself.
    let job = job.into_job();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    assert_eq!(job.snapshot().claim, Some(before.held.peak));
}

/// Of jobs with marks an iteration that may not begin holds up the allocation after a mark.
#[test]
fn an_iteration_of_phases_waits_before_its_first_allocation() {
    let pool = pool(200, |config| config.policy(Box::new(Exclusive)));
    let join = |name| AutoJob::with_phases(pool.join(name, pool.device().add_stream()).unwrap());
    let (one, two) = (join("one"), join("two"));
    let block =
        |job: &AutoJob<MockDevice>| job.alloc(Request::new(Bytes::mib(4), Lifetime::Iteration));
    let waits = |job| assert!(matches!(block(job), Err(AllocError::Busy(_))));
    let first = block(&one).unwrap();
    waits(&two);
    one.free(first).unwrap();
    assert!(one.end_phase());
    waits(&two);
    // It is over when the next one begins, or would.
    waits(&one);
    let second = block(&two).unwrap();
    waits(&one);
    two.free(second).unwrap();
    assert!(two.end_phase());
    waits(&two);
    block(&one).unwrap();
}

fn replayed(traces: &[Trace], f: f64, iterations: u64) -> f64 {
    let (machine, jobs) = (Machine::default(), traces.iter().collect::<Vec<_>>());
    let needs = needs(&jobs, None, 6, &machine).unwrap();
    let config = ReplayConfig {
        region: Some(needs.region),
        iterations,
        detect: true,
        ..ReplayConfig::new(needs.budget_at(f))
    };
    let outcome = replay(&jobs, &config, &mut |_| {}).unwrap();
    assert_eq!(outcome.violations, []);
    for job in &outcome.jobs {
        assert_eq!(job.failure, None, "{} after {}", job.name, job.iterations);
    }
    let share = outcome.jobs.iter().zip(&needs.solos);
    share.map(|(job, solo)| outcome.rate(job) / solo.rate).sum()
}

/// Recorded jobs share nearly as well as with marks, once they are understood.
#[test]
fn recorded_jobs_share_without_marks() {
    for names in [["mobilenet_v2", "resnet110-cifar"], ["resnet50", "bert-base"]] {
        let traces = names.map(|name| bundled::open(name).unwrap());
        let throughput = replayed(&traces, 0.5, 30);
        assert!(throughput > 1.3, "{names:?}: {throughput:.3}");
    }
}

/// Where nothing repeats there is nothing to detect: each job is one long iteration. They take
/// turns where they do not fit together, as far as they leave each other room: nothing fails or is
/// violated.
#[test]
fn what_does_not_repeat_is_wrong_for_a_while_and_harms_nobody() {
    let shares: Vec<f64> = (0..60).map(|i| if i / 7 % 2 == 0 { 1.0 } else { 0.8 }).collect();
    let traces = ["mobilenet_v2", "resnet110-cifar"]
        .map(|name| varied(&bundled::open(name).unwrap(), &shares).unwrap());
    let throughput = replayed(&traces, 0.25, 12);
    assert!(throughput > 0.9, "{throughput:.3}");
}
