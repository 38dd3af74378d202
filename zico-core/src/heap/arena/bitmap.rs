//! A set of small numbers that finds the next member in O(1).
//!
//! Three levels of 64-bit words: a bit of an upper level says whether the word below holds any. The
//! next member is at most five words away, whatever the set holds.

use alloc::vec;
use alloc::vec::Vec;

const BITS: usize = 64;

pub(super) struct Bitmap {
    low: Vec<u64>,
    mid: Vec<u64>,
    high: u64,
}

impl Bitmap {
    /// The members are less than this at most.
    pub(super) const MOST: usize = BITS * BITS * BITS;

    /// A set of numbers less than `len`, which is at most [`MOST`](Self::MOST).
    pub(super) fn new(len: usize) -> Self {
        let words = len.div_ceil(BITS);
        Self { low: vec![0; words], mid: vec![0; words.div_ceil(BITS)], high: 0 }
    }

    #[inline]
    pub(super) fn insert(&mut self, number: usize) {
        let (word, group) = (number / BITS, number / BITS / BITS);
        self.low[word] |= bit(number);
        self.mid[group] |= bit(word);
        self.high |= bit(group);
    }

    pub(super) fn remove(&mut self, number: usize) {
        let (word, group) = (number / BITS, number / BITS / BITS);
        self.low[word] &= !bit(number);
        if self.low[word] == 0 {
            self.mid[group] &= !bit(word);
            if self.mid[group] == 0 {
                self.high &= !bit(group);
            }
        }
    }

    /// The least member that is `number` or more.
    #[inline(always)]
    pub(super) fn at_least(&self, number: usize) -> Option<usize> {
        let word = number / BITS;
        let rest = self.low.get(word)? >> (number % BITS);
        if rest != 0 {
            return Some(number + rest.trailing_zeros() as usize);
        }
        let word = self.word_above(word)?;
        Some(word * BITS + self.low[word].trailing_zeros() as usize)
    }

    /// The first word above `word` that holds any.
    #[inline(always)]
    fn word_above(&self, word: usize) -> Option<usize> {
        let group = word / BITS;
        let rest = above(self.mid[group], word);
        if rest != 0 {
            return Some(group * BITS + rest.trailing_zeros() as usize);
        }
        let rest = above(self.high, group);
        if rest == 0 {
            return None;
        }
        let group = rest.trailing_zeros() as usize;
        Some(group * BITS + self.mid[group].trailing_zeros() as usize)
    }
}

/// The bits of a word above the one for a number.
const fn above(word: u64, number: usize) -> u64 {
    word & (!1 << (number % BITS))
}

const fn bit(number: usize) -> u64 {
    1 << (number % BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_search_finds() {
        let members = [0, 63, 64, 4_095, 4_096, 70_000, Bitmap::MOST - 1];
        let mut set = Bitmap::new(Bitmap::MOST);
        assert_eq!(set.at_least(0), None);
        members.iter().for_each(|&member| set.insert(member));
        for gone in 0..members.len() {
            for from in (0..Bitmap::MOST).step_by(61).chain(members) {
                let expected = members[gone..].iter().find(|&&member| member >= from);
                assert_eq!(set.at_least(from), expected.copied(), "from {from}");
            }
            set.remove(members[gone]);
        }
        assert_eq!(set.at_least(0), None);
        assert_eq!(Bitmap::new(100).at_least(100), None);
        assert_eq!(Bitmap::new(100).at_least(1 << 20), None);
    }
}
