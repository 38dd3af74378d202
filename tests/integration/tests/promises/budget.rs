//! Budgets that change, and memory that goes back to the device.

use zico_core::policy::TimeShift;
use zico_core::{AllocError, Begin, BeginError, BudgetError, Bytes, Lifetime, Request, Ticks};
use zico_mock::Utilisation;
use zico_tests::waves::{REGION, Waves, regions, run_all};

use super::pool;

/// Free memory can be given back to the device, and is created again when it is needed.
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
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let status = pool.set_budget(regions(5)).unwrap();
    assert_eq!(status.pending, regions(5), "nobody knows what it takes");
    job.end().unwrap();
    assert_eq!(pool.budget_status().pending, Bytes::ZERO);
}

/// Persistent memory has to fit in the lowered budget, even before that is reached.
#[test]
fn growth_that_stays_is_measured_by_the_lowered_budget() {
    let (device, pool) = pool(10, TimeShift::default());
    let (job, other) = (
        pool.join("job", device.add_stream()).unwrap(),
        pool.join("other", device.add_stream()).unwrap(),
    );
    assert_eq!(job.begin(None), Ok(Begin::Started));
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
    assert_eq!(other.begin(None), Ok(Begin::Started));
    assert!(matches!(job.job.begin(None), Ok(Begin::Wait(_))));
    let generation = pool.generation();
    pool.set_budget(regions(5)).unwrap();
    assert_ne!(pool.generation(), generation);
    assert!(matches!(job.job.begin(None), Err(BeginError::NeverFits { .. })));
}
