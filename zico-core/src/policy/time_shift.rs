use alloc::vec::Vec;
use core::cmp::Ordering;

use super::tick_tock::backward;
use super::{Policy, Tenant, Verdict, View};
use crate::profile::Profile;
use crate::units::{MemoryTime, Regions, Ticks};
use sum::Sum;

mod sum;
#[cfg(test)]
mod tests;

/// An iteration is short beside one that takes so many times as long.
const MANY: u64 = 8;

/// Start at the first moment from which all waves fit together (the default).
///
/// The smallest delay d >= 0 such that for all t: own(t) + sum over the running iterations of
/// theirs(position + d + t) <= room. Zico's time-shift model (Lim et al., ATC 2021, section 5) for any
/// number of jobs; exact on the profiles' step functions instead of trying one step of time after
/// another. An iteration with no profile yet runs alone, and nothing starts beside it.
///
/// The running iterations count up to their ends. That their jobs will come again right afterwards
/// does not count: the next iteration is put off in its turn, which costs less than keeping room for
/// it. With one more iteration of each running job counted, total throughput (sum of rates over rates
/// alone, recorded jobs, at f = 0.5, 0.25, 0.1, 0.05) falls from 1.44, 1.29, 1.22, 1.20 to 1.00 for
/// resnet50 + bert-base, from 1.51, 1.52, 1.51, 1.50 to 1.44, 1.37, 1.34, 1.33 for mobilenet_v2 +
/// resnet110-cifar, and from 1.56, 1.42, 1.31, 1.30 to 1.29, 1.22, 1.23, 1.21 for gpt2-small +
/// nasnetalarge; with two more it is the same.
///
/// Where there are but two jobs it starts as soon as the other's iteration is past its peak, even if
/// the waves do not fit ([`TickTock`](super::TickTock)): from there on the other one only gives up
/// memory, so it never has to wait, and the newcomer gets on as far as there is memory instead of
/// waiting outside. That is worth up to a tenth (resnet50 + bert-base at f = 0.5: 1.57 against 1.44).
/// With a third job it costs: what the newcomer holds while it stalls is missing to that one, even if it
/// is between two iterations just now (ten triples at five budgets: 3.5% on average, up to a third).
///
/// Of those that wait the lightest goes first, by peak times length: the memory that one heavy iteration
/// takes serves many light ones. Beside the order of asking that is worth 1.6% on average over the same
/// triples, and the job that comes off worst gets more of its own rate (0.418 against 0.413) as well:
/// the order of asking gives each the same number of iterations, which is little to who has short ones.
/// How often the heavy can be passed over is [bounded](crate::Job::begin). The smallest product of the
/// memory that a job has had and the time ([`Order::Fair`](super::Order)) is worth 0.9%.
///
/// Iterations that take no more than an eighth of the candidate's time come and go while it runs, so
/// what they take is not counted where they are now: room is kept for their peaks, whether one runs
/// just now or not, as long as the candidate's own peak leaves it. Else two heavy jobs take turns in
/// what one light job needs (resnet110-cifar + resnet50 + dlrm at f = 0.1: 1.722 against 1.686).
///
/// What it needs for a decision it uses again for the next one: none allocates once a few have been
/// made.
#[derive(Clone, Debug, Default)]
pub struct TimeShift {
    sum: Sum,
    /// Of each job, whether room is kept for it.
    aside: Vec<bool>,
}

impl Policy for TimeShift {
    fn name(&self) -> &'static str {
        "zico"
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        weight(one).cmp(&weight(other))
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(own) = view.known() else { return Verdict::AfterAnEnd };
        let fits = match self.delay(own, view) {
            Some(Ticks::ZERO) => return Verdict::Start,
            Some(delay) => Verdict::After(delay),
            None => Verdict::AfterAnEnd,
        };
        // What has only declared its maximum has no peak that it could be past.
        let past_a_peak = |job: &Tenant| measured(job).is_some();
        if third(view) || !view.running().all(past_a_peak) {
            return fits;
        }
        match (backward(view.running()), fits.promise()) {
            (Verdict::Start, Some(_)) => Verdict::Start,
            (Verdict::After(falls), Some(fits)) => Verdict::After(falls.min(fits)),
            _ => fits,
        }
    }
}

