//! Promises by name, each in the situation that threatens it most.
//!
//! The policy here is as bad as can be: it lets everybody start at once. What is left are the pool's
//! own guarantees.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use proptest::prelude::*;
use zico_core::policy::{Policy, TimeShift};
use zico_core::{
    AllocError, Begin, BeginError, Block, BudgetError, Bytes, Device, FreeError, HandOver, Job,
    JobConfig, Lifetime, Pool, PoolConfig, Request, Ticks,
};
use zico_mock::replay::PolicyKind;
use zico_mock::{Access, Claim, MockConfig, MockDevice, MockStream, Operation, Utilisation};
use zico_tests::waves::{REGION, Reckless, Waves, regions, run_all};

fn pool(budget: u64, policy: impl Policy + 'static) -> (MockDevice, Pool<MockDevice>) {
    pool_of(budget, |config| config.policy(Box::new(policy)))
}

fn pool_of(
    budget: u64,
    config: impl FnOnce(PoolConfig) -> PoolConfig,
) -> (MockDevice, Pool<MockDevice>) {
    let device = MockConfig::new(Bytes::gib(4)).budget(regions(budget));
    let device = MockDevice::new(device).unwrap();
    let config = config(PoolConfig::new(regions(budget)).region_size(REGION));
    (device.clone(), Pool::new(device, config).unwrap())
}

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

    /// I4: jobs of any shape that each fit alone always finish, whoever is let start and whoever
    /// goes first, and none of them is refused.
    #[test]
    fn jobs_that_fit_alone_always_finish(
        jobs in prop::collection::vec((0..3u64, prop::collection::vec(1..5u64, 1..6)), 1..5),
        slack in 0..6u64,
        order in prop::collection::vec(0..4usize, 1..40),
        policy in 0..PolicyKind::ALL.len(),
    ) {
        let kept: u64 = jobs.iter().map(|(kept, _)| kept).sum();
        let peak: u64 = jobs.iter().map(|(_, wave)| wave.iter().sum()).max().unwrap_or(0);
        // Instead of the two that need more, the one that lets everybody start.
        let kind = Some(PolicyKind::ALL[policy]).filter(|kind| !kind.needs_every_peak());
        let policy = kind.map_or(Box::new(Reckless) as Box<dyn Policy>, PolicyKind::policy);
        let (device, pool) = pool_of(kept + peak + slack, |config| config.policy(policy));
        let mut all: Vec<Waves> =
            jobs.iter().map(|(kept, wave)| Waves::join(&device, &pool, *kept, wave, 5)).collect();
        run_all(&device, &pool, &mut all, &order);
    }
}

/// I5: a job with heavy iterations among jobs with light ones, who go first and of whom some always wait,
/// starts once 16 have passed it over, after those that run and one of each job that asked before.
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

/// I6: a job that needs more than the budget leaves is refused alone; the other goes on.
#[test]
fn a_job_that_asks_too_much_fails_alone() {
    for (budget, fits) in [(10, false), (11, true)] {
        let (device, pool) = pool(budget, TimeShift::default());
        let mut good = Waves::join(&device, &pool, 2, &[1, 1, 1], 5);
        let greedy = pool.join("greedy", device.add_stream()).unwrap();
        match greedy.alloc(Request::new(regions(9), Lifetime::Persistent)) {
            Ok(_) if fits => continue,
            Err(AllocError::OutOfMemory(why)) if !fits => {
                let shortage = &why.shortage;
                assert_eq!((shortage.asked, shortage.held_by_others), (regions(9), regions(2)));
                assert_eq!((&*why.holders[0].job, why.holders.len()), ("waves", 1));
                assert_eq!(why.missing, regions(1), "with one region more it is granted");
            }
            other => panic!("{other:?}"),
        }
        run_all(&device, &pool, std::slice::from_mut(&mut good), &[0]);
    }
}

/// I6: what stays must leave room for the known peaks of the others.
#[test]
fn persistent_growth_cannot_shut_out_another_job() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut first = Waves::join(&device, &pool, 1, &[3, 3], 1);
    run_all(&device, &pool, std::slice::from_mut(&mut first), &[0]);
    device.run_until_idle();
    pool.poll().unwrap();
    let second = pool.join("second", device.add_stream()).unwrap();
    second.alloc(Request::new(regions(3), Lifetime::Persistent)).unwrap();
    let error = second.alloc(Request::new(regions(1), Lifetime::Persistent)).unwrap_err();
    assert!(matches!(error, AllocError::OutOfMemory(_)), "{error}");
    first.left = 3;
    run_all(&device, &pool, std::slice::from_mut(&mut first), &[0]);
}

