use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn step(progress: u32, at: u64, demand: u32) -> Step {
    Step {
        progress: Progress::new(progress),
        at: Ticks::new(at),
        demand: Regions::new(demand + 1),
        leased: Regions::new(demand),
    }
}

fn profile(steps: &[(u32, u64, u32)], operations: u32, length: u64) -> Profile {
    let mut recorder = Recorder::default();
    steps.iter().for_each(|&(progress, at, demand)| recorder.note(step(progress, at, demand)));
    recorder.finish(Progress::new(operations), Ticks::new(length))
}

#[test]
fn progress_and_time_convert_into_each_other() {
    let wave = profile(&[(0, 0, 1), (10, 100, 5), (30, 200, 2)], 40, 400);
    for (progress, at) in [(0, 0), (5, 50), (10, 100), (20, 150), (30, 200), (35, 300), (40, 400)] {
        assert_eq!(wave.position(Progress::new(progress)), Ticks::new(at));
        assert_eq!(wave.progress_at(Ticks::new(at)), Progress::new(progress));
    }
    assert_eq!(wave.position(Progress::MAX), Ticks::new(400));
    assert_eq!(wave.progress_at(Ticks::MAX), Progress::new(40));
}

#[test]
fn what_comes_from_elsewhere_is_in_order_or_no_profile() {
    let of = |steps: &[(u32, u64, u32)], operations, length| {
        let steps =
            steps.iter().map(|&(progress, at, demand)| step(progress, at, demand)).collect();
        Profile::from_parts(steps, Progress::new(operations), Ticks::new(length)).is_some()
    };
    assert!(of(&[(0, 0, 1), (10, 100, 2), (20, 100, 3)], 20, 100));
    assert!(!of(&[], 20, 100));
    assert!(!of(&[(1, 0, 1)], 20, 100) && !of(&[(0, 1, 1)], 20, 100));
    assert!(!of(&[(0, 0, 1), (10, 100, 2), (20, 99, 3)], 20, 100));
    assert!(!of(&[(0, 0, 1), (10, 100, 2), (9, 100, 3)], 20, 100));
    assert!(!of(&[(0, 0, 1), (10, 101, 2)], 20, 100), "it begins when the iteration is over");
    assert!(!of(&[(0, 0, 1), (21, 100, 2)], 20, 100));
}

#[test]
fn the_claim_is_the_largest_demand_still_ahead() {
    let wave = profile(&[(0, 0, 1), (10, 100, 5), (20, 150, 2), (30, 200, 3)], 40, 400);
    for (progress, claim) in [(0, 5), (10, 5), (19, 5), (20, 3), (39, 3), (100, 3)] {
        assert_eq!(wave.claim_from(Progress::new(progress)), Regions::new(claim));
    }
    assert_eq!((wave.claim(), wave.peak()), (Regions::new(5), Regions::new(6)));
}

#[test]
fn a_peak_shorter_than_any_step_survives_coarsening() {
    let many = (0..5000).map(|i| step(i, u64::from(i), if i == 2500 { 900 } else { i % 7 }));
    let mut recorder = Recorder::default();
    many.for_each(|step| recorder.note(step));
    let wave = recorder.finish(Progress::new(5000), Ticks::new(5000));
    assert!(wave.steps().len() <= PROFILE_STEPS);
    assert_eq!((wave.claim(), wave.peak()), (Regions::new(900), Regions::new(901)));
    assert_eq!(wave.claim_from(Progress::new(2500)), Regions::new(900));
    assert!(wave.claim_from(Progress::new(2600)) < Regions::new(20), "the peak stays where it was");
}

#[test]
fn an_iteration_that_does_not_end_takes_bounded_memory() {
    let mut recorder = Recorder::default();
    for i in 0..200_000 {
        recorder.note(step(i, u64::from(i), if i == 2500 { 900 } else { i % 7 }));
        assert!(recorder.steps.len() <= NOTED_STEPS);
    }
    let wave = recorder.finish(Progress::new(200_000), Ticks::new(200_000));
    assert_eq!((wave.claim(), wave.peak()), (Regions::new(900), Regions::new(901)));
    assert!(wave.claim_from(Progress::new(20_000)) < Regions::new(20));
}

