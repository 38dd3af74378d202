//! Gives memory of the host back when the device has passed the copies that use it.

use alloc::vec::Vec;

use super::Shared;
use super::handles::{HostCopy, UsedHost};
use crate::types::JobKey;
use crate::types::device::{Device, Host, Passed};
use crate::types::host::HostMemory;
use crate::types::refused::Refused;
use crate::types::units::Bytes;

impl<D: Device> Shared<D> {
    /// These copies are needed no more once the device has passed what is enqueued on the stream.
    pub(super) fn host_is_used(&self, stream: D::Stream, copies: Vec<HostCopy>) {
        let memories: Vec<_> = copies.into_iter().filter_map(|copy| copy.memory).collect();
        if memories.is_empty() {
            return;
        }
        // What cannot be recorded now is tried again.
        let event = self.device.record(stream).ok();
        self.handles.lock().put_used_host([UsedHost { memories, stream, event }]);
    }

    /// What a job that leaves has on the host is of no use any more.
    pub(super) fn drop_copies(&self, job: JobKey) {
        let (copies, streams) = {
            let mut handles = self.handles.lock();
            (handles.take_copies(job), handles.streams(job))
        };
        if let Some((stream, _)) = streams {
            self.host_is_used(stream, copies);
        }
    }

    /// Frees what the device has passed. What the host refuses to take is tried again.
    pub(super) fn free_used_host(&self) -> Result<(), D::Error> {
        let used = self.handles.lock().take_used_host();
        let (mut left, mut result) = (Vec::new(), Ok(()));
        for mut some in used {
            match self.is_passed(&mut some) {
                Ok(true) => result = result.and(self.free_host(&mut some)),
                Ok(false) => {}
                Err(error) => result = result.and(Err(error)),
            }
            left.extend(Some(some).filter(|some| !some.memories.is_empty()));
        }
        self.handles.lock().put_used_host(left);
        result
    }

    fn is_passed(&self, used: &mut UsedHost<D>) -> Result<bool, D::Error> {
        let event = match used.event.take() {
            Some(event) => event,
            None => self.device.record(used.stream)?,
        };
        let passed = self.device.query(&event);
        used.event = Some(event);
        Ok(passed? == Passed::Yes)
    }

    /// Memory of the host for a copy: what is spare, if there is some of that length.
    pub(super) fn host_memory(
        &self,
        tier: Host<'_, D>,
        len: Bytes,
    ) -> Result<HostMemory, D::Error> {
        let spare = self.handles.lock().take_spare_host(len);
        spare.map_or_else(|| tier.allocate(len), Ok)
    }

    /// Gives host memory back, or keeps it as spare, as far as that is wanted.
    fn free_host(&self, used: &mut UsedHost<D>) -> Result<(), D::Error> {
        let Some(tier) = self.device.host() else { return Ok(()) };
        while let Some(memory) = used.memories.pop() {
            let Some(memory) = self.handles.lock().put_spare_host(memory, self.host_spare) else {
                continue;
            };
            if let Err(Refused { resource, error }) = tier.free(memory) {
                used.memories.push(resource);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives all host memory back that is spare.
    pub(super) fn free_spare_host(&self) -> Result<(), D::Error> {
        let Some(tier) = self.device.host() else { return Ok(()) };
        while let Some(memory) = { self.handles.lock().pop_spare_host() } {
            if let Err(Refused { resource, error }) = tier.free(memory) {
                self.handles.lock().put_spare_host(resource, Bytes::MAX);
                return Err(error);
            }
        }
        Ok(())
    }
}
