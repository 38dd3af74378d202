//! Waves and jobs for the policies' tests.

use std::sync::Arc;

use zico_core::policy::{Policy, Tenant, Verdict, View};
use zico_core::{Activity, Profile, Progress, Regions, Step, Ticks};

/// A wave of steps `(length, demand)`, one operation per tick.
pub(super) fn wave(steps: &[(u32, u32)]) -> Profile {
    let mut at = 0;
    let steps = steps.iter().map(|&(length, demand)| {
        let (progress, demand) = (Progress::new(at), Regions::new(demand));
        let step = Step { progress, at: Ticks::new(at.into()), demand, leased: demand };
        at += length;
        step
    });
    let steps: Vec<Step> = steps.collect();
    Profile::of(steps, Progress::new(at), Ticks::new(at.into()))
}

/// A job of these waves whose iteration has come so far.
pub(super) fn running(steps: &[(u32, u32)], progress: u32) -> Tenant {
    let progress = Progress::new(progress);
    Tenant { activity: Activity::Running, progress, ..waiting(steps) }
}

/// A job of these waves that would like to start.
pub(super) fn waiting(steps: &[(u32, u32)]) -> Tenant {
    let profile = Some(Arc::new(wave(steps)));
    Tenant { profile, activity: Activity::Waiting, ..Tenant::default() }
}

/// A job of which nothing is known.
pub(super) fn unknown(activity: Activity) -> Tenant {
    Tenant { activity, ..Tenant::default() }
}

/// What a policy says of the last of the jobs.
pub(super) fn verdict(policy: &mut impl Policy, budget: u32, jobs: &[Tenant]) -> Verdict {
    policy.decide(&View::new(Regions::new(budget), jobs, jobs.len() - 1))
}

/// After so many ticks.
pub(super) fn after(ticks: u64) -> Verdict {
    Verdict::After(Ticks::new(ticks))
}
