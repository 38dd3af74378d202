//! A heap whose memory is on the host: blocks can be freed, and nothing can be placed.
//!
//! Another placement stands in for the time being, on ranges of no length. So the way of an
//! allocation or a free does not ask whether the job is there: it finds no room, or no such block,
//! and only then it is looked at why.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::JobHeap;
use super::placement::Placement;
use crate::types::block::Block;
use crate::types::device::Device;
use crate::types::error::FreeError;
use crate::types::report::OnSuspend;
use crate::types::units::Bytes;
use crate::types::zone::Zone;

/// The blocks of a job whose memory is on the host.
pub(super) struct Away {
    placement: Placement,
    /// Pages that have come to be empty since. They come back with the rest, and are given back.
    emptied: Vec<(Zone, Range<u64>)>,
}

/// What is to become of the blocks of a job that goes to the host, by serial. All others are
/// copied.
#[derive(Debug, Default)]
pub(crate) struct Choices(BTreeMap<u64, OnSuspend>);

impl Choices {
    /// The choice for each of these blocks.
    pub(crate) fn of(blocks: impl Iterator<Item = (u64, OnSuspend)>) -> Self {
        Self(blocks.filter(|&(_, choice)| choice != OnSuspend::default()).collect())
    }

    /// Whether a block is to stay.
    pub(crate) fn keeps_any(&self) -> bool {
        self.0.values().any(|&choice| choice == OnSuspend::Keep)
    }

    fn get(&self, serial: u64) -> OnSuspend {
        self.0.get(&serial).copied().unwrap_or_default()
    }
}

impl<D: Device> JobHeap<D> {
    /// What becomes of these pages, which are in the order of their places: of each what the block
    /// in it needs that needs most. Where no block lies there is nothing to copy.
    /// O(blocks log pages + pages of all blocks).
    pub(crate) fn on_suspend(&self, pages: &[(Zone, u64)], choices: &Choices) -> Vec<OnSuspend> {
        let mut becomes = vec![OnSuspend::Discard; pages.len()];
        let shift = self.page_bytes.value().trailing_zeros();
        for zone in Zone::ALL {
            for (start, len, serial) in self.lies().spans(zone) {
                let choice = choices.get(serial);
                let last = start.saturating_add(len.max(1) - 1) >> shift;
                let first = pages.partition_point(|&page| page < (zone, start >> shift));
                let its = pages[first..].iter().take_while(|&&page| page <= (zone, last)).count();
                becomes[first..first + its].iter_mut().for_each(|page| *page = choice.max(*page));
            }
        }
        becomes
    }

    /// Whether the job's memory is on the host, or on its way there or back.
    pub(crate) const fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Nothing is placed from now on.
    pub(crate) fn go_away(&mut self) {
        if self.away.is_none() {
            let stand_in = self.placement.stand_in(self.page_bytes.value());
            let placement = core::mem::replace(&mut self.placement, stand_in);
            self.away = Some(Box::new(Away { placement, emptied: Vec::new() }));
        }
    }

    /// The job's memory is there again. The pages that have come to be empty meanwhile.
    pub(crate) fn return_from_away(&mut self) -> Vec<(Zone, Range<u64>)> {
        let Some(away) = self.away.take() else { return Vec::new() };
        self.placement = away.placement;
        away.emptied
    }

    /// Where the blocks lie.
    pub(super) fn lies(&self) -> &Placement {
        self.away.as_ref().map_or(&self.placement, |away| &away.placement)
    }

    /// The same, to change it.
    pub(super) fn lies_mut(&mut self) -> &mut Placement {
        match &mut self.away {
            Some(away) => &mut away.placement,
            None => &mut self.placement,
        }
    }

    /// These pages are empty. Those that can be given back now.
    pub(super) fn emptied(&mut self, zone: Zone, pages: Range<u64>) -> Range<u64> {
        match &mut self.away {
            Some(away) => {
                away.emptied.extend(Some((zone, pages)).filter(|(_, pages)| !pages.is_empty()));
                0..0
            }
            None => pages,
        }
    }

    /// Frees a block that does not lie where blocks are placed: it is on the host, or not live.
    #[cold]
    pub(super) fn free_away(&mut self, block: Block) -> Result<(Zone, Range<u64>), FreeError> {
        let freed = self.away.as_mut().and_then(|away| away.placement.free(block));
        let Some((size, pages)) = freed else {
            return Err(self.not_live(block.address()));
        };
        self.tally.free(block.bytes(), Bytes::new(size));
        let zone = block.home().zone();
        Ok((zone, self.emptied(zone, pages)))
    }
}
