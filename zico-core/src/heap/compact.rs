//! An optional number in four bytes.

use core::fmt;

/// A number less than `u32::MAX`, or none. Unlike `Option<u32>` it takes four bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionalU32(u32);

impl OptionalU32 {
    pub(super) const NONE: Self = Self(u32::MAX);

    /// A number. The largest there is is none.
    #[inline]
    pub(crate) const fn some(number: u32) -> Self {
        Self(number)
    }

    /// The same of a length; of one that is too large, none.
    #[inline]
    pub(crate) fn of(len: usize) -> Self {
        u32::try_from(len).map_or(Self::NONE, Self::some)
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    #[inline]
    pub(crate) const fn get(self) -> Option<u32> {
        if self.is_none() { None } else { Some(self.0) }
    }

    /// The element of this number. None has no element: a list has fewer than `u32::MAX`.
    #[inline]
    pub(super) fn of_list<T>(self, list: &[T]) -> Option<&T> {
        list.get(self.0 as usize)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn of_list_mut<T>(self, list: &mut [T]) -> Option<&mut T> {
        list.get_mut(self.0 as usize)
    }
}

impl fmt::Debug for OptionalU32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_no_number_and_has_no_element() {
        for number in [0, 1, u32::MAX - 1] {
            assert_eq!(OptionalU32::some(number).get(), Some(number));
        }
        assert_eq!(OptionalU32::NONE.get(), None);
        assert_eq!(OptionalU32::of(u32::MAX as usize), OptionalU32::NONE);
        assert_eq!(OptionalU32::of(usize::MAX), OptionalU32::NONE);
        let mut list = [7, 8];
        assert_eq!(OptionalU32::of(1).of_list(&list), Some(&8));
        assert_eq!(OptionalU32::of(2).of_list(&list), None);
        assert_eq!(OptionalU32::NONE.of_list_mut(&mut list), None);
        assert_eq!(alloc::format!("{:?}", OptionalU32::some(3)), "Some(3)");
    }
}