/// I6: a job that leaves in mid-iteration gives everything back, once the device has passed it.
#[test]
fn a_job_that_leaves_returns_what_it_held() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut leaver = Waves::join(&device, &pool, 2, &[4, 3], 5);
    (0..3).for_each(|_| assert!(leaver.step(&device)));
    let (other, stream) = (device.add_stream(), leaver.stream);
    let other = pool.join("other", other).unwrap();
    drop(leaver);
    let all = Request::new(regions(10), Lifetime::Iteration);
    assert_eq!(other.begin(), Ok(Begin::Started));
    assert!(matches!(other.alloc(all), Err(AllocError::Busy(_))), "the device still uses it");
    assert!(device.outstanding(stream) > 0);
    device.run_until_idle();
    other.alloc(all).unwrap();
}

/// I7: a handle that is not this job's, or not live any more, is a typed error and changes nothing.
#[test]
fn stale_and_foreign_handles_are_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    let (one, two) = (
        pool.join("one", device.add_stream()).unwrap(),
        pool.join("two", device.add_stream()).unwrap(),
    );
    let request = Request::new(Bytes::kib(1), Lifetime::Persistent);
    let first = one.alloc(request).unwrap();
    assert_eq!(two.free(first), Err(FreeError::NotLive(first.address())));
    one.free(first).unwrap();
    let second = one.alloc(request).unwrap();
    assert_eq!(second.address(), first.address());
    assert_eq!(one.free(first), Err(FreeError::Stale(first.address())));
    one.free(second).unwrap();
}

/// What a job keeps from its last iteration is not there for others: they wait until it is freed.
#[test]
fn memory_kept_between_iterations_is_waited_for() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut job = Waves::join(&device, &pool, 1, &[7], 2);
    job.left = 1;
    run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(), Ok(Begin::Started));
    device.run_until_idle();
    let kept = other.alloc(Request::new(regions(7), Lifetime::Iteration)).unwrap();
    other.end().unwrap();
    assert_eq!(job.job.begin(), Ok(Begin::Wait(None)));
    let generation = pool.generation();
    other.free(kept).unwrap();
    assert_ne!(pool.generation(), generation);
    assert_eq!(job.job.begin(), Ok(Begin::Started));
}

