//! Stitched ranges: scattered regions mapped side by side at a second address.
//!
//! Needed where no contiguous run of home addresses is free. A range stays when its pages come back,
//! so that an iteration that repeats finds it again without a device call.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The most ranges that are kept. Beyond it the oldest idle one makes room for a new one.
pub(crate) const KEPT: usize = 256;

pub(crate) struct Alias<R> {
    /// The home slots behind the range's pages, in order.
    pub(crate) slots: Vec<usize>,
    /// The device's range; the mappings in it are of `slots`.
    range: R,
    /// Pages in an arena now.
    leased: u32,
    /// Pages given back whose fence the device has yet to pass.
    unfenced: u32,
}

/// The stitched ranges of a pool by first page.
pub(crate) struct Aliases<R> {
    by_page: BTreeMap<u64, Alias<R>>,
}

impl<R> Aliases<R> {
    pub(crate) const fn new() -> Self {
        Self { by_page: BTreeMap::new() }
    }

    /// The slot behind a page, if a stitched range has it.
    pub(crate) fn slot(&self, page: u64) -> Option<usize> {
        let (&first, alias) = self.by_page.range(..=page).next_back()?;
        alias.slots.get(usize::try_from(page - first).ok()?).copied()
    }

    pub(crate) fn add(&mut self, first: u64, slots: Vec<usize>, range: R) {
        self.by_page.insert(first, Alias { slots, range, leased: 0, unfenced: 0 });
    }

    /// An idle range of `count` pages whose slots all `suit`.
    pub(crate) fn reusable(
        &self,
        count: usize,
        suit: impl Fn(usize) -> bool,
    ) -> Option<(u64, Vec<usize>)> {
        self.by_page
            .iter()
            .find(|(_, alias)| {
                alias.leased == 0
                    && alias.slots.len() == count
                    && alias.slots.iter().all(|&s| suit(s))
            })
            .map(|(&first, alias)| (first, alias.slots.clone()))
    }

    /// Takes a range out that nobody uses, on the device either, if there are too many.
    pub(crate) fn evict(&mut self) -> Option<(u64, Vec<usize>, R)> {
        if self.by_page.len() < KEPT {
            return None;
        }
        let idle = |alias: &Alias<R>| alias.leased == 0 && alias.unfenced == 0;
        let first = *self.by_page.iter().find(|(_, alias)| idle(alias))?.0;
        self.by_page.remove(&first).map(|alias| (first, alias.slots, alias.range))
    }

    pub(crate) fn leased(&mut self, page: u64) {
        if let Some(alias) = self.of(page) {
            alias.leased += 1;
        }
    }

    pub(crate) fn given_back(&mut self, page: u64) {
        if let Some(alias) = self.of(page) {
            alias.leased -= 1;
            alias.unfenced += 1;
        }
    }

    pub(crate) fn fence_passed(&mut self, page: u64) {
        if let Some(alias) = self.of(page) {
            alias.unfenced -= 1;
        }
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Vec<usize>, R)> {
        core::mem::take(&mut self.by_page).into_values().map(|alias| (alias.slots, alias.range))
    }

    fn of(&mut self, page: u64) -> Option<&mut Alias<R>> {
        let (&first, alias) = self.by_page.range_mut(..=page).next_back()?;
        ((page - first) < alias.slots.len() as u64).then_some(alias)
    }
}
