//! The memory of regions.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use zico_core::Bytes;
use zico_core::broker::Store;
use zico_cuda::Share;

/// The memory of regions on a device that can export it. It is mapped nowhere here.
pub struct DeviceStore<D: Share> {
    device: D,
    region: Bytes,
    memories: BTreeMap<u32, D::Memory>,
}

impl<D: Share> DeviceStore<D> {
    /// For regions of this size.
    #[must_use]
    pub const fn new(device: D, region: Bytes) -> Self {
        Self { device, region, memories: BTreeMap::new() }
    }

    /// A descriptor of a region's memory, if it has some and the device exports it.
    pub(super) fn export(&self, region: u32) -> Option<OwnedFd> {
        self.device.export(self.memories.get(&region)?).ok()
    }
}

impl<D: Share> Store for DeviceStore<D> {
    fn create(&mut self, region: u32) -> Result<(), Arc<str>> {
        let memory = self.device.create(self.region).map_err(|error| error.to_string())?;
        self.memories.insert(region, memory);
        Ok(())
    }

    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>> {
        let Some(memory) = self.memories.remove(&region) else { return Ok(()) };
        self.device.destroy(memory).map_err(|refused| {
            self.memories.insert(region, refused.resource);
            refused.error.to_string().into()
        })
    }
}