/// A job whose iterations cannot fit beside what the others keep is told so, with the numbers.
#[test]
fn an_iteration_that_can_never_fit_is_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    // Both in their first iterations: nothing is known yet that could refuse the growth of either.
    let mut job = Waves::join(&device, &pool, 1, &[7], 1);
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(), Ok(Begin::Started));
    other.alloc(Request::new(regions(3), Lifetime::Persistent)).unwrap();
    other.end().unwrap();
    assert!(job.step(&device), "its first iteration starts");
    let error = job.job.alloc(Request::new(regions(7), Lifetime::Iteration)).unwrap_err();
    assert!(matches!(error, AllocError::OutOfMemory(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("budget 20 MiB") && text.contains("6 MiB by 1 other job"), "{text}");
}

/// A claim is as far above what the iterations took as they have exceeded it lately, by one region at
/// least.
#[test]
fn the_margin_is_what_the_iterations_have_shown() {
    let (device, pool) = pool(200, TimeShift::default());
    let terms = JobConfig::new("job").without_plans();
    let mut job = Waves::join_as(terms, &device, &pool, 1, &[100, 28], 3);
    job.shape = Some(7);
    let mut claim_after = |wave: &[u64], times| {
        (job.wave, job.left) = (wave.to_vec(), times);
        run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
        job.left = 1;
        assert!(job.step(&device), "the next one begins");
        pool.snapshot().jobs[0].claim
    };
    assert_eq!(claim_after(&[100, 28], 3), Some(regions(128 + 1)), "it repeats exactly");
    assert_eq!(claim_after(&[100, 38], 1), Some(regions(138 + 10)));
    assert_eq!(claim_after(&[100, 20], 1), Some(regions(138 + 10)), "the envelope of the last two");
    assert_eq!(claim_after(&[100, 20], 1), Some(regions(120 + 10)));
    assert_eq!(claim_after(&[100, 33], 1), Some(regions(133 + 13)));
    assert_eq!(claim_after(&[100, 20], 7), Some(regions(120 + 13)));
    assert_eq!(claim_after(&[100, 20], 1), Some(regions(120 + 1)), "eight iterations ago");
}

/// What is expected of an iteration is what those of its shape have taken: from its beginning if the job
/// says which it is, from its first allocation if it does not. One that is new may take anything.
#[test]
fn an_iteration_is_known_by_its_first_allocation_or_by_what_the_job_says() {
    let waves: [&[u64]; 3] = [&[20, 5], &[60, 20], &[40, 9, 2]];
    for told in [false, true] {
        let (device, pool) = pool(200, TimeShift::default());
        let terms = JobConfig::new("job").without_plans();
        let mut job = Waves::join_as(terms, &device, &pool, 1, &[10], 1);
        let claim = || pool.snapshot().jobs[0].claim;
        let known = |regions_: u64| Some(regions(regions_ + 1));
        // The first iteration is nobody's shape. Then each of them twice.
        run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
        for round in 0..3 {
            for (shape, wave) in waves.into_iter().enumerate() {
                job.shape = told.then_some(shape as u64);
                (job.wave, job.left) = (wave.to_vec(), 1);
                let (largest, own) = (80, wave.iter().sum());
                assert!(job.step(&device), "it begins");
                if round > 1 {
                    assert_eq!(claim(), known(if told { own } else { largest }));
                }
                assert!(job.step(&device), "its first block");
                let expected = if round == 0 { None } else { known(own) };
                assert_eq!(claim(), expected, "shape {shape}, round {round}, told {told}");
                run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
            }
        }
    }
}

/// I6: jobs that suddenly take more do not fail, nor make others fail, as long as each fits alone: what
/// is known can finish before what is new gets on.
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

/// I1: memory freed by the program but not yet passed by the device stays charged.
#[test]
fn freed_memory_is_charged_until_its_fence_has_passed() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut one = Waves::join(&device, &pool, 0, &[8], 1);
    (0..3).for_each(|_| assert!(one.step(&device)));
    assert_eq!((one.job.held().iteration, one.job.held().draining), (Bytes::ZERO, regions(8)));
    let two = pool.join("two", device.add_stream()).unwrap();
    let request = Request::new(regions(4), Lifetime::Persistent);
    assert!(matches!(two.alloc(request), Err(AllocError::Busy(_))));
    // The job itself may have it again at once: work on one stream runs in order.
    one.job.alloc(Request::new(regions(8), Lifetime::Iteration)).unwrap();
    assert_eq!(one.job.held().draining, Bytes::ZERO);
}

/// A block with its owner known to the oracle.
fn owned(
    device: &MockDevice,
    job: &Job<MockDevice>,
    stream: MockStream,
    owner: u32,
    count: u64,
) -> (Block, Claim) {
    let block = job.alloc(Request::new(regions(count), Lifetime::Iteration)).unwrap();
    (block, device.own(stream, owner, block.address(), block.bytes()).unwrap())
}

/// I3: with ordered hand-over the new owner's stream waits on the device, and its host does not.
#[test]
fn a_stream_may_wait_for_the_fence_instead_of_the_host() {
    let (device, pool) = pool_of(8, |config| config.hand_over(HandOver::Ordered));
    let (first, second) = (device.add_stream(), device.add_stream());
    let (one, two) = (pool.join("one", first).unwrap(), pool.join("two", second).unwrap());
    let (block, claim) = owned(&device, &one, first, 1, 8);
    device.launch(first, Ticks::micros(100), Utilisation::FULL).unwrap();
    device.disown(first, claim).unwrap();
    one.free(block).unwrap();
    let (block, claim) = owned(&device, &two, second, 2, 8);
    assert!(device.outstanding(first) > 0, "the device has not passed the fence");
    assert_eq!(device.calls().of(Operation::OrderAfter), 1);
    assert_eq!((one.held().total(), two.held().iteration), (Bytes::ZERO, regions(8)));
    device.launch(second, Ticks::micros(1), Utilisation::FULL).unwrap();
    device.disown(second, claim).unwrap();
    two.free(block).unwrap();
    drop((one, two));
    assert_eq!(device.run_until_idle(), Ticks::micros(101), "one after the other");
    pool.poll().unwrap();
    assert_eq!(device.violations(), []);
    assert_eq!(pool.snapshot().free, regions(8));
}

