//! What one iteration of a job takes: region demand over progress and over time.
//!
//! A [`Recorder`] notes every change of the regions charged to a running iteration (leased and
//! draining, without the persistent ones), so that no peak is missed however short (algorithms:
//! Zico section 5 samples at every allocation and free instead of every so often). A [`Profile`] is
//! the upper envelope of the recent iterations as a step function with a bounded number of steps.
//!
//! Time is the iteration's own: while a job is stalled for memory its clock stands still.

use alloc::vec::Vec;

use crate::types::tuning::{NOTED_STEPS, PROFILE_STEPS};
use crate::types::units::{Progress, Regions, Ticks};

/// From here to the next step an iteration takes `demand` regions.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Operations made when the step begins.
    pub progress: Progress,
    /// Time since the iteration's start when the step begins.
    pub at: Ticks,
    /// The most regions charged to the iteration during the step, beside persistent ones: leased,
    /// and given up but not yet passed by the device.
    pub demand: Regions,
    /// The most regions that it has leased during the step, beside persistent ones. The same in
    /// each repetition of an iteration, whatever the device's pace.
    pub leased: Regions,
}

impl Step {
    /// What the iteration is expected to hold: what it has leased, and half of what drains. A
    /// profile has the most that drained in each step, which by and by comes back within it.
    #[must_use]
    pub fn expected(&self) -> Regions {
        let drains = self.demand.saturating_sub(self.leased);
        self.leased.saturating_add(Regions::new(drains.value() / 2))
    }

    /// Takes the larger of each.
    fn raise(&mut self, other: &Self) {
        self.demand = self.demand.at_least(other.demand);
        self.leased = self.leased.at_least(other.leased);
    }
}

/// Notes the changes of one running iteration.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    steps: Vec<Step>,
}

impl Recorder {
    /// From now on the demand is `step.demand`. A step is no earlier than the one before it, by
    /// progress and by time.
    pub(crate) fn note(&mut self, step: Step) {
        let before = self.steps.last().copied().unwrap_or_default();
        let (progress, at) = (step.progress.at_least(before.progress), step.at.at_least(before.at));
        let step = Step { progress, at, ..step };
        match self.steps.last_mut() {
            Some(last) if last.progress == step.progress => last.raise(&step),
            Some(last) if (last.demand, last.leased) == (step.demand, step.leased) => {}
            _ => self.steps.push(step),
        }
        if self.steps.len() > NOTED_STEPS {
            self.steps = coarsened(core::mem::take(&mut self.steps));
        }
    }

    /// The iteration has ended, no earlier than its last step has begun.
    pub(crate) fn finish(mut self, operations: Progress, length: Ticks) -> Profile {
        if self.steps.first().is_none_or(|first| !first.progress.is_zero() || !first.at.is_zero()) {
            self.steps.insert(0, Step::default());
        }
        let last = self.steps.last().copied().unwrap_or_default();
        let (operations, length) = (operations.at_least(last.progress), length.at_least(last.at));
        Profile::new(self.steps, operations, length)
    }
}

/// The region demand of one iteration, as far as recent iterations tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// At least one; the first begins at zero; each later than the one before, by progress or by
    /// time, and no earlier by the other.
    steps: Vec<Step>,
    /// The largest demand.
    peak: Regions,
    /// When the highest step begins and ends; the first of them, if there are several.
    crest: (Ticks, Ticks),
    /// For each step the most from there to the end.
    ahead: Vec<Ahead>,
    /// No less than the last step's progress.
    operations: Progress,
    /// No less than the last step's time.
    length: Ticks,
}

impl Profile {
    /// Of steps that have come from elsewhere, unless they are no profile's.
    pub(crate) fn from_parts(
        steps: Vec<Step>,
        operations: Progress,
        length: Ticks,
    ) -> Option<Self> {
        let first = steps.first().is_some_and(|step| step.progress.is_zero() && step.at.is_zero());
        let rises =
            |pair: &[Step]| pair[0].progress <= pair[1].progress && pair[0].at <= pair[1].at;
        let ends = |last: &Step| last.progress <= operations && last.at <= length;
        let is_profile = first && steps.windows(2).all(rises) && steps.last().is_some_and(ends);
        is_profile.then(|| Self::new(steps, operations, length))
    }

    fn new(steps: Vec<Step>, operations: Progress, length: Ticks) -> Self {
        let steps = coarsened(steps);
        let peak = steps.iter().map(|step| step.demand).max().unwrap_or_default();
        let highest = steps.iter().position(|step| step.demand == peak).unwrap_or_default();
        let start = |step: usize| steps.get(step).map_or(length, |step| step.at);
        let crest = (start(highest), start(highest.saturating_add(1)));
        let ahead = suffix_maxima(&steps);
        Self { steps, peak, crest, ahead, operations, length }
    }

