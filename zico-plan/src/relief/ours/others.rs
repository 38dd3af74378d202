//! Plans of others as starting points.

use alloc::vec::Vec;

use super::joint::{Best, Choice, Joint};
use crate::relief::{Found, Step, Strategy, swap};

/// Those that take a small part of our own time. Other planners than these are taken up by what
/// they do, as DTR's runs are where no others fit.
const QUICK: [Strategy; 8] = [
    Strategy::AutoSwapDoa,
    Strategy::AutoSwapAoa,
    Strategy::AutoSwapWdoa,
    Strategy::AutoSwap,
    Strategy::VdnnAll,
    Strategy::VdnnConv,
    Strategy::Capuchin,
    Strategy::SwapAdvisor,
];

impl Joint<'_> {
    /// What quick planners come to: as it is, and with the same transfers and recomputation planned
    /// by us.
    pub(super) fn others(&mut self, work: u64) {
        for strategy in QUICK {
            if self.is_least() {
                return;
            }
            let plan = strategy.plan(self.graph, self.link, self.terms.budget, work);
            let Some(found) = plan else { continue };
            let choices = self.choices_in(&found);
            let times = self.times();
            self.evaluate(&choices, &times, 0);
            let waits = choices.iter().map(|&choice| match choice {
                Choice::Moves => Choice::Waits,
                other => other,
            });
            self.evaluate(&waits.collect::<Vec<_>>(), &times, 0);
            if self.best.as_ref().is_none_or(|best| found.nanos < best.found.nanos) {
                let times = swap::times(self.graph);
                self.best = Some(Best { found, choices, times });
            }
        }
    }

    /// What moves in a schedule, by the last use before that in recorded order.
    fn choices_in(&self, found: &Found) -> Vec<Choice> {
        let mut used: Vec<Option<u32>> = alloc::vec![None; self.graph.storages().len()];
        let mut choices = self.nothing();
        for step in &found.steps {
            match *step {
                Step::Run(run) => {
                    let operation = &self.graph.operations()[run as usize];
                    for &storage in operation.reads.iter().chain(&operation.writes) {
                        used[storage as usize] = used[storage as usize].max(Some(run));
                    }
                }
                Step::Out(storage) => {
                    let is = |gap: &swap::Gap| {
                        gap.storage == storage && Some(gap.after) == used[storage as usize]
                    };
                    if let Some(at) = self.gaps.iter().position(is) {
                        choices[at] = Choice::Moves;
                    }
                }
                _ => {}
            }
        }
        choices
    }
}
