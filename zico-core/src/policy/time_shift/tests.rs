use super::super::testing::{after, running, unknown, verdict, waiting};
use super::*;
use crate::types::report::Activity;

type Steps = [(u32, u32)];

fn delay_of(own: &Steps, others: &[(&Steps, u32)], room: u32) -> Option<u64> {
    let others = others.iter().map(|&(steps, progress)| running(steps, progress));
    let jobs: Vec<Tenant> = others.chain([waiting(own)]).collect();
    let view = View::new(Regions::new(room), &jobs, jobs.len() - 1);
    TimeShift::default().delay(view.known()?, &view).map(Ticks::value)
}

/// What zico says of the last of these jobs with room for seven regions.
fn of(jobs: &[Tenant]) -> Verdict {
    verdict(&mut TimeShift::default(), 7, jobs)
}

#[test]
fn past_the_peak_of_the_one_that_runs_an_iteration_starts_before_it_fits() {
    let job: &Steps = &[(10, 1), (10, 6), (10, 2)];
    assert_eq!(of(&[running(job, 4), waiting(job)]), after(6), "the waves fit after 16");
    assert_eq!(of(&[running(job, 10), waiting(job)]), Verdict::Start);
    let declared = Tenant {
        profile: Some(Profile::flat(Regions::new(5)).into()),
        ..unknown(Activity::Running)
    };
    assert!(matches!(of(&[declared, waiting(job)]), Verdict::After(_)), "it has no peak");
    let large = waiting(&[(10, 8)]);
    assert_eq!(of(&[running(job, 10), large]), Verdict::AfterAnEnd, "it never fits");
}

#[test]
fn beside_two_that_run_it_starts_when_it_fits() {
    let job: &Steps = &[(10, 1), (10, 6), (10, 2)];
    assert_eq!(of(&[running(job, 10), running(&[(29, 1), (1, 0)], 29), waiting(job)]), after(10));
}

#[test]
fn no_other_job_may_fit_before_one_that_starts_before_it_fits() {
    let job: &Steps = &[(10, 1), (10, 6), (10, 2)];
    let beside = |third: Tenant| of(&[running(job, 10), third, waiting(job)]);
    for activity in [Activity::Idle, Activity::Waiting] {
        let third = |steps: &Steps| Tenant { activity, ..waiting(steps) };
        assert_eq!(beside(third(&[(10, 1)])), after(10), "{activity:?}: it fits now");
        assert_eq!(beside(third(&[(10, 5), (10, 6)])), Verdict::Start, "{activity:?}: later");
        assert_eq!(beside(third(job)), Verdict::Start, "{activity:?}: no sooner");
        assert_eq!(beside(third(&[(10, 8)])), Verdict::Start, "{activity:?}: never");
        assert_eq!(beside(unknown(activity)), Verdict::Start, "{activity:?}");
    }
}

#[test]
fn each_aim_has_its_order_and_fairness_waits_for_those_behind() {
    let (low, short) = (waiting(&[(90, 2)]), waiting(&[(10, 6)]));
    let order = |aim| TimeShift::new(aim).order(&low, &short);
    assert_eq!(order(Aim::Throughput), Ordering::Less, "2 against 6");
    assert_eq!(order(Aim::Balance), Ordering::Greater, "180 against 60");
    assert_eq!(order(Aim::Fairness), Ordering::Equal);
    let served = |ticks: u64, job: &Tenant| Tenant { served: Ticks::new(ticks), ..job.clone() };
    let fair = || TimeShift::new(Aim::Fairness);
    assert_eq!(fair().order(&served(5, &low), &served(4, &short)), Ordering::Greater);
    let ahead_by = |ticks: u64, other: &Tenant| {
        let jobs = [served(3, other), served(3 + ticks, &short)];
        verdict(&mut fair(), 99, &jobs)
    };
    let other = running(&[(90, 2)], 5);
    assert_eq!(ahead_by(10, &other), Verdict::Start, "by an iteration");
    assert_eq!(ahead_by(11, &other), Verdict::AfterAnEnd);
    for (activity, expected) in [
        (Activity::Waiting, Verdict::AfterAnEnd),
        // Nobody knows when it comes again.
        (Activity::Idle, Verdict::Start),
    ] {
        let behind = Tenant { activity, ..low.clone() };
        let jobs = [served(99, &other), behind, served(99, &short)];
        assert_eq!(verdict(&mut fair(), 99, &jobs), expected, "{activity:?}");
    }
}

#[test]
fn the_lightest_goes_first_and_before_it_what_is_not_known() {
    let zico = TimeShift::default();
    let declared = Tenant { profile: Some(Profile::flat(Regions::new(9)).into()), ..waiting(&[]) };
    let (light, heavy) = (waiting(&[(30, 2)]), waiting(&[(5, 1), (10, 6)]));
    assert_eq!(zico.order(&light, &heavy), Ordering::Less, "60 against 90");
    for first in [&declared, &unknown(Activity::Waiting)] {
        assert_eq!(zico.order(first, &light), Ordering::Less);
        assert_eq!(zico.order(&heavy, first), Ordering::Greater);
    }
    assert_eq!(zico.order(&light, &light), Ordering::Equal);
}

