//! Sets of blocks as bits.

/// A set whose words somebody else keeps.
pub(super) trait Set {
    fn has(&self, block: u32) -> bool;
    fn add(&mut self, block: u32);
    fn unite(&mut self, other: &[u64]);
    fn members(&self) -> impl Iterator<Item = u32>;
}

impl Set for [u64] {
    fn has(&self, block: u32) -> bool {
        self[block as usize / 64] >> (block % 64) & 1 == 1
    }

    fn add(&mut self, block: u32) {
        self[block as usize / 64] |= 1 << (block % 64);
    }

    fn unite(&mut self, other: &[u64]) {
        self.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
    }

    fn members(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self).flat_map(|(i, &word)| {
            let next = |rest: &u64| Some(rest & (rest - 1)).filter(|rest| *rest != 0);
            core::iter::successors(Some(word).filter(|word| *word != 0), next)
                .map(move |rest| i * 64 + rest.trailing_zeros())
        })
    }
}
