//! What a job's allocations do in an iteration, in order: their sizes, and when each is freed.
//!
//! An iteration repeats: what its n-th allocation did last time, it does again. So a job that does
//! not say how long its blocks live is understood: one that was still live when the iteration ended
//! is placed with what persists from then on, so that it strands no memory that activations give
//! up. And a whole iteration can be planned ([`planned`](crate::heap::planned)).
//!
//! In the first iteration nothing is known, and that is when optimizer state appears, which then
//! lives for ever; it has the sizes of the parameters, so what has the size of a block that was
//! allocated before the first iteration is taken to persist. A wrong guess costs little: a block
//! pins the regions that it lies in, wherever it lies.
//!
//! Time is counted in allocations: a block that is free before the allocation with number `until`
//! is made may have its place then, in whatever order the frees between two allocations come.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::compact::OptionalU32;
use crate::types::lifetime::Lifetime;
use crate::types::tuning::MOST_NOTED_ALLOCATIONS;

/// What an allocation of an iteration was, and how long it lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// How many allocations the iteration had made when it was freed; none if it outlived it.
    pub(crate) until: OptionalU32,
    /// Of one that did, how many the next iteration had made; none if it outlived that one too.
    pub(super) next_until: OptionalU32,
}

impl Past {
    const fn new(size: u64, align: u64) -> Self {
        Self { size, align, until: OptionalU32::NONE, next_until: OptionalU32::NONE }
    }
}

/// What is known of one job's allocations.
#[derive(Default)]
pub(super) struct History {
    /// The allocations in order of the last iteration that was noted ...
    known: Vec<Past>,
    /// ... which blocks they are, and which iteration that was.
    known_serials: Range<u64>,
    known_iteration: u32,
    /// Those of the iteration under way.
    now: Vec<Past>,
    /// The first block of the iteration under way, or what would be.
    first: u64,
    /// Sizes of the blocks that were allocated before the first iteration has ended and that live.
    kept: HashMap<u64, u32>,
    /// Iterations that have begun; none is under way where `inside` is false.
    iteration: u32,
    inside: bool,
    /// Something has been freed before the first iteration.
    freed: bool,
    /// A block of the iteration under way has been freed that was foreseen to outlive the next one.
    early: bool,
}

impl History {
    /// An iteration begins. Its blocks have serials from `first` on.
    pub(crate) fn begin(&mut self, first: u64) {
        (self.inside, self.early) = (true, false);
        self.first = first;
        self.iteration = self.iteration.saturating_add(1);
    }

    /// It ends, and has been noted. The serials of further blocks begin with `next`.
    pub(crate) fn end(&mut self, next: u64) {
        if core::mem::take(&mut self.inside) {
            core::mem::swap(&mut self.known, &mut self.now);
            self.known_serials = self.first..next;
            self.known_iteration = self.iteration;
            self.now.clear();
            self.kept = HashMap::new();
        }
    }

    /// It ends, and was what a plan foresaw: nothing has been noted. Whether that is still true of
    /// what was foreseen to outlive the next iteration.
    pub(super) fn end_as_planned(&mut self) -> bool {
        self.inside = false;
        self.kept = HashMap::new();
        !self.early
    }

    /// How long the next allocation will live if it has this size. O(1).
    #[inline]
    pub(crate) fn lifetime(&self, size: u64) -> Lifetime {
        let persists = match self.known.get(self.now.len()) {
            _ if !self.inside => true,
            Some(past) if past.size == size => past.until.is_none(),
            // The sequence has changed: most of what an iteration allocates it also frees.
            _ => self.is_first() && self.kept.contains_key(&size),
        };
        if persists { Lifetime::Persistent } else { Lifetime::Iteration }
    }

