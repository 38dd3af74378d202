//! Blocks of a job that other streams use: what was noted of them, and what becomes of them.

use alloc::vec::Vec;
use core::ops::Range;

use super::{JobHeap, Note, STREAMS_KNOWN};
use crate::types::block::{Block, Home};
use crate::types::device::Device;
use crate::types::error::FreeError;
use crate::types::units::Bytes;

/// A freed block that other streams may still use.
pub(crate) struct Parked<D: Device> {
    pub(crate) home: Home,
    pub(crate) serial: u64,
    pub(crate) size: Bytes,
    pub(crate) waits: Vec<Wait<D>>,
}

/// A stream that used a block, and the event after its last use.
pub(crate) struct Wait<D: Device> {
    pub(crate) stream: D::Stream,
    /// None until it could be recorded.
    pub(crate) event: Option<D::Event>,
}

impl<D: Device> Wait<D> {
    pub(crate) const fn new(stream: D::Stream) -> Self {
        Self { stream, event: None }
    }
}

impl<D: Device> JobHeap<D> {
    /// Forgets what was noted of a block that is being freed. If other streams use it, it has been
    /// freed then, and waits for them.
    pub(crate) fn forget(&mut self, block: Block) -> Result<Option<Parked<D>>, FreeError> {
        let (home, serial, bytes) = (block.home(), block.serial(), block.bytes());
        let size = self.check(block)?;
        let streams = self.notes.remove(&serial).map(|note| note.streams).unwrap_or_default();
        if streams.is_empty() {
            return Ok(None);
        }
        self.tally.free(bytes, size);
        self.lies_mut().park(home, serial);
        self.tally.park(size);
        self.pulse.park();
        self.looked_at.extend_from_slice(&streams);
        let waits = streams.into_iter().map(Wait::new).collect();
        Ok(Some(Parked { home, serial, size, waits }))
    }

    /// Takes all parked blocks out to look at their streams, if there are any.
    pub(crate) fn look_at_parked(&mut self) -> Vec<Parked<D>> {
        let parked = core::mem::take(&mut self.parked);
        if !parked.is_empty() {
            let waits = parked.iter().flat_map(|parked| &parked.waits);
            self.looked_at.extend(waits.map(|wait| wait.stream));
            self.unparking += 1;
        }
        parked
    }

    /// Blocks that used these streams have been looked at, and some still wait for theirs. A job
    /// that has left has no blocks, and its last fence waits for all streams.
    pub(crate) fn looked_at(&mut self, streams: &[D::Stream], left: Vec<Parked<D>>) {
        if self.closed {
            return;
        }
        // What one thread has added stands at the end mostly, in this order.
        for stream in streams.iter().rev() {
            if let Some(at) = self.looked_at.iter().rposition(|other| other == stream) {
                self.looked_at.swap_remove(at);
            }
        }
        self.parked.extend(left);
    }

    /// Whether a stream is known to be one of the device's.
    pub(crate) fn knows(&self, stream: D::Stream) -> bool {
        self.streams_known.contains(&stream)
    }

    /// A stream is one of the device's. Of very many those are forgotten that were noted first.
    pub(crate) fn know(&mut self, stream: D::Stream) {
        if !self.knows(stream) {
            self.streams_known.truncate(STREAMS_KNOWN - 1);
            self.streams_known.push_front(stream);
        }
    }

    /// What a parked block waited for has passed. The pages that this leaves empty.
    pub(crate) fn release(&mut self, parked: &Parked<D>) -> Range<u64> {
        self.pulse.release();
        if self.closed {
            return 0..0;
        }
        let &Parked { home, serial, size, .. } = parked;
        self.tally.release(size);
        let pages = self.lies_mut().release(home, serial, size.value());
        self.emptied(home.zone(), pages)
    }

    /// Work on this stream uses a live block as well.
    pub(crate) fn use_on(&mut self, block: Block, stream: D::Stream) {
        let note = self.notes.entry(block.serial());
        let note = note.or_insert_with(|| Note { name: None, streams: Vec::new() });
        if !note.streams.contains(&stream) {
            note.streams.push(stream);
        }
    }

    /// All streams whose work uses a live block, or one that has been freed and waits for them. Of
    /// very many some stand there twice.
    pub(crate) fn streams(&self) -> Vec<D::Stream> {
        let live = self.notes.values().flat_map(|note| &note.streams).copied();
        let parked = self.parked.iter().flat_map(|parked| &parked.waits).map(|wait| wait.stream);
        let mut streams: Vec<D::Stream> = Vec::new();
        for stream in live.chain(parked).chain(self.looked_at.iter().copied()) {
            let last = streams.len().saturating_sub(STREAMS_KNOWN);
            if !streams[last..].contains(&stream) {
                streams.push(stream);
            }
        }
        streams
    }
}