    /// An iteration of these steps, in order of progress and time, that makes `operations`
    /// operations in `length`. A step that is earlier than the one before it counts from there, and
    /// an iteration lasts until its last step at least. Pools learn profiles themselves; this is for
    /// those who write policies and want to try them on waves of their own.
    #[must_use]
    pub fn of(steps: impl IntoIterator<Item = Step>, operations: Progress, length: Ticks) -> Self {
        let mut recorder = Recorder::default();
        steps.into_iter().for_each(|step| recorder.note(step));
        recorder.finish(operations, length)
    }

    /// What is known of a job that has only said how much its iterations take at most: that much
    /// from the beginning, and nobody knows for how long.
    #[must_use]
    pub fn flat(demand: Regions) -> Self {
        let step = Step { demand, leased: demand, ..Step::default() };
        Self::of([step], Progress::MAX, Ticks::MAX)
    }

    /// The demand as a step function, first step at zero.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The operations that an iteration makes.
    #[must_use]
    pub fn operations(&self) -> Progress {
        self.operations
    }

    /// The time that an iteration takes, stalls left out.
    #[must_use]
    pub fn length(&self) -> Ticks {
        self.length
    }

    /// The largest demand, in regions beside the persistent ones.
    #[must_use]
    pub fn peak(&self) -> Regions {
        self.peak
    }

    /// When the demand first comes to its peak. The backward pass is taken to begin there (Zico).
    #[must_use]
    pub fn crest_begins(&self) -> Ticks {
        self.crest.0
    }

    /// When it first falls from its peak.
    #[must_use]
    pub fn crest_ends(&self) -> Ticks {
        self.crest.1
    }

    /// The demand at a moment of the iteration; none after its end. O(log steps).
    #[must_use]
    pub fn demand_at(&self, position: Ticks) -> Regions {
        if position >= self.length {
            Regions::ZERO
        } else {
            self.steps[self.step_from(position)].demand
        }
    }

    /// The largest demand from a moment of the iteration to its end. O(log steps).
    #[must_use]
    pub fn demand_from(&self, position: Ticks) -> Regions {
        if position >= self.length {
            return Regions::ZERO;
        }
        self.demand_ahead(self.step_from(position))
    }

    /// The largest demand from a step to the end of the iteration.
    pub(super) fn demand_ahead(&self, step: usize) -> Regions {
        self.ahead.get(step).map_or(Regions::ZERO, |ahead| ahead.demand)
    }

    /// The largest that is [expected](Step::expected), in regions beside the persistent ones.
    #[must_use]
    pub fn expected_peak(&self) -> Regions {
        self.expected_ahead(0)
    }

    /// The largest that is expected from a step to the end of the iteration.
    pub(crate) fn expected_ahead(&self, step: usize) -> Regions {
        self.ahead.get(step).map_or(Regions::ZERO, |ahead| ahead.expected)
    }

    /// The job's claim: the most that an iteration comes to hold leased, in regions beside the
    /// persistent ones.
    #[must_use]
    pub fn claim(&self) -> Regions {
        self.ahead.first().map_or(Regions::ZERO, |ahead| ahead.leased)
    }

    /// The claim of an iteration that has come to `progress`: the most that it holds leased from
    /// there to its end. O(log steps).
    #[must_use]
    pub fn claim_from(&self, progress: Progress) -> Regions {
        self.ahead[self.step_at(progress)].leased
    }

    /// The progress from which on the [claim](Self::claim_from) is less than at `progress`, if it
    /// falls before the end. O(log steps).
    pub(crate) fn falls_after(&self, progress: Progress) -> Option<Progress> {
        let claim = self.claim_from(progress);
        // It never rises.
        let falls = self.ahead.partition_point(|ahead| ahead.leased >= claim);
        self.steps.get(falls).map(|step| step.progress)
    }

    /// The moment of the iteration at which it has made `progress` operations. O(log steps).
    #[must_use]
    pub fn position(&self, progress: Progress) -> Ticks {
        let (from, to) = self.bounds(self.step_at(progress));
        let done = u64::from(progress.saturating_sub(from.0).value());
        let all = u64::from(to.0.saturating_sub(from.0).value());
        Ticks::new(
            from.1.value() + scale(to.1.value().saturating_sub(from.1.value()), done.min(all), all),
        )
    }

