//! Work, counted in steps.
//!
//! A step is one turn of an inner loop: an entry of a list that is looked at, a node of a tree that
//! is visited, a number that is compared while sorting. What it costs does not depend on the size
//! of the problem, so a bound on steps is one on time, on any machine and with the same outcome on
//! each.

/// A budget of steps: those that may still be taken, and those that have been.
#[derive(Debug)]
pub struct Work {
    left: u64,
    spent: u64,
}

impl Work {
    /// A budget of so many steps, none of them taken.
    #[must_use]
    pub const fn new(steps: u64) -> Self {
        Self { left: steps, spent: 0 }
    }

    /// The steps that may still be taken.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The steps that have been taken.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes steps. `None`, and no step is taken, if fewer are left.
    #[inline]
    pub const fn spend(&mut self, steps: u64) -> Option<()> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                self.spent = self.spent.saturating_add(steps);
                Some(())
            }
            None => None,
        }
    }

    /// Takes steps even where fewer are left.
    #[inline]
    pub const fn count(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
        self.spent = self.spent.saturating_add(steps);
    }
}

/// The binary digits of `n`, at least 1: a node's depth in a tree of so many.
pub(crate) const fn digits(n: usize) -> u64 {
    (usize::BITS - (n | 1).leading_zeros()) as u64
}

/// The steps to sort `n` items: n times their binary digits.
#[must_use]
pub const fn sorting(n: usize) -> u64 {
    (n as u64).saturating_mul(digits(n))
}