impl TimeShift {
    /// The smallest delay at which `own` fits beside the running iterations, each of which goes on
    /// from its position to its end. None if `own` does not fit at all.
    fn delay(&mut self, own: &Profile, view: &View<'_>) -> Option<Ticks> {
        let low = view.room.checked_sub(own.peak())?;
        let kept = self.set_aside(own, view, low);
        let (room, low) = (view.room.saturating_sub(kept), low.saturating_sub(kept));
        let mut sum = core::mem::take(&mut self.sum);
        sum.begin(self.others(view), low);
        let delay = if sum.is_low() { Ticks::ZERO } else { first_fit(own, &mut sum, view, room) };
        self.sum = sum;
        Some(delay)
    }

    /// Jobs whose iterations come and go many times while `own` runs have room kept for their peaks
    /// instead of being counted where they are, as far as `own` leaves room at its peak: how much.
    fn set_aside(&mut self, own: &Profile, view: &View<'_>, left: Regions) -> Regions {
        self.aside.clear();
        self.aside.resize(view.jobs.len(), false);
        let mut kept = Regions::ZERO;
        for (job, tenant) in view.others() {
            let Some(profile) = measured(tenant) else { continue };
            let is_short = profile.length().value().saturating_mul(MANY) <= own.length().value();
            let more = kept.saturating_add(profile.peak());
            if is_short && more <= left {
                (self.aside[job], kept) = (true, more);
            }
        }
        kept
    }

    /// The running iterations that no room is kept for.
    fn others<'a>(&self, view: &View<'a>) -> impl Iterator<Item = (usize, &'a Tenant)> {
        view.others().filter(|&(job, tenant)| tenant.is_running() && !self.aside[job])
    }
}

/// What an iteration is known to be like, if more is known than its peak.
fn measured(job: &Tenant) -> Option<&Profile> {
    job.profile.as_deref().filter(|profile| profile.length() < Ticks::MAX)
}

/// How much an iteration takes for how long. Nothing as long as that is not known, so that it soon is.
fn weight(job: &Tenant) -> MemoryTime {
    measured(job).map_or(MemoryTime::ZERO, |profile| profile.peak().during(profile.length()))
}

/// Whether there is a third job beside the candidate and one that runs: one that runs as well, or has
/// run and so will come again.
fn third(view: &View<'_>) -> bool {
    view.others().filter(|(_, job)| job.is_running() || job.profile.is_some()).count() > 1
}

/// The smallest delay at which an iteration fits beside others, if it does when they are over.
///
/// A step [a, b) of `own` conflicts with a piece [s, e) of the others' sum for every delay in
/// (s - b, e - a). Where the step conflicts at the present delay, the last piece that it conflicts
/// with forbids every delay up to e - a, so the walk goes on from there: what is skipped is the
/// union of the forbidden intervals. It ends when all steps in a row fit. O(steps of `own` +
/// pieces) for each time round.
fn first_fit(own: &Profile, sum: &mut Sum, view: &View<'_>, room: Regions) -> Ticks {
    let steps = own.steps();
    let crest = steps.partition_point(|step| step.at < own.crest_begins());
    let mut delay = Ticks::ZERO;
    let (mut fitting, mut first) = (0, 0);
    // From the crest on: it is what has to be put off the most.
    for i in (0..steps.len()).cycle().skip(crest) {
        if i == 0 {
            first = 0;
        }
        let step = steps[i];
        let end = steps.get(i + 1).map_or(own.length(), |next| next.at);
        let left = room.saturating_sub(step.demand);
        fitting += 1;
        loop {
            let (from, to) = (delay.saturating_add(step.at), delay.saturating_add(end));
            sum.extend_to(view, to);
            if from >= to || !sum.exceeds(left) {
                break;
            }
            first = sum.piece_after(from, first);
            let Some(until) = sum.last_conflict(first, to, left) else { break };
            (delay, fitting) = (until.saturating_sub(step.at), 1);
        }
        if fitting >= steps.len() {
            break;
        }
    }
    delay
}
