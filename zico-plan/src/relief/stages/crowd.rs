//! Where memory is over the budget.

use alloc::vec::Vec;

/// How many places over the budget there are before each stage.
#[derive(Clone, Debug, Default)]
pub(in crate::relief) struct Crowd(Vec<u32>);

impl Crowd {
    /// From how many there are before each stage.
    pub(in crate::relief) const fn new(before: Vec<u32>) -> Self {
        Self(before)
    }

    /// Those in stages after `from` and before `to`.
    pub(in crate::relief) fn between(&self, from: u32, to: u32) -> u32 {
        let at = |stage: usize| self.0.get(stage).copied().unwrap_or(0);
        at(to as usize).saturating_sub(at(from as usize + 1))
    }
}
