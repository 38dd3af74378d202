//! Blocks that several streams use.
//!
//! A job's work runs in order on its own stream, so what it frees it may have again at once. Where
//! another stream uses a block as well, nothing orders that stream's work before the block's next
//! use. So a block with such uses is *parked* when it is freed: an event is recorded on each of
//! those streams, and the block's bytes are free when all have passed. When the job is short of
//! memory, when its iteration ends or it leaves, its own stream is made to wait for them on the
//! device instead: from there on all is in that stream's order again, and the fences of the regions
//! hold.

use alloc::vec::Vec;

use super::Job;
use crate::heap::parked::Parked;
use crate::types::block::Block;
use crate::types::device::Device;
use crate::types::error::UseError;

impl<D: Device> Job<D> {
    /// Says that work enqueued on another stream uses a block, or will, until the block is freed.
    /// Work on that stream has to be ordered after the job's own by the caller, where it needs to
    /// be. The block's memory is used again only after that stream's work as well: when the device
    /// has passed it, or, where memory is short, when the job's own stream waits for it. O(streams
    /// that use the block), and one event for each stream that is new to the job: the last 64 are
    /// remembered.
    ///
    /// # Errors
    /// If the block is not live in this job, or the device does not know the stream.
    pub fn record_use(&self, block: Block, stream: D::Stream) -> Result<(), UseError<D::Error>> {
        let known = stream == self.stream || self.heap.lock().knows(stream);
        if !known {
            // A stream that takes no event now would never say when it is done with the block.
            self.shared.device.record(stream).map_err(UseError::Device)?;
        }
        let mut heap = self.heap.lock();
        heap.check(block).map_err(UseError::Block)?;
        if stream != self.stream {
            heap.know(stream);
            heap.use_on(block, stream);
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
        let mut heap = self.heap.lock();
        heap.looked_at(&streams, [parked].into());
        let running = heap.is_inside();
        drop(heap);
        if !running {
            self.unpark(true);
        }
    }

    /// Frees the parked blocks whose streams have passed. With `order`, the job's own stream is
    /// made to wait for the others, so that all are free. What the device refuses stays parked.
    pub(crate) fn unpark(&self, order: bool) {
        self.shared.unpark(self.key, self.stream, &self.heap, order);
    }
}