    /// The least progress at which the iteration has reached `position`. O(log steps).
    #[must_use]
    pub fn progress_at(&self, position: Ticks) -> Progress {
        let (from, to) = self.bounds(self.step_from(position));
        let done = position.saturating_sub(from.1).value();
        let all = to.1.saturating_sub(from.1).value();
        let operations = u64::from(to.0.saturating_sub(from.0).value());
        let ahead = u32::try_from(scale(operations, done.min(all), all)).unwrap_or(u32::MAX);
        from.0.saturating_add(Progress::new(ahead))
    }

    /// The envelope of this profile and an older one: at each point of the iteration the larger
    /// demand, by share of the operations made; lengths are this one's.
    #[must_use]
    pub fn envelope(&self, older: &Self) -> Self {
        let mut own = self.steps.iter().map(|step| (step.progress, step)).peekable();
        let rescaled = |step: &Step| rescale(step.progress, older, self);
        let mut olds = older.steps.iter().map(|step| (rescaled(step), step)).peekable();
        let mut steps: Vec<Step> = Vec::with_capacity(own.len() + olds.len());
        // Both in order.
        let points = core::iter::from_fn(|| {
            let is_own = |old: &(Progress, _)| own.peek().is_some_and(|own| own.0 <= old.0);
            if olds.peek().is_none_or(is_own) { own.next() } else { olds.next() }
        });
        for (progress, begins) in points {
            if steps.last().is_none_or(|step| step.progress != progress) {
                let mut step = Step { progress, at: self.position(progress), ..Step::default() };
                step.raise(&self.steps[self.step_at(progress)]);
                step.raise(&older.steps[older.step_at(rescale(progress, self, older))]);
                steps.push(step);
            }
            // Where one makes few operations many steps of the other begin at one of them.
            steps.last_mut().into_iter().for_each(|step| step.raise(begins));
        }
        Self::new(steps, self.operations, self.length)
    }

    fn step_at(&self, progress: Progress) -> usize {
        self.steps.partition_point(|step| step.progress <= progress).saturating_sub(1)
    }

    fn step_from(&self, position: Ticks) -> usize {
        self.steps.partition_point(|step| step.at <= position).saturating_sub(1)
    }

    /// Where a step begins and ends, in progress and time.
    fn bounds(&self, step: usize) -> ((Progress, Ticks), (Progress, Ticks)) {
        let end = self
            .steps
            .get(step + 1)
            .map_or((self.operations, self.length), |next| (next.progress, next.at));
        ((self.steps[step].progress, self.steps[step].at), end)
    }
}

/// The most from some step to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    leased: Regions,
    demand: Regions,
    expected: Regions,
}

/// For each step the most from there to the end.
fn suffix_maxima(steps: &[Step]) -> Vec<Ahead> {
    let of =
        |step: &Step| Ahead { leased: step.leased, demand: step.demand, expected: step.expected() };
    let mut maxima: Vec<Ahead> = steps.iter().map(of).collect();
    for i in (1..maxima.len()).rev() {
        let (next, here) = (maxima[i], &mut maxima[i - 1]);
        here.leased = here.leased.at_least(next.leased);
        here.demand = here.demand.at_least(next.demand);
        here.expected = here.expected.at_least(next.expected);
    }
    maxima
}

/// `whole * part / parts` without overflow; nothing where there are no parts.
fn scale(whole: u64, part: u64, parts: u64) -> u64 {
    if parts == 0 {
        return 0;
    }
    let scaled = u128::from(whole) * u128::from(part) / u128::from(parts);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The same share of `to`'s operations as `progress` is of `from`'s.
fn rescale(progress: Progress, from: &Profile, to: &Profile) -> Progress {
    let scaled = scale(
        to.operations.value().into(),
        progress.value().into(),
        from.operations.value().into(),
    );
    Progress::new(u32::try_from(scaled).unwrap_or(u32::MAX))
}

/// Joins neighbouring steps that differ little, keeping the larger figures, until few enough are
/// left. The result is never below the original.
fn coarsened(mut steps: Vec<Step>) -> Vec<Step> {
    let spread = |a: Regions, b: Regions| a.value().abs_diff(b.value());
    let mut tolerance = 0;
    loop {
        // As it was before others were joined to it.
        let mut first = steps.first().copied().unwrap_or_default();
        steps.dedup_by(|step, last| {
            let is_near = spread(first.demand, step.demand) <= tolerance
                && spread(first.leased, step.leased) <= tolerance;
            if is_near {
                last.raise(step);
            } else {
                first = *step;
            }
            is_near
        });
        if steps.len() <= PROFILE_STEPS {
            return steps;
        }
        tolerance = (tolerance * 2).max(1);
    }
}

#[cfg(test)]
mod tests;
