//! A set of regions by number, whose next member is found without looking at all.

use alloc::vec::Vec;

const BITS: usize = 64;

/// Two levels of words: a bit of the upper says whether a word of the lower holds any. Adding and
/// removing is O(1), the next member O(regions / 4096).
#[derive(Default)]
pub(in crate::ledger) struct Set {
    words: Vec<u64>,
    groups: Vec<u64>,
    len: usize,
}

impl Set {
    /// Makes a number a member, or no member.
    pub(in crate::ledger) fn put(&mut self, number: usize, member: bool) {
        let (word, group) = (number / BITS, number / BITS / BITS);
        if word >= self.words.len() {
            if !member {
                return;
            }
            self.words.resize(word + 1, 0);
            self.groups.resize(group + 1, 0);
        }
        let (bit, is_member) = (1 << (number % BITS), self.words[word] >> (number % BITS) & 1 != 0);
        if member == is_member {
            return;
        }
        self.words[word] ^= bit;
        self.len = if member { self.len + 1 } else { self.len - 1 };
        let any = u64::from(self.words[word] != 0) << (word % BITS);
        self.groups[group] = self.groups[group] & !(1 << (word % BITS)) | any;
    }

    pub(in crate::ledger) fn len(&self) -> usize {
        self.len
    }

    /// The members that are `from` or more, in order.
    pub(in crate::ledger) fn from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(self.at_least(from), |&last| self.at_least(last + 1))
    }

    fn at_least(&self, number: usize) -> Option<usize> {
        let word = number / BITS;
        let rest = self.words.get(word)? >> (number % BITS);
        if rest != 0 {
            return Some(number + rest.trailing_zeros() as usize);
        }
        let next = word + 1;
        let group = next / BITS;
        let rest = self.groups.get(group)? >> (next % BITS);
        let word = if rest != 0 {
            next + rest.trailing_zeros() as usize
        } else {
            let (group, bits) =
                (group + 1..).zip(self.groups.get(group + 1..)?).find(|(_, g)| **g != 0)?;
            group * BITS + bits.trailing_zeros() as usize
        };
        Some(word * BITS + self.words[word].trailing_zeros() as usize)
    }

    /// The largest member.
    pub(in crate::ledger) fn last(&self) -> Option<usize> {
        let top = |bits: u64| BITS - 1 - bits.leading_zeros() as usize;
        let group = self.groups.iter().rposition(|&bits| bits != 0)?;
        let word = group * BITS + top(self.groups[group]);
        Some(word * BITS + top(self.words[word]))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_a_sorted_set() {
        let (mut set, mut model) = (Set::default(), BTreeSet::new());
        let mut random = 1_u64;
        for round in 0..4000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Sparse and far apart, or close together.
            let most = [20_000, 300, 5][round % 3];
            let number = usize::try_from(random >> 33).unwrap() % most;
            let member = random >> 20 & 1 != 0;
            set.put(number, member);
            if member {
                model.insert(number);
            } else {
                model.remove(&number);
            }
            assert_eq!((set.len(), set.last()), (model.len(), model.last().copied()));
            assert!(set.from(number).take(5).eq(model.range(number..).take(5).copied()));
        }
        assert!(set.from(0).eq(model.iter().copied()));
        assert_eq!(set.from(1 << 20).next(), None);
    }
}