#[test]
fn the_crest_is_where_the_demand_is_highest() {
    let wave = profile(&[(0, 0, 1), (10, 100, 5), (20, 150, 2), (30, 200, 5)], 40, 400);
    assert_eq!((wave.crest_begins(), wave.crest_ends()), (Ticks::new(100), Ticks::new(150)));
    for (at, here, ahead) in
        [(0, 2, 6), (120, 6, 6), (150, 3, 6), (200, 6, 6), (399, 6, 6), (400, 0, 0)]
    {
        let at = Ticks::new(at);
        assert_eq!(wave.demand_at(at), Regions::new(here));
        assert_eq!(wave.demand_from(at), Regions::new(ahead));
    }
    let fallen = profile(&[(0, 0, 9), (10, 100, 4), (20, 150, 2)], 40, 400);
    assert_eq!(fallen.demand_from(Ticks::new(100)), Regions::new(5));
}

#[test]
fn a_declared_maximum_is_a_wave_that_does_not_end() {
    let wave = Profile::flat(Regions::new(7));
    assert_eq!((wave.peak(), wave.claim()), (Regions::new(7), Regions::new(7)));
    let far = wave.position(Progress::new(1 << 20));
    assert_eq!(wave.demand_at(far), Regions::new(7));
    assert_eq!(wave.claim_from(Progress::new(1 << 30)), Regions::new(7));
}

fn demand_at(profile: &Profile, progress: Progress) -> Regions {
    profile.steps[profile.step_at(progress)].demand
}

#[test]
fn an_envelope_is_never_below_either() {
    let long = profile(&[(0, 0, 1), (50, 100, 9), (60, 120, 1)], 100, 200);
    let short = profile(&[(0, 0, 2), (10, 10, 4), (25, 30, 0)], 50, 60);
    let both = long.envelope(&short);
    assert_eq!((both.operations(), both.length()), (long.operations(), long.length()));
    for p in 0..100 {
        let here = demand_at(&both, Progress::new(p));
        assert!(here >= demand_at(&long, Progress::new(p)));
        assert!(here >= demand_at(&short, Progress::new(p / 2)));
    }
}

/// A step of the older one may begin between two of the newer one's operations, or before its
/// first if it made none.
#[test]
fn an_envelope_has_the_peaks_of_both_however_few_operations_the_newer_one_made() {
    let older = profile(&[(1, 10, 2), (2, 20, 7), (3, 30, 3), (4, 40, 0)], 5, 50);
    for operations in 0..5 {
        let newer = profile(&[], operations, 9);
        let both = newer.envelope(&older);
        assert_eq!((both.claim(), both.peak()), (older.claim(), older.peak()), "{operations}");
    }
}

fn waves() -> impl Strategy<Value = Profile> {
    let steps = vec((0u32..3, 0u64..3, 0u32..9), 0..20);
    (steps, 0u32..4, 0u64..4).prop_map(|(steps, operations, length)| {
        let (mut progress, mut at) = (0, 0);
        let steps = steps.into_iter().map(|(operations, time, demand)| {
            (progress, at) = (progress + operations, at + time);
            (progress, at, demand)
        });
        let steps: Vec<_> = steps.collect();
        profile(&steps, progress + operations, at + length)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is expected of the next iteration is the most of both.
    #[test]
    fn an_envelope_is_as_high_as_the_higher_one(newer in waves(), older in waves()) {
        let both = newer.envelope(&older);
        prop_assert_eq!(both.claim(), newer.claim().max(older.claim()));
        prop_assert_eq!(both.peak(), newer.peak().max(older.peak()));
    }

    /// Whatever steps and length somebody gives.
    #[test]
    fn a_profile_is_in_order(
        steps in vec((0u32..9, 0u64..9, 0u32..9), 0..20),
        (operations, length) in (0u32..9, 0u64..9),
    ) {
        let wave = profile(&steps, operations, length);
        let first = wave.steps()[0];
        prop_assert!(first.progress.is_zero() && first.at.is_zero());
        let mut points: Vec<_> = wave.steps().iter().map(|step| (step.progress, step.at)).collect();
        points.push((wave.operations(), wave.length()));
        prop_assert!(points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1));
        let parts = Profile::from_parts(wave.steps().to_vec(), wave.operations(), wave.length());
        prop_assert_eq!(parts, Some(wave));
    }
}
