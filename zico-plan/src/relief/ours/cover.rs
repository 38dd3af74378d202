//! Starting points that move no more than it takes, whatever waits for it.

use alloc::vec::Vec;

use super::hidden;
use super::joint::{Choice, Joint};
use crate::relief::swap::{self, Gap};

/// How often more is moved, for what recomputation could not free beside that.
const ROUNDS: usize = 8;

impl Joint<'_> {
    /// Moves until all fits; the same with what was there before the iteration alone, so that the
    /// rest runs again; and with what cannot be made again, where recomputation comes to its end.
    pub(super) fn cover(&mut self) {
        let storages = self.graph.storages();
        let initial = |gap: &Gap| storages[gap.storage as usize].initial;
        let state: Vec<bool> = self.gaps.iter().map(initial).collect();
        let all = alloc::vec![true; state.len()];
        let (live, times) = (self.graph.live(), swap::times(self.graph));
        for may in [&all, &state] {
            let mut choices = self.nothing();
            self.cover_with(&mut choices, live.clone(), may);
            if self.is_least() {
                return;
            }
            self.try_out(&choices, &times);
        }
        self.cover_rest(&times);
        self.with_waits(0);
    }

    /// What recomputation cannot free moves, until the rest can.
    fn cover_rest(&mut self, times: &[u64]) {
        let made_once = |gap: &Gap| {
            let mut writers = self.graph.writers[gap.storage as usize].iter();
            let initial = self.graph.storages()[gap.storage as usize].initial;
            initial || writers.any(|&one| !self.graph.operations()[one as usize].repeatable)
        };
        let mut may: Vec<bool> = self.gaps.iter().map(made_once).collect();
        let mut choices = self.nothing();
        for _ in 0..ROUNDS {
            self.try_out(&choices, times);
            if self.lacks.is_empty() {
                return;
            }
            let over = self.lacks.iter().map(|&lack| self.terms.budget.saturating_add(lack));
            let over = over.collect();
            let chosen = self.cover_with(&mut choices, over, &may);
            if chosen.is_empty() {
                return;
            }
            chosen.iter().for_each(|&at| may[at] = false);
        }
    }

    /// Of gaps in which something may move those that are away in most places over the budget, until
    /// there are none; what is not needed beside the others stays after all.
    fn cover_with(&self, choices: &mut [Choice], mut live: Vec<u64>, may: &[bool]) -> Vec<usize> {
        let mut open: Vec<usize> = (0..self.gaps.len()).filter(|&at| may[at]).collect();
        let mut chosen: Vec<usize> = Vec::new();
        while !open.is_empty() {
            let crowd = hidden::crowd(&live, self.terms.budget);
            let places = |at: usize| -> u32 {
                let ranges = self.ranges(&self.gaps[at]);
                ranges.iter().map(|&(from, to)| crowd[to] - crowd[from]).sum()
            };
            let mut ranked: Vec<(u32, usize)> = open.iter().map(|&at| (places(at), at)).collect();
            ranked.retain(|one| one.0 > 0);
            ranked.sort_unstable_by_key(|&(places, at)| (core::cmp::Reverse(places), at));
            let most = (ranked.len() / 16).max(1).min(ranked.len());
            for &(_, at) in &ranked[..most] {
                let gap = &self.gaps[at];
                if self.is_over(&live, gap) {
                    self.shift(&mut live, gap, false);
                    chosen.push(at);
                }
            }
            open = ranked[most..].iter().map(|one| one.1).collect();
        }
        let mut needed = Vec::new();
        for at in chosen.into_iter().rev() {
            let gap = &self.gaps[at];
            self.shift(&mut live, gap, true);
            if self.is_over(&live, gap) {
                self.shift(&mut live, gap, false);
                choices[at] = self.away(gap);
                needed.push(at);
            }
        }
        needed
    }

    /// The operations during which a storage is away.
    fn ranges(&self, gap: &Gap) -> Vec<(usize, usize)> {
        let range = |gap: &Gap| (gap.from as usize, gap.before as usize);
        match self.away(gap) {
            Choice::Hosted => gap.hosted(self.graph).iter().map(range).collect(),
            _ => alloc::vec![range(gap)],
        }
    }

    /// Whether there is more than the budget at one of them.
    fn is_over(&self, live: &[u64], gap: &Gap) -> bool {
        let over = |&(from, to): &(usize, usize)| {
            live[from..to].iter().any(|&bytes| bytes > self.terms.budget)
        };
        self.ranges(gap).iter().any(over)
    }

    fn shift(&self, live: &mut [u64], gap: &Gap, comes: bool) {
        for (from, to) in self.ranges(gap) {
            for live in &mut live[from..to] {
                *live = if comes { *live + gap.bytes } else { live.saturating_sub(gap.bytes) };
            }
        }
    }
}
