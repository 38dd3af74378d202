//! Work, counted in steps.
//!
//! A step is one turn of an inner loop: an entry of a list that is looked at, a node of a tree that is
//! visited, a number that is compared while sorting. What it costs does not depend on the size of the
//! problem, so a bound on steps is one on time, on any machine and with the same outcome on each.

/// The steps that may still be taken, and those that have been.
#[derive(Debug)]
pub(crate) struct Work {
    left: u64,
    spent: u64,
}

impl Work {
    pub(crate) const fn new(steps: u64) -> Self {
        Self { left: steps, spent: 0 }
    }

    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    pub(crate) const fn spent(&self) -> u64 {
        self.spent
    }

    /// Steps that are about to be taken. Nothing, and no step is counted, if there are not so many.
    #[inline]
    pub(crate) const fn spend(&mut self, steps: u64) -> Option<()> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                self.spent = self.spent.saturating_add(steps);
                Some(())
            }
            None => None,
        }
    }

    /// Steps that are taken in any case.
    #[inline]
    pub(crate) const fn count(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
        self.spent = self.spent.saturating_add(steps);
    }
}

/// The binary digits of `n`, at least 1: a node's depth in a tree of so many.
pub(crate) const fn digits(n: usize) -> u64 {
    (usize::BITS - (n | 1).leading_zeros()) as u64
}

/// What sorting so many takes.
pub(crate) const fn sorting(n: usize) -> u64 {
    (n as u64).saturating_mul(digits(n))
}