    /// The number of the next allocation of the iteration; none if it is not noted.
    #[expect(clippy::cast_possible_truncation, reason = "it is less than `MOST_NOTED_ALLOCATIONS`")]
    #[inline]
    pub(crate) const fn next(&self) -> OptionalU32 {
        let next = self.now.len();
        let is_noted = self.inside && next < MOST_NOTED_ALLOCATIONS;
        if is_noted { OptionalU32::some(next as u32) } else { OptionalU32::NONE }
    }

    /// An allocation of the iteration has been made, which had this number.
    #[inline]
    pub(crate) fn made(&mut self, number: OptionalU32, size: u64, align: u64) {
        if !number.is_none() {
            self.now.push(Past::new(size, align));
        }
    }

    /// Allocations that have been made as a plan foresaw, until now.
    pub(super) fn catch_up(&mut self, made: impl Iterator<Item = Past>) {
        debug_assert!(self.now.is_empty(), "nothing has been noted");
        self.now.extend(made.take(MOST_NOTED_ALLOCATIONS));
    }

    /// The block with this serial, which was the allocation of this number in its iteration, has
    /// been freed. The iteration under way has made so many allocations as a plan foresaw that have
    /// not been noted.
    #[inline]
    pub(crate) fn freed(&mut self, number: OptionalU32, serial: u64, unnoted: usize) {
        let made = OptionalU32::of(self.now.len() + unnoted);
        if self.is_of_now(serial) {
            match number.of_list_mut(&mut self.now) {
                Some(past) => past.until = made,
                None => self.early |= unnoted > 0 && !number.is_none(),
            }
        } else if self.known_serials.contains(&serial)
            && self.iteration <= self.known_iteration.saturating_add(u32::from(self.inside))
            && let Some(past) = number.of_list_mut(&mut self.known)
        {
            past.next_until = made;
        }
    }

    /// A persistent block has been allocated, by whoever's word.
    #[inline]
    pub(crate) fn keep(&mut self, size: u64) {
        if self.is_before_all() {
            *self.kept.entry(size).or_default() += 1;
        }
    }