#[test]
fn a_wave_starts_when_the_other_has_fallen_far_enough() {
    let job: &Steps = &[(10, 2), (10, 6), (10, 2)];
    assert_eq!(delay_of(job, &[(job, 0)], 12), Some(0), "both peaks fit");
    assert_eq!(delay_of(job, &[(job, 0)], 8), Some(10), "a peak fits beside a flank");
    assert_eq!(delay_of(job, &[(job, 5)], 8), Some(5), "measured from where the other is");
    assert_eq!(delay_of(job, &[(job, 20)], 8), Some(0), "the other is past its peak");
    assert_eq!(delay_of(job, &[(job, 0)], 7), Some(20), "own flank beside the last flank only");
    assert_eq!(delay_of(job, &[(job, 0)], 6), Some(20), "own peak alone, flanks together");
    assert_eq!(delay_of(job, &[(job, 0)], 5), None, "the peak does not fit at all");
}

#[test]
fn room_is_kept_for_short_iterations_that_come_again() {
    let (own, short): (&Steps, &Steps) = (&[(40, 2), (40, 6)], &[(5, 1), (5, 3)]);
    let of = |other: &Tenant, room| {
        let jobs = [running(&[(60, 2), (20, 6)], 0), other.clone(), waiting(own)];
        verdict(&mut TimeShift::default(), room, &jobs)
    };
    let [idle, waits] =
        [Activity::Idle, Activity::Waiting].map(|activity| Tenant { activity, ..waiting(short) });
    for other in [&idle, &waits, &running(short, 0), &running(short, 9)] {
        assert_eq!(of(other, 15), Verdict::Start, "all three peaks");
        assert_eq!(of(other, 14), after(40), "{:?}", other.activity);
        assert_eq!(of(other, 9), after(80), "{:?}", other.activity);
    }
    let long = Tenant { activity: Activity::Idle, ..waiting(&[(6, 1), (5, 3)]) };
    assert_eq!(of(&long, 14), Verdict::Start, "11 is not short beside 80");
    assert_eq!(of(&idle, 8), after(40), "where there is none to keep, none is kept");
}

/// Tries one delay after the other, tick by tick.
fn by_trying(own: &[u32], others: &[(Vec<u32>, u32)], room: u32) -> u64 {
    let peak = |wave: &[u32]| wave.iter().copied().max().unwrap_or(0);
    let mut left = room - peak(own);
    let mut aside = Vec::new();
    for (wave, _) in others {
        let keeps = wave.len() * 8 <= own.len() && peak(wave) <= left;
        left -= if keeps { peak(wave) } else { 0 };
        aside.push(keeps);
    }
    let fits = |delay: usize| {
        own.iter().enumerate().all(|(t, demand)| {
            let at = |((wave, from), &aside): (&(Vec<u32>, u32), &bool)| {
                let now = wave.get(*from as usize + delay + t).copied();
                if aside { Some(peak(wave)) } else { now }
            };
            demand + others.iter().zip(&aside).filter_map(at).sum::<u32>() <= room
        })
    };
    (0..).find(|&delay| fits(delay)).map_or(0, |delay| delay as u64)
}

#[test]
fn agrees_with_trying_every_delay() {
    let mut seed = 1u32;
    let mut below = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % n
    };
    let flat = |steps: &[(u32, u32)]| -> Vec<u32> {
        steps
            .iter()
            .flat_map(|&(length, demand)| core::iter::repeat_n(demand, length as usize))
            .collect()
    };
    for case in 0..3000 {
        let mut steps =
            || -> Vec<(u32, u32)> { (0..=below(6)).map(|_| (1 + below(5), below(9))).collect() };
        let (own, a, b) = (steps(), steps(), steps());
        let (at_a, at_b) = (below(10), below(10));
        let room = own.iter().map(|step| step.1).max().unwrap_or(0) + below(6);
        let expected = by_trying(&flat(&own), &[(flat(&a), at_a), (flat(&b), at_b)], room);
        let found = delay_of(&own, &[(&a, at_a), (&b, at_b)], room);
        assert_eq!(
            found,
            Some(expected),
            "case {case}: {own:?} beside {a:?} at {at_a}, {b:?} at {at_b}, room {room}"
        );
    }
}

#[test]
fn the_unknown_runs_alone_and_the_declared_does_not() {
    let mut zico = TimeShift::default();
    let known = || waiting(&[(10, 4)]);
    let declared = |activity| Tenant {
        profile: Some(Profile::flat(Regions::new(5)).into()),
        ..unknown(activity)
    };
    let mut of = |one, two| verdict(&mut zico, 9, &[one, two]);
    assert_eq!(of(unknown(Activity::Running), known()), Verdict::AfterAnEnd);
    assert_eq!(of(running(&[(10, 4)], 3), unknown(Activity::Waiting)), Verdict::AfterAnEnd);
    assert_eq!(of(declared(Activity::Running), known()), Verdict::Start);
    assert_eq!(of(running(&[(10, 4)], 3), declared(Activity::Waiting)), Verdict::Start);
    assert_eq!(of(running(&[(3, 1), (10, 5), (9, 4)], 1), declared(Activity::Waiting)), after(2));
    assert!(matches!(of(declared(Activity::Running), waiting(&[(9, 5)])), Verdict::After(_)));
}
