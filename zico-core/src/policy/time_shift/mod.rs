use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Policy, Tenant, Verdict, View};
use crate::learn::profile::Profile;
use crate::types::report::Activity;
use crate::types::tuning::SHORT_ITERATION;
use crate::types::units::{Regions, Ticks};
use sum::Sum;

mod sum;
#[cfg(test)]
mod tests;

/// What counts where throughput and fairness pull apart.
///
/// Over ten triples of recorded jobs at five budgets, total throughput over that of the best of the
/// other policies is 1.016, 1.015 and 0.979 on average, Jain's index of what each job has of its
/// rate alone 0.959, 0.960 and 0.997, and the least of these shares 0.425, 0.427 and 0.490.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// All jobs together: of those that wait the one with the lowest peak goes first, since most
    /// fits beside it.
    Throughput,
    /// Both: the lightest goes first, by peak times length. Short iterations are not put off for
    /// long ones, nor low ones for high ones.
    #[default]
    Balance,
    /// That each job gets on alike: the one goes first that has had the least [time of its
    /// own](Tenant::served), and one that is ahead of another by more than an iteration waits for
    /// that, even where it fits.
    Fairness,
}

/// Start at the first moment from which all waves fit together (the default).
///
/// The smallest delay d >= 0 such that for all t: own(t) + sum over the running iterations of
/// theirs(position + d + t) <= room. Zico's time-shift model (Lim et al., ATC 2021, section 5) for
/// any number of jobs; exact on the profiles' step functions instead of trying one step of time
/// after another. An iteration with no profile yet runs alone, and nothing starts beside it.
///
/// What a wave takes at a moment is what it [is expected](crate::Step::expected) to hold. With all
/// that drained at most, as profiles have it, iterations wait for memory that has long come back
/// (1.29 against 1.39 for gnmt + bert-base + resnet110-cifar at f = 0.05); with nothing of it they
/// start too early (0.6% less for 27 triples at f = 0.1, up to 6%).
///
/// The running iterations count up to their ends. That their jobs will come again right afterwards
/// does not count: the next iteration is put off in its turn, which costs less than keeping room
/// for it. With one more iteration of each running job counted, total throughput (sum of rates over
/// rates alone, recorded jobs, at f = 0.5, 0.25, 0.1, 0.05) falls from 1.44, 1.29, 1.22, 1.20 to
/// 1.00 for resnet50 + bert-base, from 1.51, 1.52, 1.51, 1.50 to 1.44, 1.37, 1.34, 1.33 for
/// mobilenet_v2 + resnet110-cifar, and from 1.56, 1.42, 1.31, 1.30 to 1.29, 1.22, 1.23, 1.21 for
/// gpt2-small + nasnetalarge; with two more it is the same.
///
/// *Before it fits* an iteration starts beside one that is past its peak
/// ([`TickTock`](super::TickTock)): from there on the other one only gives up memory, so it never
/// has to wait, and the newcomer gets on as far as there is memory instead of waiting outside. That
/// is worth up to a tenth (resnet50 + bert-base at f = 0.5: 1.57 against 1.44), where two things
/// hold:
///
/// * Only one iteration runs. What is gained is work beside it; beside two there is little left to
///   gain.
/// * No other job would fit before the newcomer does, whether it waits or is between two
///   iterations. What the newcomer holds while it waits inside would be missing to that one.
///
/// That it must also get on by some share of the time was tried, and costs more than it gains: what
/// a wave says that the other one holds is never less than what it does hold, so who waits inside
/// gets on earlier than that (pairs lose up to 6% if it has to get on for an eighth of the time).
///
/// With no such start where there is a third job, 27 triples at f = 0.1 come to 0.7% less on
/// average and up to 10% (gcn + unet + whisper-tiny); with every start past a peak to 4% less.
///
/// Of those that wait the lightest goes first, by peak times length: the memory that one heavy
/// iteration takes serves many light ones. Where throughput and fairness pull apart, [`Aim`]
/// chooses. How often a job can be passed over is [bounded](crate::Job::begin).
///
/// Iterations that take no more than an eighth of the candidate's time come and go while it runs,
/// so what they take is not counted where they are now: room is kept for their peaks, whether one
/// runs just now or not, as long as the candidate's own peak leaves it. Else two heavy jobs take
/// turns in what one light job needs (resnet110-cifar + resnet50 + dlrm at f = 0.1: 1.722 against
/// 1.686).
///
/// What it needs for a decision it uses again for the next one: none allocates once a few have been
/// made.
#[derive(Clone, Debug, Default)]
pub struct TimeShift {
    aim: Aim,
    sum: Sum,
    /// Of each job, whether room is kept for it.
    aside: Vec<bool>,
}

