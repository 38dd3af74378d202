//! By what one iteration of a job is told from another: the sizes of its allocations, in order.
//!
//! Iterations of one job differ where its inputs do: sequences of another length, a last batch that
//! is smaller, a validation among training steps. Their allocations differ from early on, most
//! often from the first one. So a running hash of the sizes is noted after 1, 2, 4, 8 allocations
//! and so on (a [`Mark`]), and an iteration whose marks so far are those of an earlier one is taken
//! to be like it.

/// The running hash of an iteration's allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    allocations: u32,
    hash: u64,
}

/// The running hash after 2^`power` allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) power: u32,
    pub(crate) hash: u64,
}

impl Signature {
    /// Of so many allocations whose hash is this.
    pub(crate) const fn of(allocations: u32, hash: u64) -> Self {
        Self { allocations, hash }
    }

    /// The number of allocations, and their hash.
    pub(crate) const fn parts(self) -> (u32, u64) {
        (self.allocations, self.hash)
    }

    /// No allocation has been made.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.allocations == 0
    }

    /// The mark that an allocation of this size would be, if it is to be the first one.
    pub(crate) fn first(mut self, size: u64) -> Option<Mark> {
        self.is_empty().then(|| self.push(size)).and_then(|()| self.mark())
    }

    /// One more allocation, of this size. O(1).
    #[inline]
    pub(crate) fn push(&mut self, size: u64) {
        self.hash = mixed(self.hash, size);
        self.allocations = self.allocations.saturating_add(1);
    }

    /// The mark that the last allocation has reached, if it is one of those after which there is
    /// one.
    #[inline]
    pub(crate) fn mark(self) -> Option<Mark> {
        let is_mark = self.allocations.is_power_of_two();
        is_mark.then(|| Mark { power: self.allocations.trailing_zeros(), hash: self.hash })
    }
}

/// Multiplication by an odd constant (2^64 over the golden ratio) and a rotation spread each size
/// over all bits (`FxHash`).
#[inline]
pub(crate) const fn mixed(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn marks(sizes: &[u64]) -> (Signature, Vec<Mark>) {
        let mut signature = Signature::default();
        let mut push = |&size| {
            signature.push(size);
            signature.mark()
        };
        let marks = sizes.iter().filter_map(&mut push).collect();
        (signature, marks)
    }

    #[test]
    fn marks_are_the_same_as_far_as_the_sizes_are() {
        let (one, first) = marks(&[512, 1024, 512, 2048, 512, 512]);
        let (other, second) = marks(&[512, 1024, 512, 4096, 512, 512]);
        assert_eq!(first.iter().map(|mark| mark.power).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(first[..2], second[..2]);
        assert_ne!(first[2], second[2]);
        assert_ne!(one, other);
        assert_eq!(marks(&[512, 1024, 512, 2048, 512, 512]), (one, first));
        let swapped = marks(&[1024, 512]).0;
        assert_ne!(swapped, marks(&[512, 1024]).0, "the order counts");
    }
}
