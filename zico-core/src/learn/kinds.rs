//! Which iterations are of one kind, and the last few of whatever is kept for each kind.
//!
//! Two parts of a job keep something for each kind of iteration, behind different locks: the
//! predictor a profile, behind the pool's; the plans a layout, behind the job's. They keep it by
//! the same [`Kind`], and each in a [`RecentlyUsed`] list. They are two lists, because they answer
//! two questions:
//!
//! * What does the next iteration need? What the job told decides that alone, if it told anything,
//!   however the iterations then differ in detail ([`Kind::is_expected_as`]). A kind is used when
//!   one of it ends.
//! * Where do its blocks go? That follows from the sizes of all its allocations, so kinds that the
//!   job told to be the same may have several layouts ([`Kind::may_follow`]). A layout is used when
//!   it is followed: iterations that come once do not push it out.

use alloc::vec::Vec;

use crate::learn::signature::Signature;

/// Of what kind an iteration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The shape that the job told, if any.
    pub(crate) told: Option<u64>,
    /// Its allocations.
    pub(crate) signature: Signature,
}

impl Kind {
    /// Whether iterations of both kinds are expected to need the same: by the job's word, if it
    /// told the shape of both; by their allocations, if it told neither.
    pub(super) fn is_expected_as(&self, other: &Self) -> bool {
        match (self.told, other.told) {
            (None, None) => self.signature == other.signature,
            (one, other) => one == other,
        }
    }

    /// Whether an iteration for which the job told this may turn out to be of this kind.
    pub(crate) fn may_follow(&self, told: Option<u64>) -> bool {
        told.is_none() || self.told == told
    }

    /// Whether an iteration of the other kind is one of this: it made the same allocations, and the
    /// job did not tell another shape.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.may_follow(other.told) && self.signature == other.signature
    }
}

/// The last `N` values, by their last use: a further one replaces the least recently used. All
/// operations are O(N).
#[derive(Debug)]
pub(crate) struct RecentlyUsed<T, const N: usize> {
    /// The most recently used first.
    values: Vec<T>,
}

impl<T, const N: usize> Default for RecentlyUsed<T, N> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T, const N: usize> RecentlyUsed<T, N> {
    /// All values, the most recently used first.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.values.iter()
    }

    /// The same, to be changed. That is no use of them.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.values.iter_mut()
    }

    /// The place of a value, counted from the most recently used. It holds until the next use.
    pub(crate) fn position(&self, is_it: impl FnMut(&T) -> bool) -> Option<usize> {
        self.values.iter().position(is_it)
    }

    /// Uses the value at a place: it is the most recently used one now.
    pub(crate) fn make_latest(&mut self, place: usize) -> Option<&mut T> {
        if place > 0 {
            self.values.get_mut(..=place)?.rotate_right(1);
        }
        self.values.first_mut()
    }

    /// Adds a value, which is the most recently used one then.
    pub(crate) fn insert(&mut self, value: T) {
        self.values.truncate(N.saturating_sub(1));
        self.values.insert(0, value);
    }
}

impl<T: PartialEq, const N: usize> RecentlyUsed<T, N> {
    /// Uses a value, or adds it. Whether it was there before.
    pub(crate) fn note(&mut self, value: T) -> bool {
        match self.position(|other| *other == value) {
            Some(place) => self.make_latest(place).is_some(),
            None => {
                self.insert(value);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a list of all uses ever: what is kept are the last few different ones of it.
    #[test]
    fn the_last_few_are_kept_by_their_last_use() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut list, mut uses) = (RecentlyUsed::<u32, 3>::default(), Vec::<u32>::new());
        for _ in 0..1000 {
            let mut kept: Vec<u32> = Vec::new();
            for &value in uses.iter().rev() {
                if kept.len() < 3 && !kept.contains(&value) {
                    kept.push(value);
                }
            }
            assert!(list.iter().eq(&kept));
            let value = random.u32(0..6);
            assert_eq!(list.note(value), kept.contains(&value));
            uses.push(value);
        }
    }

    #[test]
    fn a_value_is_changed_where_it_is_and_used_by_its_place() {
        let mut list = RecentlyUsed::<u32, 8>::default();
        (0..4).for_each(|value| list.insert(value));
        list.iter_mut().for_each(|value| *value *= 10);
        assert_eq!(list.position(|&value| value == 10), Some(2));
        assert_eq!(list.make_latest(2), Some(&mut 10));
        assert!(list.iter().eq(&[10, 30, 20, 0]));
        assert_eq!(list.make_latest(4), None);
    }

    #[test]
    fn what_the_job_told_decides_what_is_expected_and_its_allocations_where_they_go() {
        let kind = |told, size| {
            let mut signature = Signature::default();
            signature.push(size);
            Kind { told, signature }
        };
        assert!(kind(None, 1).is_expected_as(&kind(None, 1)));
        assert!(!kind(None, 1).is_expected_as(&kind(None, 2)));
        assert!(kind(Some(7), 1).is_expected_as(&kind(Some(7), 2)));
        assert!(!kind(Some(7), 1).is_expected_as(&kind(Some(8), 1)));
        assert!(!kind(Some(7), 1).is_expected_as(&kind(None, 1)));
        let follows = |told| kind(Some(7), 1).may_follow(told);
        assert_eq!([None, Some(7), Some(8)].map(follows), [true, true, false]);
        let covers = |told, size| kind(Some(7), 1).covers(&kind(told, size));
        assert!(covers(None, 1) && covers(Some(7), 1));
        assert!(!covers(None, 2) && !covers(Some(7), 2) && !covers(Some(8), 1));
    }
}