/// Isolated jobs cannot reach each other's memory by an address that they had before.
#[test]
fn isolated_jobs_lose_their_addresses() {
    for (hand_over, reachable) in [(HandOver::Fenced, true), (HandOver::Isolated, false)] {
        let (device, pool) = pool_of(1, |config| config.hand_over(hand_over));
        let (first, second) = (device.add_stream(), device.add_stream());
        let (one, two) = (pool.join("one", first).unwrap(), pool.join("two", second).unwrap());
        let block = one.alloc(Request::new(REGION, Lifetime::Iteration)).unwrap();
        one.free(block).unwrap();
        let (_, claim) = owned(&device, &two, second, 2, 1);
        device.disown(second, claim).unwrap();
        let stale = Access { owner: 2, addr: block.address(), len: block.bytes() };
        let again = device.own(first, 2, block.address(), block.bytes()).unwrap();
        device.launch_touching(first, Ticks::ZERO, Utilisation::FULL, &[stale]).unwrap();
        device.disown(first, again).unwrap();
        assert_eq!(device.violation_count() == 0, reachable, "{hand_over:?}");
    }
}

/// Memory that is nobody's can be given back to the device, and comes again when it is needed.
#[test]
fn what_is_nobodys_can_be_trimmed() {
    let (device, pool) = pool(10, TimeShift::default());
    let job = pool.join("job", device.add_stream()).unwrap();
    let kept = job.alloc(Request::new(regions(3), Lifetime::Persistent)).unwrap();
    let wave = Request::new(regions(5), Lifetime::Iteration);
    job.free(job.alloc(wave).unwrap()).unwrap();
    assert_eq!(device.usage().physical, regions(8));
    assert_eq!(pool.trim(regions(6)).unwrap(), regions(6));
    assert_eq!(device.usage().physical, regions(6));
    assert_eq!(pool.trim(Bytes::ZERO).unwrap(), regions(3), "what a job has stays");
    job.free(job.alloc(wave).unwrap()).unwrap();
    job.free(kept).unwrap();
    assert_eq!(pool.trim(Bytes::ZERO).unwrap(), Bytes::ZERO);
    assert_eq!((device.usage().physical, device.usage().mappings), (Bytes::ZERO, 0));
}

/// A lowered budget is reached within one iteration of each running job, and they all go on.
#[test]
fn a_lowered_budget_is_reached_within_an_iteration() {
    let (device, pool) = pool(20, TimeShift::default());
    let mut jobs =
        [Waves::join(&device, &pool, 1, &[4, 3], 3), Waves::join(&device, &pool, 1, &[3, 2], 3)];
    run_all(&device, &pool, &mut jobs, &[0, 1]);
    jobs.iter_mut().for_each(|job| job.left = 2);
    // Both have begun and hold their first blocks.
    for job in &mut jobs {
        (0..2).for_each(|_| assert!(job.step(&device)));
    }
    let status = pool.set_budget(regions(9)).unwrap();
    assert_eq!(status.target, regions(9));
    assert!(status.held <= regions(20) && !status.pending.is_zero(), "{status:?}");
    // The iterations that run finish: theirs are the next six steps at most.
    for _ in 0..6 {
        for job in &mut jobs {
            if job.at.is_some() {
                job.step(&device);
            }
        }
        device.run_until_idle();
        pool.poll().unwrap();
    }
    let status = pool.budget_status();
    assert_eq!((status.pending, status.held <= regions(9)), (Bytes::ZERO, true), "{status:?}");
    assert!(device.usage().physical <= regions(9));
    run_all(&device, &pool, &mut jobs, &[0, 1]);
    assert!(device.usage().physical <= regions(9));
}