    /// A persistent block has been freed.
    #[inline]
    pub(super) fn keep_no_more(&mut self, size: u64) {
        if self.is_before_all() {
            self.freed = true;
            if let Entry::Occupied(mut count) = self.kept.entry(size) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// No iteration has begun yet.
    #[inline]
    pub(super) const fn is_before_all(&self) -> bool {
        !self.inside && self.iteration == 0
    }

    /// Something that was taken to persist has been freed before the first iteration.
    pub(super) const fn has_freed(&self) -> bool {
        self.freed
    }

    #[inline]
    pub(crate) const fn is_inside(&self) -> bool {
        self.inside
    }

    /// Whether a block is one of the iteration under way, by its serial.
    pub(super) const fn is_of_now(&self, serial: u64) -> bool {
        self.inside && serial >= self.first
    }

    /// Whether it is one of the iteration before, if that was noted.
    pub(super) fn is_of_last(&self, serial: u64) -> bool {
        self.before().is_some() && self.known_serials.contains(&serial)
    }

    /// The allocations of the iteration under way, as far as they have been noted.
    pub(super) fn so_far(&self) -> &[Past] {
        &self.now
    }

    /// Those of the iteration before, if it was noted.
    pub(crate) fn before(&self) -> Option<&[Past]> {
        (self.known_iteration.checked_add(1) == Some(self.iteration)).then_some(&self.known)
    }

    const fn is_first(&self) -> bool {
        self.iteration == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that says nothing of its blocks.
    #[derive(Default)]
    struct Program {
        history: History,
        serial: u64,
    }

    impl Program {
        fn begin(&mut self) {
            self.history.begin(self.serial + 1);
        }

        fn end(&mut self) {
            self.history.end(self.serial + 1);
        }

        fn alloc(&mut self, size: u64) -> (OptionalU32, u64) {
            self.serial += 1;
            let number = self.history.next();
            self.history.made(number, size, 512);
            (number, self.serial)
        }

        fn free(&mut self, (number, serial): (OptionalU32, u64)) {
            self.history.freed(number, serial, 0);
        }

        /// Runs an iteration of allocations of (size, whether it is freed), and says what was
        /// guessed.
        fn iteration(&mut self, blocks: &[(u64, bool)]) -> Vec<bool> {
            self.begin();
            let guesses = blocks.iter().map(|&(size, freed)| {
                let persists = self.history.lifetime(size) == Lifetime::Persistent;
                let block = self.alloc(size);
                if freed {
                    self.free(block);
                }
                persists
            });
            let guesses = guesses.collect();
            self.end();
            guesses
        }
    }

    #[test]
    fn what_survives_an_iteration_persists_from_the_next_one_on() {
        let mut job = Program::default();
        let blocks = [(10, true), (20, false), (10, false), (30, true)];
        assert_eq!(job.iteration(&blocks), [false; 4], "nothing is known yet");
        assert_eq!(job.iteration(&blocks), [false, true, true, false]);
        let other = [(10, true), (99, false), (10, true), (30, true), (20, false)];
        assert_eq!(job.iteration(&other), [false, false, true, false, false]);
        assert_eq!(job.iteration(&other), [false, true, false, false, true]);
    }

    #[test]
    fn before_the_first_iteration_all_persists_and_then_what_has_its_sizes() {
        let mut job = Program::default();
        assert_eq!(job.history.lifetime(10), Lifetime::Persistent);
        job.alloc(10);
        job.history.keep(10);
        assert_eq!(job.iteration(&[(10, true), (20, true)]), [true, false]);
        assert_eq!(job.iteration(&[(10, true), (20, true)]), [false, false]);
        assert_eq!(job.history.lifetime(20), Lifetime::Persistent, "between iterations");
    }

    #[test]
    fn what_is_kept_of_sizes_is_of_blocks_that_live() {
        let mut history = History::default();
        for size in 1..1000 {
            history.keep(size);
            history.keep(size);
            history.keep_no_more(size);
            assert_eq!(history.kept.len(), 1, "one of two is there");
            history.keep_no_more(size);
            assert!(history.kept.is_empty());
        }
        history.keep_no_more(7);
        assert!(history.has_freed() && history.kept.is_empty());
    }

    #[test]
    fn sizes_of_what_has_been_freed_are_forgotten() {
        let mut job = Program::default();
        [10, 10, 20].into_iter().for_each(|size| job.history.keep(size));
        assert!(!job.history.has_freed());
        [10, 20].into_iter().for_each(|size| job.history.keep_no_more(size));
        assert_eq!((job.history.kept.len(), job.history.has_freed()), (1, true));
        assert_eq!(job.iteration(&[(20, true), (10, true)]), [false, true]);
    }

    #[test]
    fn a_free_in_a_later_iteration_says_nothing_of_that_one() {
        let mut job = Program::default();
        job.begin();
        let first = job.alloc(10);
        job.end();
        job.begin();
        job.alloc(10);
        job.free(first);
        job.end();
        job.begin();
        assert_eq!(job.history.lifetime(10), Lifetime::Persistent);
    }

    #[test]
    fn what_outlives_an_iteration_is_known_until_when() {
        let mut job = Program::default();
        job.begin();
        let blocks = [10, 20, 30, 40].map(|size| job.alloc(size));
        job.free(blocks[0]);
        job.end();
        job.free(blocks[1]);
        job.begin();
        assert_eq!(job.history.before().unwrap()[1].next_until.get(), Some(0));
        job.alloc(10);
        job.free(blocks[2]);
        let untils = |history: &[Past]| -> Vec<[Option<u32>; 2]> {
            history.iter().map(|past| [past.until.get(), past.next_until.get()]).collect()
        };
        let known = [[Some(4), None], [None, Some(0)], [None, Some(1)], [None, None]];
        assert_eq!(untils(job.history.before().unwrap()), known);
        job.end();
        job.begin();
        job.free(blocks[3]);
        assert_eq!(untils(job.history.before().unwrap()), [[None, None]]);
    }
}
