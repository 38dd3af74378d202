//! Carries out the work order of a lease.

use alloc::vec::Vec;

use super::Shared;
use super::books::refusal;
use super::remote::Refused;
use crate::broker::Fetch;
use crate::ledger::{Denied, Done, Mapped, Place, WorkOrder};
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::{AllocError, BrokerError};
use crate::types::sync::Arc;
use crate::types::units::Bytes;
use crate::types::want::Want;
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// Backs pages of an arena that has no room: one look at the ledger to have them granted, and
    /// one to settle what the device has done, if it had anything to do.
    ///
    /// If the regions cannot be had now, everything that has been given up is fenced, what the
    /// device has completed is freed, and they are asked for once more.
    pub(crate) fn lease(&self, job: JobKey, want: &Want) -> Result<(), AllocError<D::Error>> {
        self.reap(job).map_err(AllocError::Device)?;
        let mut order = match self.ask_for(job, want, false) {
            Ok(order) => order,
            Err(refused) => self.ask_again(job, want, refused).map_err(refusal)?,
        };
        while !order.is_empty() && !self.carry_out(job, want.zone, &order)? {
            // There is another broker since, which has to be asked.
            order = self.ask_for(job, want, true).map_err(refusal)?;
        }
        Ok(())
    }

    /// A lease that was refused: what the job has not asked for is given back, what has been given
    /// up is fenced, and what the device has completed is freed, if that may help.
    #[cold]
    fn ask_again(&self, job: JobKey, want: &Want, refused: Refused) -> Result<WorkOrder, Refused> {
        let Refused::Denied(denied) = &refused else { return Err(refused) };
        let has_given = self.remote().is_some_and(|remote| remote.give_ahead(job));
        if !has_given && !matches!(denied, Denied::Busy(_)) {
            return Err(refused);
        }
        // What the device refuses of others' business is theirs to hear of, or the next poll's.
        let _ = self.reclaim(Some(job));
        self.ask_for(job, want, true)
    }

    /// Sees to it that granted regions are mapped at their pages. Whether they are the job's.
    pub(super) fn carry_out(
        &self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
    ) -> Result<bool, AllocError<D::Error>> {
        let mut done = Done::default();
        let result = self
            .fetch(order)
            .and_then(|()| self.work(job, zone, order, &mut done).map_err(AllocError::Device));
        let is_known = self.settle(job, zone, order, &done);
        if is_known {
            return result.map(|()| true);
        }
        // What has gone wrong over a connection that is no more is tried again over the new one,
        // whose broker has been told how things stood before.
        self.undo(job, zone, order, &done).map_err(AllocError::Device)?;
        self.remote().into_iter().for_each(|remote| remote.decline(job));
        Ok(false)
    }

    /// Takes in the memory that a broker has created, and of which there is no handle here yet.
    fn fetch(&self, order: &WorkOrder) -> Result<(), AllocError<D::Error>> {
        let Some(remote) = self.remote() else { return Ok(()) };
        for &(_, region) in &order.map {
            if self.handles.lock().memory(region).is_some() {
                continue;
            }
            let connection = remote.connection();
            let memory = remote.memory(region).map_err(|error| match error {
                Fetch::Device(error) => AllocError::Device(error),
                Fetch::Broker(error) => AllocError::Broker(error),
            })?;
            // What the next broker has not been handed in is not that region's memory any more.
            let mut handles = self.handles.lock();
            if remote.connection() != connection {
                handles.put_unused_memory(memory);
                return Err(AllocError::Broker(BrokerError::Unreachable));
            }
            handles.put_memory(region, Arc::new(memory));
        }
        Ok(())
    }

    /// Puts mappings back as they were before a work order.
    fn undo(
        &self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        done: &Done,
    ) -> Result<(), D::Error> {
        let place = |&(page, region): &(u64, usize)| (Place { job, zone, page }, region);
        let mapped: Vec<Mapped> = order.map[..done.mapped].iter().map(place).collect();
        self.unmap(&mapped, &mut 0)?;
        for &(place, region) in &order.unmap[..done.unmapped] {
            let (range, memory) = {
                let handles = self.handles.lock();
                (handles.range(place.job, place.zone), handles.memory(region))
            };
            if let (Some(range), Some(memory)) = (range, memory) {
                self.device.map(&range, self.offset(place.page), &[&memory])?;
            }
        }
        Ok(())
    }

    /// The calls of a work order, in order. How far they have come is noted for each.
    pub(super) fn work(
        &self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        done: &mut Done,
    ) -> Result<(), D::Error> {
        self.unmap(&order.unmap, &mut done.unmapped)?;
        for &region in &order.create {
            let memory = Arc::new(self.device.create(self.region)?);
            self.handles.lock().put_memory(region, memory);
            done.created += 1;
        }
        let (range, memories) = {
            let handles = self.handles.lock();
            let memories = order.map.iter().filter_map(|&(_, region)| handles.memory(region));
            (handles.range(job, zone), memories.collect::<Vec<Arc<D::Memory>>>())
        };
        let Some(range) = range else { return Ok(()) };
        for run in order.map.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            let pieces = &memories[done.mapped..done.mapped + run.len()];
            let pieces: Vec<&D::Memory> = pieces.iter().map(|memory| &**memory).collect();
            self.device.map(&range, self.offset(run[0].0), &pieces)?;
            done.mapped += run.len();
        }
        Ok(())
    }

    /// Takes away mappings, which are in the order of their places, those side by side in one call.
    /// Counts those that have gone.
    pub(super) fn unmap(&self, mapped: &[Mapped], gone: &mut usize) -> Result<(), D::Error> {
        for run in mapped.chunk_by(|(one, _), (next, _)| one.is_beside(*next)) {
            let place = run[0].0;
            let range = self.handles.lock().range(place.job, place.zone);
            if let Some(range) = range {
                self.device.unmap(&range, self.offset(place.page), self.length(run.len()))?;
            }
            *gone += run.len();
        }
        Ok(())
    }

    pub(super) fn offset(&self, page: u64) -> Bytes {
        Bytes::new(page.saturating_mul(self.region.value()))
    }

    pub(super) fn length(&self, pages: usize) -> Bytes {
        self.offset(u64::try_from(pages).unwrap_or(u64::MAX))
    }
}
