//! What is expected of the next iteration.

use zico_core::JobConfig;
use zico_core::policy::TimeShift;
use zico_tests::waves::{Waves, regions, run_all};

use super::pool;

/// A claim is as far above what the iterations took as they have exceeded it lately, by one region
/// at least.
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

/// What is expected of an iteration is what those of its shape have taken: from its beginning if
/// the job says which it is, from its first allocation if it does not. One that is new may take
/// anything.
#[test]
fn an_iteration_is_known_by_its_first_allocation_or_by_what_the_job_says() {
    let waves: [&[u64]; 3] = [&[20, 5], &[60, 20], &[40, 9, 2]];
    for told in [false, true] {
        let (device, pool) = pool(200, TimeShift::default());
        let terms = JobConfig::new("job").without_plans();
        let mut job = Waves::join_as(terms, &device, &pool, 1, &[10], 1);
        let claim = || pool.snapshot().jobs[0].claim;
        let known = |regions_: u64| Some(regions(regions_ + 1));
        // It comes after one of another shape: its blocks may lie otherwise, until five such have
        // shown by how much.
        let known_after_another = |regions_: u64| Some(regions(regions_ + 4));
        // The first iteration has no known shape. Then each of them three times.
        run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
        for round in 0..3 {
            for (shape, wave) in waves.into_iter().enumerate() {
                job.shape = told.then_some(shape as u64);
                (job.wave, job.left) = (wave.to_vec(), 1);
                let (largest, own) = (80, wave.iter().sum());
                assert!(job.step(&device), "it begins");
                if round > 1 && told {
                    assert_eq!(claim(), known(own));
                } else if round > 1 {
                    // There have been new ones lately: it may be a larger one.
                    assert!(claim() >= known(largest), "{:?}", claim());
                }
                assert!(job.step(&device), "its first block");
                let expected = match round {
                    0 => None,
                    1 => known_after_another(own),
                    _ => known(own),
                };
                assert_eq!(claim(), expected, "shape {shape}, round {round}, told {told}");
                run_all(&device, &pool, std::slice::from_mut(&mut job), &[0]);
            }
        }
    }
}
