//! The memory of regions.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::fstat;
use zico_core::Bytes;
use zico_core::broker::Store;
use zico_cuda::Physical;

/// The memory of regions on a device that can export it. It is mapped nowhere here.
pub struct DeviceStore<D: Physical> {
    device: D,
    region: Bytes,
    memories: BTreeMap<u32, D::Memory>,
    /// Those of the memories that clients have handed in.
    handed_in: BTreeSet<u32>,
}

impl<D: Physical> DeviceStore<D> {
    /// For regions of this size.
    #[must_use]
    pub const fn new(device: D, region: Bytes) -> Self {
        Self { device, region, memories: BTreeMap::new(), handed_in: BTreeSet::new() }
    }

    /// A descriptor of a region's memory, if it has some and the device exports it.
    pub(super) fn export(&self, region: u32) -> Option<OwnedFd> {
        self.device.export(self.memories.get(&region)?).ok()
    }
}

impl<D: Physical> DeviceStore<D> {
    /// Takes in the memory of a region that a client has from the broker before this one. Whether
    /// it is that region's: not if this broker has made other memory for it.
    pub(super) fn take_in(&mut self, region: u32, descriptor: BorrowedFd<'_>) -> bool {
        if self.memories.contains_key(&region) {
            return self.handed_in.contains(&region) && self.is_of(region, descriptor);
        }
        let Ok(memory) = self.device.import(descriptor, self.region) else { return false };
        self.memories.insert(region, memory);
        self.handed_in.insert(region);
        true
    }

    /// Whether a descriptor is of the memory of a region, as far as files tell: the memory of two
    /// GPU handles cannot be compared.
    fn is_of(&self, region: u32, descriptor: BorrowedFd<'_>) -> bool {
        let own = self.export(region).and_then(|own| fstat(own).ok());
        let other = fstat(descriptor).ok();
        own.zip(other)
            .is_some_and(|(own, other)| (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
    }
}

impl<D: Physical> Store for DeviceStore<D> {
    fn create(&mut self, region: u32) -> Result<(), Arc<str>> {
        let memory = self.device.create(self.region).map_err(|error| error.to_string())?;
        self.memories.insert(region, memory);
        Ok(())
    }

    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>> {
        let Some(memory) = self.memories.remove(&region) else { return Ok(()) };
        self.handed_in.remove(&region);
        self.device.destroy(memory).map_err(|refused| {
            self.memories.insert(region, refused.resource);
            refused.error.to_string().into()
        })
    }
}
