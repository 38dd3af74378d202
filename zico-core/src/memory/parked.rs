//! Blocks of a job that other streams use: what was noted of them, and what becomes of them.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Memory, Note};
use crate::block::{Block, Home};
use crate::device::Device;
use crate::error::FreeError;
use crate::streams::{Parked, Wait};

impl<D: Device> Memory<D> {
    /// Forgets what was noted of a block that is being freed. If other streams use it, it has been freed
    /// then, and waits for them.
    pub(crate) fn forget(&mut self, block: Block) -> Result<Option<Parked<D>>, FreeError> {
        let (home, serial, bytes) = (block.home(), block.serial(), block.bytes());
        let size = self.check(block)?;
        let streams = self.notes.remove(&serial).map(|note| note.streams).unwrap_or_default();
        if streams.is_empty() {
            return Ok(None);
        }
        self.count_free(bytes, size);
        self.park(home, serial);
        self.tally.park(size);
        let waits = streams.into_iter().map(Wait::new).collect();
        Ok(Some(Parked { home, serial, size, waits }))
    }

    fn park(&mut self, home: Home, serial: u64) {
        match self.arenas.get_mut(home.zone().index()) {
            Some(arena) => {
                // It has been freed, though its place is not free before it is released.
                self.habits.freed(arena.noted(home.slot()), serial);
                arena.park(home.slot());
            }
            None => self.planned.park(home.slot(), serial),
        }
    }

    /// What a parked block waited for has passed. The pages that this leaves empty.
    pub(crate) fn release(&mut self, parked: &Parked<D>) -> Range<u64> {
        let &Parked { home, serial, size, .. } = parked;
        self.tally.release(size);
        match self.arenas.get_mut(home.zone().index()) {
            Some(arena) => {
                self.habits.freed(arena.noted(home.slot()), serial);
                arena.free(home.slot())
            }
            None => self.planned.release(&mut self.habits, home.slot(), serial),
        }
    }

    /// Work on this stream uses a live block as well.
    pub(crate) fn use_on(&mut self, block: Block, stream: D::Stream) {
        let note = self.notes.entry(block.serial());
        let note = note.or_insert_with(|| Note { name: None, streams: Vec::new() });
        if !note.streams.contains(&stream) {
            note.streams.push(stream);
        }
    }

    /// All streams whose work uses a live block, or one that is parked.
    pub(crate) fn streams(&self) -> Vec<D::Stream> {
        let live = self.notes.values().flat_map(|note| &note.streams).copied();
        let parked = self.parked.iter().flat_map(|parked| &parked.waits).map(|wait| wait.stream);
        let mut streams: Vec<D::Stream> = Vec::new();
        for stream in live.chain(parked) {
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        streams
    }
}