/// The end of an iteration that held nothing any more is all that a lowered budget has waited for.
#[test]
fn a_lowered_budget_is_reached_as_soon_as_the_iteration_ends() {
    let (device, pool) = pool(10, TimeShift::default());
    let job = pool.join("job", device.add_stream()).unwrap();
    assert_eq!(job.begin(), Ok(Begin::Started));
    let status = pool.set_budget(regions(5)).unwrap();
    assert_eq!(status.pending, regions(5), "nobody knows what it takes");
    job.end().unwrap();
    assert_eq!(pool.budget_status().pending, Bytes::ZERO);
}

/// What stays has to fit in the budget that is to be, whatever there is until that is reached.
#[test]
fn growth_that_stays_is_measured_by_the_lowered_budget() {
    let (device, pool) = pool(10, TimeShift::default());
    let (job, other) = (
        pool.join("job", device.add_stream()).unwrap(),
        pool.join("other", device.add_stream()).unwrap(),
    );
    assert_eq!(job.begin(), Ok(Begin::Started));
    job.alloc(Request::new(regions(2), Lifetime::Iteration)).unwrap();
    assert_eq!(pool.set_budget(regions(5)).unwrap().pending, regions(5));
    let error = other.alloc(Request::new(regions(6), Lifetime::Persistent)).unwrap_err();
    let AllocError::OutOfMemory(why) = error else { panic!("{error}") };
    assert_eq!(why.missing, regions(1));
}

/// Raised again before the reclaim has ended, a budget is there at once.
#[test]
fn a_budget_may_be_raised_before_it_has_been_lowered() {
    let (device, pool) = pool(10, TimeShift::default());
    let stream = device.add_stream();
    let job = pool.join("job", stream).unwrap();
    let request = |count| Request::new(regions(count), Lifetime::Iteration);
    let block = job.alloc(request(8)).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    job.free(block).unwrap();
    let status = pool.set_budget(regions(3)).unwrap();
    assert_eq!((status.held, status.pending), (regions(8), regions(5)));
    let error = job.alloc(request(4)).unwrap_err();
    assert!(matches!(error, AllocError::OutOfMemory(_)), "{error}");
    let status = pool.set_budget(regions(12)).unwrap();
    assert_eq!((status.held, status.pending), (regions(8), Bytes::ZERO));
    job.alloc(request(12)).unwrap();
    assert_eq!(device.usage().physical, regions(12));
}

/// A budget below what the jobs keep is refused with the numbers, as is one that cannot be.
#[test]
fn a_budget_that_cannot_be_is_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    let job = pool.join("job", device.add_stream()).unwrap();
    job.alloc(Request::new(regions(4), Lifetime::Persistent)).unwrap();
    let (asked, kept) = (regions(3), regions(4));
    assert_eq!(pool.set_budget(asked), Err(BudgetError::BelowPersistent { asked, kept }));
    let (asked, region) = (Bytes::kib(1), REGION);
    assert_eq!(pool.set_budget(asked), Err(BudgetError::TooSmall { asked, region }));
    let (asked, capacity) = (Bytes::gib(5), Bytes::gib(4));
    assert_eq!(pool.set_budget(asked), Err(BudgetError::BeyondDevice { asked, capacity }));
    assert_eq!(pool.budget(), regions(10));
    assert_eq!(pool.set_budget(regions(4)).unwrap().target, regions(4));
}

/// A job that waits to start and no longer fits is told so.
#[test]
fn a_waiting_job_is_told_that_the_budget_has_become_too_small() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut job = Waves::join(&device, &pool, 1, &[7], 3);
    run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(), Ok(Begin::Started));
    assert!(matches!(job.job.begin(), Ok(Begin::Wait(_))));
    let generation = pool.generation();
    pool.set_budget(regions(5)).unwrap();
    assert_ne!(pool.generation(), generation);
    assert!(matches!(job.job.begin(), Err(BeginError::NeverFits { .. })));
}

