//! An allocation for which the job's arenas have no room.

use crate::device::Device;
use crate::error::AllocError;
use crate::job::Job;
use crate::lease::Want;
use crate::lifetime::Lifetime;
use crate::memory::{Block, Request};

impl<D: Device> Job<D> {
    /// Leases the pages that the block needs and places it there. The job's lock is not held
    /// meanwhile: another thread may place blocks where there is room, and if that takes the place
    /// away, it goes round once more.
    #[cold]
    pub(crate) fn grow_and_place(
        &self,
        lifetime: Lifetime,
        request: Request,
        size: u64,
        align: u64,
    ) -> Result<Block, AllocError<D::Error>> {
        let mut ordered = false;
        loop {
            let want = self.plan(lifetime, request, size, align)?;
            let leased = match want.pages[..] {
                [] => Ok(()),
                _ => self.shared.lease(self.key, &want),
            };
            let mut memory = self.memory.lock();
            let awaited = core::mem::take(&mut memory.awaited);
            memory.growing = false;
            if leased.is_ok() {
                memory.back(lifetime, &want.pages);
            }
            // Even if there was nothing to be had: another thread may have freed something.
            let block = memory.place(lifetime, request, size, align);
            let busy = matches!(leased, Err(AllocError::Busy(_))) || memory.unparking > 0;
            memory.hungry |= busy && block.is_none();
            let order = !ordered && !memory.parked.is_empty();
            let mark = memory.mark.take();
            drop(memory);
            if awaited {
                self.shared.changed();
            }
            if let Some(block) = block {
                self.made(mark);
                return Ok(block);
            }
            match leased {
                Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) if order => {
                    ordered = true;
                    self.unpark(true);
                }
                // What another thread is about to release may be enough.
                Err(AllocError::OutOfMemory(why)) if busy => {
                    return Err(AllocError::Busy(why.shortage));
                }
                Err(AllocError::OutOfMemory(mut why)) => {
                    why.largest_free = self.memory.lock().arena(lifetime).largest_free();
                    return Err(AllocError::OutOfMemory(why));
                }
                done => done?,
            }
        }
    }

    fn plan(
        &self,
        lifetime: Lifetime,
        request: Request,
        size: u64,
        align: u64,
    ) -> Result<Want, AllocError<D::Error>> {
        let mut memory = self.memory.lock();
        if !memory.parked.is_empty() {
            drop(memory);
            self.unpark(false);
            memory = self.memory.lock();
        }
        if memory.growing {
            memory.awaited = true;
            drop(memory);
            let shortage = self.shared.ledger.lock().shortage(self.key, request.bytes, 0);
            return Err(AllocError::Busy(shortage));
        }
        let arena = memory.arena(lifetime);
        let Some(pages) = arena.plan(size, align) else {
            return Err(AllocError::OutOfAddresses { bytes: request.bytes, range: arena.len() });
        };
        memory.growing = true;
        Ok(Want { lifetime, pages, asked: request.bytes })
    }
}
