//! Starting points with transfers that something waits for.

use alloc::vec::Vec;

use super::joint::{Choice, Joint};
use crate::relief::swap::{self, Gap};
use crate::relief::{Found, Step, simulate};

impl Joint<'_> {
    /// All that can move does, with room for nothing else: what fits if anything does.
    pub(super) fn wait_for_all(&mut self) {
        if self.best.is_none() {
            let way = |gap: &Gap| match self.away(gap) {
                Choice::Hosted => Choice::Hosted,
                _ => Choice::Waits,
            };
            let (choices, times) = (self.gaps.iter().map(way).collect::<Vec<_>>(), self.times());
            self.try_out(&choices, &times);
        }
    }

    /// Transfers that something waits for: where that may take less than to make it again, and all.
    pub(super) fn wait(&mut self) {
        let times = self.times();
        let cheaper = |gap: &Gap| {
            let writer = self.graph.writers[gap.storage as usize].first();
            let writer = writer.filter(|_| !self.graph.storages()[gap.storage as usize].initial);
            let own = writer.map_or(0, |&one| self.graph.operations()[one as usize].nanos);
            self.link.nanos_out(gap.bytes).max(self.link.nanos_back(gap.bytes)) < own
        };
        let cheap: Vec<bool> = self.gaps.iter().map(cheaper).collect();
        for all in [false, true] {
            let mut choices = self.best_choices();
            for ((choice, gap), &cheap) in choices.iter_mut().zip(&self.gaps).zip(&cheap) {
                if *choice == Choice::Stays && (cheap || all) {
                    *choice = self.away(gap);
                }
            }
            self.try_out(&choices, &times);
        }
        self.wait_in_part();
        self.with_waits(0);
    }

    /// The same choices with transfers placed where the best plan, which waits for some of them,
    /// has the time for them; as long as that gains something.
    pub(super) fn with_waits(&mut self, work: u64) {
        for _ in 0..6 {
            let Some(best) = self.best.as_ref().filter(|_| !self.is_least()) else { return };
            let (before, choices, times) =
                (best.found.nanos, best.choices.clone(), self.simulated(&best.found));
            self.evaluate(&choices, &times, work);
            if self.best.as_ref().is_none_or(|best| best.found.nanos >= before) {
                return;
            }
        }
    }

    /// When operations begin for the first time in a schedule, with all that it waits for.
    fn simulated(&self, found: &Found) -> Vec<u64> {
        let mut times = alloc::vec![None; self.graph.operations().len()];
        let outcome = simulate(self.graph, self.link, &found.steps, self.terms.budget);
        let outcome = outcome.unwrap_or_default();
        for (step, span) in found.steps.iter().zip(&outcome.spans) {
            if let Step::Run(run) = *step {
                times[run as usize].get_or_insert(span.start);
            }
        }
        let end = core::iter::once(outcome.nanos);
        times.into_iter().map(Option::unwrap_or_default).chain(end).collect()
    }

    /// Some of all transfers, those first that are away for longest while something is over the
    /// budget: between too few to fit and all, which take the link longest.
    fn wait_in_part(&mut self) {
        let (live, times) = (self.graph.live(), swap::times(self.graph));
        let over = |gap: &Gap| {
            let places = gap.from as usize..gap.before as usize;
            let crowded = places.filter(|&at| live[at] > self.terms.budget);
            crowded.map(|at| times[at + 1] - times[at]).sum::<u64>()
        };
        let mut order: Vec<(u64, usize)> =
            self.gaps.iter().enumerate().map(|(at, gap)| (over(gap), at)).collect();
        order.sort_unstable_by_key(|&(over, at)| (core::cmp::Reverse(over), at));
        for sixteenths in [1, 2, 3, 4, 6, 8, 10, 12] {
            if self.is_least() {
                return;
            }
            let mut choices = self.nothing();
            let count = (order.len() * sixteenths).div_ceil(16);
            order[..count].iter().for_each(|one| choices[one.1] = self.away(&self.gaps[one.1]));
            self.try_out(&choices, &times);
        }
    }
}
