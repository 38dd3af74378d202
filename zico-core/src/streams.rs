//! Blocks that several streams use.
//!
//! A job's work runs in order on its own stream, so what it frees it may have again at once. Where
//! another stream uses a block as well, nothing orders that stream's work before the block's next
//! use. So a block with such uses is *parked* when it is freed: an event is recorded on each of those
//! streams, and the block's bytes are free when all have passed. When the job is short of memory, when
//! its iteration ends or it leaves, its own stream is made to wait for them on the device instead:
//! from there on all is in that stream's order again, and the fences of the regions hold.

use alloc::vec::Vec;

use crate::account::Account;
use crate::block::{Block, Home};
use crate::device::{Device, Passed};
use crate::error::UseError;
use crate::job::Job;
use crate::memory::Memory;
use crate::region::JobKey;
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::units::Bytes;

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
    event: Option<D::Event>,
}

impl<D: Device> Wait<D> {
    pub(crate) const fn new(stream: D::Stream) -> Self {
        Self { stream, event: None }
    }
}

impl<D: Device> Job<D> {
    /// Says that work enqueued on another stream uses a block, or will, until the block is freed.
    /// Work on that stream has to be ordered after the job's own by the caller, where it needs to be.
    /// The block's memory is used again only after that stream's work as well: when the device has
    /// passed it, or, where memory is short, when the job's own stream waits for it. O(streams that use the
    /// block), and one event for each stream that is new to the job: the last 64 are remembered.
    ///
    /// # Errors
    /// If the block is not live in this job, or the device does not know the stream.
    pub fn record_use(&self, block: Block, stream: D::Stream) -> Result<(), UseError<D::Error>> {
        let known = stream == self.stream || self.memory.lock().knows(stream);
        if !known {
            // A stream that takes no event now would never say when it is done with the block.
            self.shared.device.record(stream).map_err(UseError::Device)?;
        }
        let mut memory = self.memory.lock();
        memory.check(block).map_err(UseError::Block)?;
        if stream != self.stream {
            memory.know(stream);
            memory.use_on(block, stream);
        }
        Ok(())
    }

    /// A block has been freed that other streams use: notes how far they are.
    #[cold]
    pub(crate) fn park(&self, mut parked: Parked<D>) {
        let streams: Vec<D::Stream> = parked.waits.iter().map(|wait| wait.stream).collect();
        for wait in &mut parked.waits {
            // A failure leaves it for later; an event recorded then covers as much and more.
            wait.event = self.shared.device.record(wait.stream).ok();
        }
        let mut memory = self.memory.lock();
        memory.looked_at(&streams, [parked].into());
        let running = memory.is_inside();
        drop(memory);
        if !running {
            self.unpark(true);
        }
    }

    /// Frees the parked blocks whose streams have passed. With `order`, the job's own stream is made
    /// to wait for the others, so that all are free. What the device refuses stays parked.
    pub(crate) fn unpark(&self, order: bool) {
        self.shared.unpark(self.key, self.stream, &self.memory, order);
    }
}

impl<D: Device> Shared<D> {
    /// Frees the parked blocks of jobs that run no iteration, or wait for memory: what could not be done
    /// when they were freed is tried again.
    pub(crate) fn unpark_idle(&self) {
        let idle: Vec<_> = {
            let ledger = self.ledger.lock();
            let waits = |a: &Account<D>| !a.is_running() || a.stall.is_some();
            let idle = ledger.accounts.iter().filter(|(_, a)| waits(a) && !a.gone);
            idle.map(|(&job, account)| (job, account.stream, account.memory.clone())).collect()
        };
        for (job, stream, memory) in idle {
            self.unpark(job, stream, &memory, true);
        }
    }

    /// While the blocks are looked at, without the lock, the memory still knows their streams: a job that
    /// leaves meanwhile waits for them before its last fence.
    pub(crate) fn unpark(
        &self,
        job: JobKey,
        own: D::Stream,
        memory: &Mutex<Memory<D>>,
        order: bool,
    ) {
        let parked = memory.lock().look_at_parked();
        if parked.is_empty() {
            return;
        }
        let waits = parked.iter().flat_map(|parked| &parked.waits);
        let streams: Vec<D::Stream> = waits.map(|wait| wait.stream).collect();
        let mut left = Vec::new();
        for mut block in parked {
            block.waits.retain_mut(|wait| !self.is_over(own, wait, order));
            if block.waits.is_empty() {
                let mut locked = memory.lock();
                let pages = locked.release(&block);
                self.give_back(job, locked, block.home.zone(), pages);
            } else {
                left.push(block);
            }
        }
        let mut locked = memory.lock();
        locked.looked_at(&streams, left);
        locked.unparking -= 1;
        let hungry = core::mem::take(&mut locked.hungry);
        drop(locked);
        if hungry {
            self.fed();
        }
    }

    /// Whether a stream's use of a block is over, as far as the job's own stream is concerned.
    fn is_over(&self, own: D::Stream, wait: &mut Wait<D>, order: bool) -> bool {
        if wait.event.is_none() {
            wait.event = self.device.record(wait.stream).ok();
        }
        let Some(event) = &wait.event else { return false };
        matches!(self.device.query(event), Ok(Passed::Yes))
            || (order && self.device.order_after(own, event).is_ok())
    }
}