impl Policy for TimeShift {
    fn name(&self) -> &'static str {
        match self.aim {
            Aim::Throughput => "zico-throughput",
            Aim::Balance => "zico",
            Aim::Fairness => "zico-fairness",
        }
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        match self.aim {
            Aim::Balance => weight(one).cmp(&weight(other)),
            Aim::Throughput => peak(one).cmp(&peak(other)),
            Aim::Fairness => one.served.cmp(&other.served),
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(own) = view.known() else { return Verdict::AfterAnEnd };
        if self.aim == Aim::Fairness && is_ahead(own, view) {
            return Verdict::AfterAnEnd;
        }
        let fits = match self.delay(own, view) {
            Some(Ticks::ZERO) => return Verdict::Start,
            Some(delay) => Verdict::After(delay),
            None => Verdict::AfterAnEnd,
        };
        let early = self.early(view, fits);
        early.map_or(
            fits,
            |delay| if delay.is_zero() { Verdict::Start } else { Verdict::After(delay) },
        )
    }
}

impl TimeShift {
    /// With this aim.
    #[must_use]
    pub fn new(aim: Aim) -> Self {
        Self { aim, ..Self::default() }
    }

    /// When the candidate may start before it fits: when the one iteration that runs is past its
    /// peak, if no other job would fit sooner.
    fn early(&mut self, view: &View<'_>, fits: Verdict) -> Option<Ticks> {
        let fits = fits.promise()?;
        let mut running = view.running();
        let one = running.next()?;
        // What has only declared its maximum has no peak that it could be past.
        let other = measured(one).filter(|_| running.next().is_none())?;
        let falls = other.crest_begins().saturating_sub(one.position());
        (falls < fits && self.fits_first(view, fits)).then_some(falls)
    }

    /// Whether no other job, beside the one that runs, would fit before the candidate does. One
    /// that is between two iterations comes again.
    fn fits_first(&mut self, view: &View<'_>, fits: Ticks) -> bool {
        (0..view.jobs.len()).all(|job| {
            if job == view.candidate || view.jobs[job].is_running() {
                return true;
            }
            let view = View { candidate: job, ..*view };
            let Some(own) = view.known() else { return true };
            self.delay(own, &view).is_none_or(|delay| delay >= fits)
        })
    }

    /// The smallest delay at which `own` fits beside the running iterations, each of which goes on
    /// from its position to its end. None if `own` does not fit at all.
    fn delay(&mut self, own: &Profile, view: &View<'_>) -> Option<Ticks> {
        let low = view.room.checked_sub(own.expected_peak())?;
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
            let is_short =
                profile.length().value().saturating_mul(SHORT_ITERATION) <= own.length().value();
            let more = kept.saturating_add(profile.expected_peak());
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

/// How much an iteration takes for how long. Nothing as long as that is not known, so that it soon
/// is.
fn weight(job: &Tenant) -> u128 {
    measured(job).map_or(0, |profile| {
        u128::from(profile.peak().value()) * u128::from(profile.length().value())
    })
}

/// Whether the candidate's job has had more time of its own than some other that waits or runs, by
/// more than an iteration.
fn is_ahead(own: &Profile, view: &View<'_>) -> bool {
    let behind = |job: &Tenant| job.served.saturating_add(own.length()) < view.own().served;
    let counts = |job: &Tenant| job.activity != Activity::Idle && measured(job).is_some();
    view.others().any(|(_, job)| counts(job) && behind(job))
}

/// The most that an iteration takes. Nothing where that is not measured.
fn peak(job: &Tenant) -> Regions {
    measured(job).map_or(Regions::ZERO, Profile::peak)
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
        let left = room.saturating_sub(step.expected());
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