/// I3: a block that another stream uses comes back only after that stream's work, and if memory is
/// short the job's own stream waits for it instead of the host.
#[test]
fn a_block_that_another_stream_uses_waits_for_it() {
    let (device, pool) = pool(2, TimeShift::default());
    let (own, side) = (device.add_stream(), device.add_stream());
    let job = pool.join("job", own).unwrap();
    assert_eq!(job.begin(), Ok(Begin::Started));
    let (block, claim) = owned(&device, &job, own, 1, 1);
    let access = Access { owner: 1, addr: block.address(), len: block.bytes() };
    job.record_use(block, side).unwrap();
    let work = Ticks::micros(100);
    device.launch_touching(side, work, Utilisation::FULL, &[access]).unwrap();
    device.disown(side, claim).unwrap();
    job.free(block).unwrap();
    assert_eq!(job.free(block), Err(FreeError::NotLive(block.address())));
    let stats = job.stats();
    assert_eq!((stats.allocated.current, stats.active.current), (Bytes::ZERO, REGION));
    // There is another region: nothing waits.
    let (second, second_claim) = owned(&device, &job, own, 1, 1);
    assert_ne!(second.address(), block.address());
    assert_eq!(device.calls().of(Operation::OrderAfter), 0);
    // There is none left: the job's stream waits.
    let (third, third_claim) = owned(&device, &job, own, 1, 1);
    assert_eq!(third.address(), block.address());
    assert_eq!(device.calls().of(Operation::OrderAfter), 1);
    assert_eq!(job.stats().active.current, regions(2));
    for (block, claim) in [(second, second_claim), (third, third_claim)] {
        device.disown(own, claim).unwrap();
        job.free(block).unwrap();
    }
    device.run_until_idle();
    assert_eq!(device.violations(), []);
}

/// What is still live when a job leaves is said by name, and comes back all the same.
#[test]
fn what_a_job_leaks_is_said_by_name() {
    let (_, pool) = pool(10, TimeShift::default());
    let job = pool.join("leaky", pool.device().add_stream()).unwrap();
    let request = |kib| Request::new(Bytes::kib(kib), Lifetime::Iteration);
    let freed = job.alloc(request(8).named("workspace")).unwrap();
    for _ in 0..2 {
        job.alloc(request(100).named("embedding")).unwrap();
    }
    job.alloc(request(3)).unwrap();
    job.free(freed).unwrap();
    let leaks = job.leave();
    assert_eq!((leaks.blocks.len(), leaks.total()), (3, Bytes::kib(203)));
    let text = leaks.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "leaky: 3 live blocks, 203 KiB");
    assert!(lines[1].starts_with("200 KiB") && lines[1].ends_with("2 iteration embedding"));
    assert!(lines[2].ends_with("1 iteration (no name)") && lines.len() == 3, "{text}");
    pool.poll().unwrap();
    assert_eq!(pool.snapshot().free, pool.snapshot().held);
}

/// Of the regions that are free a job gets those that others use for the least of their time.
#[test]
fn a_job_gets_what_others_use_least() {
    let (device, pool) = pool(2, TimeShift::default());
    let stream = device.add_stream();
    let one = pool.join(JobConfig::new("one").without_plans(), stream).unwrap();
    let two = pool.join("two", device.add_stream()).unwrap();
    let alloc = |kib| one.alloc(Request::new(Bytes::kib(kib), Lifetime::Iteration)).unwrap();
    // Its first page is in use in all of an iteration, the second for a moment.
    for _ in 0..3 {
        assert_eq!(one.begin(), Ok(Begin::Started));
        let long = alloc(1536);
        one.free(alloc(2048)).unwrap();
        (0..20).for_each(|_| one.free(alloc(1)).unwrap());
        one.free(long).unwrap();
        one.end().unwrap();
        pool.poll().unwrap();
    }
    two.alloc(Request::new(REGION, Lifetime::Iteration)).unwrap();
    let maps = device.calls().of(Operation::Map);
    alloc(1536);
    assert_eq!(device.calls().of(Operation::Map), maps, "its first page has its region still");
}

/// A block that outlives all others strands the region it lies in, and no other.
#[test]
fn a_stray_block_strands_one_region() {
    for kib in [1, 64, 128] {
        for after in 0..40 {
            let (_, pool) = pool(200, TimeShift::default());
            let job = pool.join("job", pool.device().add_stream()).unwrap();
            let request = |kib| Request::new(Bytes::kib(kib), Lifetime::Iteration);
            let block = |i: u64| job.alloc(request(300 + 777 * (i % 7))).unwrap();
            let before: Vec<Block> = (0..after).map(block).collect();
            job.alloc(request(kib)).unwrap();
            let behind: Vec<Block> = (after..40).map(block).collect();
            for block in before.into_iter().chain(behind) {
                job.free(block).unwrap();
            }
            assert_eq!(job.held().iteration, REGION, "{kib} KiB after {after} blocks");
        }
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
