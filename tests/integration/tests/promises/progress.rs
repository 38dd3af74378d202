//! Progress of every job (I4, I5).

use proptest::prelude::*;
use zico_core::policy::TimeShift;
use zico_core::{Begin, Device, Lifetime, Request, Ticks};
use zico_mock::replay::PolicyKind;
use zico_tests::waves::{Reckless, Waves, regions, run_all};

use super::{pool, pool_of};

/// I4, the classic case: two jobs that each need more than half the budget go into forward at once.
#[test]
fn two_jobs_that_need_more_than_half_each_do_not_block_each_other() {
    let (device, pool) = pool(10, Reckless);
    let wave = [1; 7];
    let mut jobs: Vec<Waves> = (0..2).map(|_| Waves::join(&device, &pool, 1, &wave, 20)).collect();
    run_all(&device, &pool, &mut jobs, &[0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(zico_tests::cases(300)) })]

    /// I4: jobs of any shape that each fit alone always finish, in any order of admission and
    /// execution, and none of them is refused.
    #[test]
    fn jobs_that_fit_alone_always_finish(
        jobs in prop::collection::vec((0..3u64, prop::collection::vec(1..5u64, 1..6)), 1..5),
        slack in 0..6u64,
        order in prop::collection::vec(0..4usize, 1..40),
        policy in 0..PolicyKind::ALL.len(),
    ) {
        let kept: u64 = jobs.iter().map(|(kept, _)| kept).sum();
        let peak: u64 = jobs.iter().map(|(_, wave)| wave.iter().sum()).max().unwrap_or(0);
        // Instead of the two policies that need more, the one that admits all.
        let kind = Some(PolicyKind::ALL[policy]).filter(|kind| !kind.needs_every_peak());
        let policy = kind.and_then(|kind| kind.policy(5)).unwrap_or(Box::new(Reckless));
        let (device, pool) = pool_of(kept + peak + slack, |config| config.policy(policy));
        let mut all: Vec<Waves> =
            jobs.iter().map(|(kept, wave)| Waves::join(&device, &pool, *kept, wave, 5)).collect();
        run_all(&device, &pool, &mut all, &order);
    }
}

/// I5: a job with heavy iterations among jobs with light ones, who go first and of whom some always
/// wait, starts once 16 have passed it over, after those that run and one of each job that asked
/// before.
#[test]
fn a_job_that_asks_is_not_passed_over() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut large = Waves::join(&device, &pool, 0, &[9, 0, 0, 0, 0, 0, 0, 0], 6);
    // Two run at a time, the others wait.
    let waves: [&[u64]; 5] = [&[4], &[4, 0], &[4, 0, 0], &[4, 0, 0, 0], &[4, 0, 0, 0, 0]];
    let mut small: Vec<Waves> =
        waves.iter().map(|wave| Waves::join(&device, &pool, 0, wave, u32::MAX)).collect();
    let mut waited = 0;
    for _ in 0..20_000 {
        if large.left == 0 {
            break;
        }
        let waiting = large.at.is_none();
        large.step(&device);
        for job in &mut small {
            let before = job.left;
            job.step(&device);
            waited += u32::from(waiting && job.left < before);
        }
        if large.at.is_some() {
            waited = 0;
        }
        assert!(waited <= 16 + 2 + 5, "passed over by {waited} iterations");
        device.advance_to(device.now().saturating_add(Ticks::micros(20)));
        pool.poll().unwrap();
    }
    assert_eq!(large.left, 0, "it never got its turn:\n{}", pool.snapshot());
}

/// What a job keeps from its last iteration is not there for others: they wait until it is freed.
#[test]
fn memory_kept_between_iterations_is_waited_for() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut job = Waves::join(&device, &pool, 1, &[7], 2);
    job.left = 1;
    run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(None), Ok(Begin::Started));
    device.run_until_idle();
    let kept = other.alloc(Request::new(regions(7), Lifetime::Iteration)).unwrap();
    other.end().unwrap();
    assert_eq!(job.job.begin(None), Ok(Begin::Wait(None)));
    let generation = pool.generation();
    other.free(kept).unwrap();
    assert_ne!(pool.generation(), generation);
    assert_eq!(job.job.begin(None), Ok(Begin::Started));
}

/// I6: jobs that suddenly take more do not fail, nor make others fail, as long as each fits alone:
/// what is known can finish before what is new gets on.
#[test]
fn iterations_that_grow_wait_for_those_that_are_known() {
    let (device, pool) = pool(16, Reckless);
    let mut jobs: Vec<Waves> =
        (0..3).map(|_| Waves::join(&device, &pool, 1, &[2, 3, 2], 4)).collect();
    run_all(&device, &pool, &mut jobs, &[0, 1, 2]);
    for growth in 1..4 {
        for job in &mut jobs {
            job.wave = vec![2 + growth, 3 + growth, 2 + growth];
            job.left = 3;
        }
        if growth == 3 {
            // More than half of the budget each: 12 of 16 with what the others keep.
            jobs.iter_mut().for_each(|job| job.wave = vec![5, 6, 1]);
        }
        run_all(&device, &pool, &mut jobs, &[0, 1, 2, 2, 1]);
    }
}

/// I5 within an iteration: a job that has been denied memory gets it, however soon another job with
/// short iterations comes back for what it has just given up.
#[test]
fn a_job_that_waits_for_memory_is_not_passed_over() {
    let (device, pool) = pool(10, Reckless);
    let mut large = Waves::join(&device, &pool, 0, &[5, 4], 6);
    let mut small = Waves::join(&device, &pool, 0, &[1, 1], u32::MAX);
    // So that both are known, and the small one is there when the large one needs all there is.
    (0..12).for_each(|_| _ = large.step(&device));
    (0..14).for_each(|_| _ = small.step(&device));
    let before = small.left;
    for _ in 0..20_000 {
        if large.left == 0 {
            break;
        }
        // Whenever the large one tries, the small one is in the middle of an iteration.
        large.step(&device);
        (0..6).for_each(|_| _ = small.step(&device));
        device.run_until_idle();
        pool.poll().unwrap();
    }
    let beside = before - small.left;
    assert_eq!(large.left, 0, "after {beside} iterations of the other:\n{}", pool.snapshot());
    assert!(beside < 6 * 40, "{beside} iterations of the other");
}
