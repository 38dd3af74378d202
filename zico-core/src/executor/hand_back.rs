//! What a process gives back to its broker: the addresses of jobs that have left, and the memory of
//! regions that the broker wants to go.

use alloc::vec::Vec;

use super::remote::Remote;
use super::{Books, Shared};
use crate::broker::Notice;
use crate::ledger::Mapped;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::refused::Refused;
use crate::types::sync::Arc;
use crate::types::zone::Zone;

impl<D: Device> Shared<D> {
    /// What the broker says unasked.
    pub(crate) fn notice(&self, notice: Notice) {
        let Some(remote) = self.remote() else { return };
        match notice {
            Notice::Changed => self.changed(),
            Notice::Pressure(pressure) => {
                remote.set_pressure(pressure);
                if pressure {
                    for job in remote.jobs() {
                        remote.give_ahead(job);
                    }
                    // What could wait while nobody did.
                    remote.flush();
                    // What the device refuses now is tried again by the next poll.
                    let _ = self.reclaim(None);
                }
            }
            Notice::GiveWay(job, gives_way) => {
                remote.note_called(job.0, gives_way);
                self.changed();
            }
            Notice::Release(region) => {
                remote.note_release(region);
                let _ = self.release_regions(remote);
            }
        }
    }

    /// Connects to the broker that has come in the place of one that is gone, and tells it what
    /// this process holds. Whether there is a connection.
    pub(crate) fn reconnect(&self) -> bool {
        let Some(remote) = self.remote() else { return false };
        // What goes back is of the broker before.
        if !remote.begins_release() {
            return false;
        }
        let is_connected = remote.link.reconnect(&mut |offers| {
            remote.forget_former();
            let regions = self.handles.lock().imported();
            for region in regions {
                let memory = self.handles.lock().memory(region);
                if let (Some(memory), Ok(region)) = (memory, u32::try_from(region)) {
                    offers.hand_in(region, &memory)?;
                }
            }
            self.restart_pulses();
            remote.offer_jobs(offers)
        });
        remote.ends_release();
        if is_connected {
            // What drains is fenced anew, under a number that the new broker knows.
            let _ = self.reclaim(None);
        }
        self.changed();
        is_connected
    }

    /// A new broker counts a job's iterations from nothing.
    fn restart_pulses(&self) {
        let Some(remote) = self.remote() else { return };
        for job in remote.jobs() {
            let heap = self.handles.lock().heap(job);
            if let Some((_, heap)) = heap {
                heap.lock().restart_pulse(remote.is_running(job));
            }
        }
    }

    /// A job leaves whose books are at a broker.
    pub(super) fn leave_broker(&self, job: JobKey) {
        if self.remote().is_some_and(|remote| remote.leave(job)) {
            // A failure leaves the batch open, which the next poll fences.
            let _ = self.fence(job);
        }
    }

    /// Takes away the mappings and ranges of jobs that have left, as soon as the device has
    /// completed all they gave up; and the memory of regions that the broker wants to go. What the
    /// device refuses stays for the next time.
    pub(super) fn clear_up_left(&self, remote: &Remote<D>) -> Result<(), D::Error> {
        let mut result = self.release_unused();
        for job in remote.leaving() {
            if self.handles.lock().oldest_event(job).is_some() || !remote.clears_up(job) {
                continue;
            }
            let cleared = self.clear_up_job(remote, job);
            match cleared {
                Ok(true) => remote.departed(job),
                _ => remote.clear_up_later(job),
            }
            result = result.and(cleared.map(drop));
        }
        result.and(self.release_regions(remote))
    }

    /// Whether nothing is left of it.
    fn clear_up_job(&self, remote: &Remote<D>, job: JobKey) -> Result<bool, D::Error> {
        self.unmap_for_good(remote, &remote.mapped(job))?;
        let mut all = true;
        for zone in Zone::ALL {
            all &= !self.handles.lock().has_range(job, zone) || self.release(job, zone)?;
        }
        Ok(all)
    }

    fn unmap_for_good(&self, remote: &Remote<D>, mapped: &[Mapped]) -> Result<(), D::Error> {
        let mut gone = 0;
        let result = self.unmap(mapped, &mut gone);
        remote.unmapped(&mapped[..gone]);
        result
    }

    /// Gives up the memory of the regions that the broker wants to go. What the device refuses
    /// stays for the next time.
    fn release_regions(&self, remote: &Remote<D>) -> Result<(), D::Error> {
        if !remote.begins_release() {
            return Ok(());
        }
        let mut result = Ok(());
        for region in remote.take_releases() {
            let gone = self
                .unmap_for_good(remote, &remote.places_of(region))
                .and_then(|()| self.destroy_import(region as usize));
            match gone {
                Ok(()) => remote.released(region),
                Err(error) => {
                    remote.note_release(region);
                    result = result.and(Err(error));
                }
            }
        }
        remote.ends_release();
        result
    }

    fn destroy_import(&self, region: usize) -> Result<(), D::Error> {
        let memory = self.handles.lock().take_memory(region);
        if let Some(memory) = memory.and_then(Arc::into_inner)
            && let Err(Refused { resource, error }) = self.device.destroy(memory)
        {
            self.handles.lock().put_memory(region, Arc::new(resource));
            return Err(error);
        }
        Ok(())
    }

    /// The last handle of the pool goes: what is mapped nowhere is given back.
    pub(super) fn let_go(&mut self) {
        let regions = self.handles.get_mut().imported();
        let Books::Remote(remote) = &self.books else { return };
        let used = |&region: &usize| {
            u32::try_from(region).is_ok_and(|region| !remote.places_of(region).is_empty())
        };
        let unused: Vec<usize> = regions.into_iter().filter(|region| !used(region)).collect();
        for region in unused {
            if self.destroy_import(region).is_ok()
                && let Ok(region) = u32::try_from(region)
            {
                remote.released(region);
            }
        }
    }
}
