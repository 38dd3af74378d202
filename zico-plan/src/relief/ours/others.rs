//! Plans of others as starting points.

use alloc::vec::Vec;

use super::joint::{Best, Choice, Joint};
use crate::relief::{Found, Step, swap};

impl Joint<'_> {
    /// What other planners come to: as it is, and with the same transfers and recomputation planned
    /// by us. None is asked where nothing can be better any more.
    pub(super) fn others(&mut self, others: &mut dyn Iterator<Item = Found>) {
        while !self.is_least()
            && let Some(found) = others.next()
        {
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
        // Where each is not in use any more.
        let mut used: Vec<u32> = alloc::vec![0; self.graph.storages().len()];
        let mut choices = self.nothing();
        for step in &found.steps {
            match *step {
                Step::Run(run) => {
                    let operation = &self.graph.operations()[run as usize];
                    for &storage in operation.reads.iter().chain(&operation.writes) {
                        used[storage as usize] = used[storage as usize].max(run + 1);
                    }
                }
                Step::Out(storage) => {
                    let is = |gap: &swap::Gap| {
                        gap.storage == storage && gap.from == used[storage as usize]
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
