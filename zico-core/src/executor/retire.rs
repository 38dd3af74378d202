//! Gives memory that is nobody's back to the device, and the addresses of jobs that have left.

use alloc::vec::Vec;

use super::Shared;
use crate::ledger::{AT_A_TIME, Departed, Excess, Ledger, Retired};
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::refused::Refused;
use crate::types::sync::Arc;
use crate::types::tuning::RETIRED_AT_A_TIME;
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// Destroys free regions, those first that are in use least, until no more than `target` are
    /// left or none is free. A region that the device refuses to take stays the pool's, free.
    pub(crate) fn trim(&self, target: usize) -> Result<(), D::Error> {
        self.reclaim(None)?;
        self.free_spare_host()?;
        self.give_up_while(Excess::Above(target))
    }

    /// Gives the memory of regions back that a lowered budget has no room for.
    pub(super) fn shrink(&self) -> Result<(), D::Error> {
        // Regions that never had memory are closed without a call of the device.
        while self.quietly(Ledger::close_more) == Some(true) {}
        self.give_up_while(Excess::BeyondLimit)
    }

    /// O(regions log regions) in all, and no more than some of them at a time under the lock.
    fn give_up_while(&self, excess: Excess) -> Result<(), D::Error> {
        // What becomes free meanwhile counts as well.
        while self.quietly(|ledger| ledger.exceeds(excess)) == Some(true) {
            let mut any = false;
            for some in self.least_used().chunks(RETIRED_AT_A_TIME) {
                let retired =
                    self.quietly(|ledger| ledger.retire(some, excess)).unwrap_or_default();
                if !retired.is_empty() {
                    any = true;
                    self.give_up(retired)?;
                }
            }
            if !any {
                break;
            }
        }
        Ok(())
    }

    /// The regions that are free and have memory, those first that are in use least.
    fn least_used(&self) -> Vec<usize> {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            from = self.quietly(|ledger| ledger.idle_from(next, &mut found)).flatten();
        }
        found.sort_unstable();
        found.into_iter().map(|(_, region)| region).collect()
    }

    /// Gives regions back to the device that have been taken out of use.
    fn give_up(&self, mut retired: Vec<Retired>) -> Result<(), D::Error> {
        let mut result = Ok(());
        for region in &mut retired {
            result = result.and(self.destroy(region));
        }
        self.ledger(|ledger| ledger.retired(&retired));
        result
    }

    /// Unmaps and destroys a region. What the device refuses to take stays where it is.
    fn destroy(&self, retired: &mut Retired) -> Result<(), D::Error> {
        let mapped = retired.mapped();
        let mut gone = 0;
        let unmapped = self.unmap(&mapped, &mut gone);
        self.quietly(|ledger| {
            mapped[..gone].iter().for_each(|&(place, region)| ledger.unmapped(place, region));
        });
        unmapped?;
        // Only a lease holds on to a region's memory beside the handles, and a free one has none.
        let memory = self.handles.lock().take_memory(retired.region);
        if let Some(memory) = memory.and_then(Arc::into_inner)
            && let Err(Refused { resource, error }) = self.device.destroy(memory)
        {
            self.handles.lock().put_memory(retired.region, Arc::new(resource));
            return Err(error);
        }
        retired.destroyed = true;
        Ok(())
    }

    /// Takes away the mappings and ranges of jobs that have left. What the device refuses stays for
    /// the next time.
    pub(crate) fn clear_up(&self) -> Result<(), D::Error> {
        let departed = self.quietly(Ledger::take_departed).unwrap_or_default();
        let (count, mut left, mut result) = (departed.len(), Vec::new(), Ok(()));
        for mut arena in departed {
            let cleared = self.empty(&mut arena).and_then(|()| self.release(arena.job, arena.zone));
            if !matches!(cleared, Ok(true)) {
                left.push(arena);
            }
            result = result.and(cleared.map(|_| ()));
        }
        self.ledger(|ledger| ledger.cleared(count, left));
        result.and(self.release_unused())
    }

    /// Releases the ranges of jobs that could not join.
    pub(crate) fn release_unused(&self) -> Result<(), D::Error> {
        let mut result = Ok(());
        let (unused, memory) = {
            let mut handles = self.handles.lock();
            (handles.take_unused(), handles.take_unused_memory())
        };
        for memory in memory {
            if let Err(Refused { resource, error }) = self.device.destroy(memory) {
                self.handles.lock().put_unused_memory(resource);
                result = result.and(Err(error));
            }
        }
        for range in unused {
            if let Err(Refused { resource, error }) = self.device.release(range) {
                self.handles.lock().put_unused([resource]);
                result = result.and(Err(error));
            }
        }
        result
    }

    /// Unmaps all pages of a departed arena.
    fn empty(&self, arena: &mut Departed) -> Result<(), D::Error> {
        let pages = arena.mapped();
        let Some(range) = self.handles.lock().range(arena.job, arena.zone) else { return Ok(()) };
        for run in pages.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            self.device.unmap(&range, self.offset(run[0].0), self.length(run.len()))?;
            for some in run.chunks(AT_A_TIME) {
                self.quietly(|ledger| ledger.clear(arena, some));
            }
        }
        Ok(())
    }

    /// Releases the range of a departed arena. Whether it has gone: another thread may be about to
    /// use it.
    pub(super) fn release(&self, job: JobKey, zone: Zone) -> Result<bool, D::Error> {
        let range = self.handles.lock().take_range(job, zone);
        let Some(range) = range else { return Ok(false) };
        if let Err(Refused { resource, error }) = self.device.release(range) {
            self.handles.lock().put_range(job, zone, resource);
            return Err(error);
        }
        // What is dropped is the device's: without the lock.
        let forgotten = self.handles.lock().forget(job);
        drop(forgotten);
        Ok(true)
    }
}
