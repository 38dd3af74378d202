//! Learns how long a job's allocations live, where the caller does not say.
//!
//! An iteration repeats: what its n-th allocation did last time, it does again. One that was still
//! live when the iteration ended is placed with what persists from then on, so that it strands no
//! memory that activations give up. In the first iteration nothing is known, and that is when
//! optimizer state appears, which then lives for ever; it has the sizes of the parameters, so what has
//! the size of a block that was allocated before the first iteration is taken to persist.
//!
//! A wrong guess costs little: a block pins the regions that it lies in, wherever it lies.

use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::lifetime::Lifetime;

/// Allocations of one iteration that are learned; what comes later in it is taken to be freed in it. An
/// iteration may never end.
const MAX_LEARNED: usize = 1 << 20;

/// What an allocation of an iteration was, and whether it outlived it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Habit {
    size: u64,
    persists: bool,
}

/// An allocation whose lifetime is being learned: which one of which iteration it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ordinal {
    iteration: u32,
    number: u32,
}

/// What is known of one job's allocations.
#[derive(Default)]
pub(crate) struct Habits {
    /// The last iteration's allocations in order.
    known: Vec<Habit>,
    /// Those of the iteration under way; each persists until it is freed.
    now: Vec<Habit>,
    /// Sizes of the blocks that were allocated before the first iteration has ended and that live.
    kept: HashMap<u64, u32>,
    /// Iterations that have begun; none is under way where `inside` is false.
    iteration: u32,
    inside: bool,
}

impl Habits {
    pub(crate) fn begin(&mut self) {
        self.inside = true;
        self.iteration = self.iteration.saturating_add(1);
    }

    pub(crate) fn end(&mut self) {
        if core::mem::take(&mut self.inside) {
            core::mem::swap(&mut self.known, &mut self.now);
            self.now.clear();
            self.kept = HashMap::new();
        }
    }

    /// How long the next allocation will live if it has this size. O(1).
    pub(crate) fn lifetime(&self, size: u64) -> Lifetime {
        let persists = match self.known.get(self.now.len()) {
            _ if !self.inside => true,
            Some(habit) if habit.size == size => habit.persists,
            // The sequence has changed: most of what an iteration allocates it also frees.
            _ => self.is_first() && self.kept.contains_key(&size),
        };
        if persists { Lifetime::Persistent } else { Lifetime::Iteration }
    }

    /// An allocation has been made whose lifetime was asked for.
    pub(crate) fn made(&mut self, size: u64) -> Ordinal {
        if !self.inside || self.now.len() >= MAX_LEARNED {
            return Ordinal::default();
        }
        let number = u32::try_from(self.now.len()).unwrap_or(u32::MAX);
        self.now.push(Habit { size, persists: true });
        Ordinal { iteration: self.iteration, number }
    }

    /// It has been freed.
    pub(crate) fn freed(&mut self, ordinal: Ordinal) {
        if self.inside && ordinal.iteration == self.iteration {
            let habit = usize::try_from(ordinal.number).ok().and_then(|n| self.now.get_mut(n));
            if let Some(habit) = habit {
                habit.persists = false;
            }
        }
    }

    /// A persistent block has been allocated, by whoever's word.
    pub(crate) fn keep(&mut self, size: u64) {
        if !self.inside && self.iteration == 0 {
            *self.kept.entry(size).or_default() += 1;
        }
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside
    }

    fn is_first(&self) -> bool {
        self.iteration == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs an iteration of allocations of (size, whether it is freed), and says what was guessed.
    fn iteration(habits: &mut Habits, blocks: &[(u64, bool)]) -> Vec<bool> {
        habits.begin();
        let guesses = blocks.iter().map(|&(size, freed)| {
            let persists = habits.lifetime(size) == Lifetime::Persistent;
            let ordinal = habits.made(size);
            if freed {
                habits.freed(ordinal);
            }
            persists
        });
        let guesses = guesses.collect();
        habits.end();
        guesses
    }

    #[test]
    fn what_survives_an_iteration_persists_from_the_next_one_on() {
        let mut habits = Habits::default();
        let blocks = [(10, true), (20, false), (10, false), (30, true)];
        assert_eq!(iteration(&mut habits, &blocks), [false; 4], "nothing is known yet");
        assert_eq!(iteration(&mut habits, &blocks), [false, true, true, false]);
        let other = [(10, true), (99, false), (10, true), (30, true), (20, false)];
        assert_eq!(iteration(&mut habits, &other), [false, false, true, false, false]);
        assert_eq!(iteration(&mut habits, &other), [false, true, false, false, true]);
    }

    #[test]
    fn before_the_first_iteration_all_persists_and_then_what_has_its_sizes() {
        let mut habits = Habits::default();
        assert_eq!(habits.lifetime(10), Lifetime::Persistent);
        habits.made(10);
        habits.keep(10);
        assert_eq!(iteration(&mut habits, &[(10, true), (20, true)]), [true, false]);
        assert_eq!(iteration(&mut habits, &[(10, true), (20, true)]), [false, false]);
        assert_eq!(habits.lifetime(20), Lifetime::Persistent, "between iterations");
    }

    #[test]
    fn a_free_in_a_later_iteration_says_nothing_of_that_one() {
        let mut habits = Habits::default();
        habits.begin();
        let first = habits.made(10);
        habits.end();
        habits.begin();
        habits.made(10);
        habits.freed(first);
        habits.end();
        habits.begin();
        assert_eq!(habits.lifetime(10), Lifetime::Persistent);
    }
}
