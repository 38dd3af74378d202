//! The memory of regions: a descriptor of each.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use zico_core::Bytes;
use zico_core::broker::Store;
use zico_cuda::Physical;

/// The memory of regions on a device that can export it. It is mapped nowhere here.
pub struct DeviceStore<D: Physical> {
    device: D,
    region: Bytes,
    pieces: BTreeMap<u32, Piece<D>>,
}

struct Piece<D: Physical> {
    memory: D::Memory,
    descriptor: OwnedFd,
}

impl<D: Physical> DeviceStore<D> {
    /// For regions of this size.
    #[must_use]
    pub const fn new(device: D, region: Bytes) -> Self {
        Self { device, region, pieces: BTreeMap::new() }
    }

    /// The descriptor of a region's memory, if it has some.
    pub(super) fn descriptor(&self, region: u32) -> Option<BorrowedFd<'_>> {
        self.pieces.get(&region).map(|piece| piece.descriptor.as_fd())
    }
}

impl<D: Physical> Store for DeviceStore<D> {
    fn create(&mut self, region: u32) -> Result<(), Arc<str>> {
        let memory = self.device.create(self.region).map_err(|error| error.to_string())?;
        match self.device.export(&memory) {
            Ok(descriptor) => {
                self.pieces.insert(region, Piece { memory, descriptor });
                Ok(())
            }
            Err(error) => {
                // What the device does not take back either is lost until this process ends.
                let _ = self.device.destroy(memory);
                Err(error.to_string().into())
            }
        }
    }

    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>> {
        let Some(Piece { memory, descriptor }) = self.pieces.remove(&region) else { return Ok(()) };
        self.device.destroy(memory).map_err(|refused| {
            self.pieces.insert(region, Piece { memory: refused.resource, descriptor });
            refused.error.to_string().into()
        })
    }
}
