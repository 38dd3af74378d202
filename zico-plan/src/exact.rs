//! The exact search of a component, in turns at two heights.

use alloc::vec::Vec;

use super::problem::Component;
use super::search::{Conflicts, Ground, Outcome, Search};
use super::work::Work;

/// The blocks that the first turn of the search tries.
const TURN: u64 = 1 << 14;

#[derive(Debug)]
pub(super) struct Exact {
    conflicts: Conflicts,
    /// The search at the height that is asked for.
    goal: Option<(u64, Search)>,
    /// A search at a height between that and the best: easier, and something at any rate.
    between: Option<(u64, Search)>,
    /// How far up between these two that is, in eighths.
    ease: u64,
    turn: u64,
    /// What is left of this turn: for the search between, then for the one at the goal.
    turns: [u64; 2],
}

/// What a turn has led to.
pub(super) struct Found {
    pub(super) plan: Option<Vec<u64>>,
    /// No plan is lower.
    pub(super) least: u64,
}

impl Exact {
    /// Nothing if too many blocks conflict.
    pub(super) fn new(component: &Component, work: &mut Work) -> Option<Self> {
        work.count(component.len() as u64);
        let conflicts = Conflicts::new(component)?;
        let turns = [TURN / 4, TURN];
        Some(Self { conflicts, goal: None, between: None, ease: 4, turn: TURN, turns })
    }

    /// One turn, or what is left of it, for a plan lower than `height` and at best of `goal`, for which
    /// somebody may have `asked`.
    pub(super) fn search(
        &mut self,
        component: &Component,
        height: u64,
        goal: u64,
        asked: bool,
        work: &mut Work,
    ) -> Found {
        let mut found = Found { plan: None, least: 0 };
        if self.conflicts.list(component, work).is_none() {
            return found;
        }
        let between = goal + (height - 1 - goal) / 8 * self.ease;
        let which = usize::from(self.turns[1] > 0 || between == goal);
        let aim = [between, goal][which];
        let slot = if which == 0 { &mut self.between } else { &mut self.goal };
        let ground = Ground { component, conflicts: &self.conflicts, capacity: aim };
        let search = match slot {
            Some((old, search)) if *old == aim => search,
            _ => &mut slot.insert((aim, Search::new(&ground, work))).1,
        };
        match search.run(&ground, &mut self.turns[which], work) {
            Outcome::Found => {
                found.plan = Some(search.offsets().to_vec());
                self.between = None;
                self.ease = 4;
            }
            Outcome::Impossible => {
                found.least = aim + 1;
                self.between = None;
                self.goal = None;
            }
            Outcome::Open => {}
        }
        if self.turns[which] == 0 {
            self.next_turn(which, between == goal, asked);
        }
        found
    }

    fn next_turn(&mut self, which: usize, only: bool, asked: bool) {
        if which == 0 {
            // That was too hard: something easier the next time.
            self.between = None;
            self.ease = (self.ease + 1).min(7);
        }
        if which == 0 || only {
            self.turn = self.turn.saturating_mul(2);
            // Who asks for a height is not helped by a plan that is a little lower than the last.
            self.turns = [if asked { self.turn / 4 } else { self.turn }, self.turn];
        }
    }
}
