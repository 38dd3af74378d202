//! An allocation for which the job's arenas have no room.

use alloc::vec::Vec;

use crate::block::{Block, Request};
use crate::device::Device;
use crate::error::AllocError;
use crate::job::Job;
use crate::lease::Want;
use crate::lifetime::Lifetime;
use crate::zone::Zone;

impl<D: Device> Job<D> {
    /// Leases the pages that the block needs and places it there. The job's lock is not held
    /// meanwhile: another thread may place blocks where there is room, and if that takes the place
    /// away, it goes round once more.
    #[cold]
    pub(crate) fn grow_and_place(
        &self,
        request: Request,
        size: u64,
        align: u64,
    ) -> Result<Block, AllocError<D::Error>> {
        let mut ordered = false;
        // Decided once: what is leased for one arena is of no use to another.
        let mut decided = None;
        loop {
            let want = self.want(request, size, align, decided)?;
            if want.zone != Zone::Planned {
                decided = Some(want.zone.lifetime());
            }
            let leased = match want.pages[..] {
                [] => Ok(()),
                _ => self.shared.lease(self.key, &want),
            };
            let mut memory = self.memory.lock();
            let awaited = core::mem::take(&mut memory.awaited);
            memory.growing = false;
            if leased.is_ok() {
                memory.back(want.zone, &want.pages);
            }
            memory.wanted = want.pages;
            // Even if there was nothing to be had: another thread may have freed something.
            let block = memory.alloc(request, size, align, decided);
            let busy = matches!(leased, Err(AllocError::Busy(_))) || memory.unparking > 0;
            memory.hungry |= busy && block.is_none();
            let order = !ordered && !memory.parked.is_empty();
            let mark = memory.mark().filter(|_| block.is_some());
            let watched = block.is_some() && self.pulse.tick();
            let short = matches!(leased, Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)));
            // What a plan keeps for those who come next is of more use now.
            let spare = if short { memory.planned.give_up_spare() } else { Vec::new() };
            let spared = !spare.is_empty();
            self.shared.give_back(self.key, memory, Zone::Planned, spare);
            if awaited {
                self.shared.changed();
            }
            if let Some(block) = block {
                self.made(mark, watched);
                return Ok(block);
            }
            match leased {
                Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) if spared => {}
                Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) if order => {
                    ordered = true;
                    self.unpark(true);
                }
                // What another thread is about to release may be enough.
                Err(AllocError::OutOfMemory(why)) if busy => {
                    return Err(AllocError::Busy(why.shortage));
                }
                Err(AllocError::OutOfMemory(mut why)) => {
                    why.largest_free = self.memory.lock().largest_free_in(want.zone);
                    return Err(AllocError::OutOfMemory(why));
                }
                done => done?,
            }
        }
    }

    fn want(
        &self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
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
        let asked = request.bytes;
        let (zone, pages) = memory
            .want(request, size, align, decided)
            .map_err(|range| AllocError::OutOfAddresses { bytes: asked, range })?;
        memory.growing = true;
        Ok(Want { zone, pages, asked })
    }
}
