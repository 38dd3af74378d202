//! The way to the broker, as a pool needs it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use zico_core::broker::{Fetch, Link, Pulse, Reply, Request};
use zico_core::{BrokerError, Bytes, JobId};
use zico_cuda::Share;

use super::pages::OwnPage;
use super::wire::Wire;
use crate::page::SLOTS;
use crate::wire::{Down, Up, Welcome};

pub(super) struct NodeLink<D> {
    wire: Arc<Wire>,
    page: OwnPage,
    welcome: Welcome,
    device: D,
    /// Who has which place of the page.
    slots: Mutex<BTreeMap<usize, JobId>>,
}

impl<D: Share> NodeLink<D> {
    pub(super) fn new(wire: Arc<Wire>, page: OwnPage, welcome: Welcome, device: D) -> Self {
        Self { wire, page, welcome, device, slots: Mutex::default() }
    }
}

/// The pulse of a job for which there is no place: the broker lets in no more jobs than there are places,
/// so none has it.
static NOBODYS: Pulse = Pulse::new();

impl<D: Share> Link<D> for NodeLink<D> {
    fn ask(&self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError> {
        match self.wire.ask(&Up::Request(job, request))? {
            Down::Reply(reply) => Ok(reply),
            _ => Err(BrokerError::Confused),
        }
    }

    fn tell(&self, job: Option<JobId>, request: Request) {
        if let (Some(job), Request::Departed) = (job, &request) {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|_, other| *other != job);
        }
        self.wire.tell(&Up::Request(job, request));
    }

    fn memory(&self, region: u32) -> Result<D::Memory, Fetch<D::Error>> {
        let broker = |error| Fetch::Broker(error);
        let (down, descriptors) = self.wire.ask_with(&Up::Fetch(region), &[]).map_err(broker)?;
        let descriptor = descriptors.into_iter().next();
        match (down, descriptor) {
            (Down::Memory(true), Some(descriptor)) => {
                use std::os::fd::AsFd;
                let len = self.welcome.region;
                self.device.import(descriptor.as_fd(), len).map_err(Fetch::Device)
            }
            _ => Err(Fetch::Broker(BrokerError::Confused)),
        }
    }

    fn pulse(&self, job: JobId) -> &'static Pulse {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (0..SLOTS).find(|slot| !slots.contains_key(slot));
        let place = free.and_then(|slot| Some((slot, self.page.pulse(slot)?)));
        let Some((slot, pulse)) = place else { return &NOBODYS };
        slots.insert(slot, job);
        // There are fewer places than that.
        self.wire.tell(&Up::Slot(job, u8::try_from(slot).unwrap_or(u8::MAX)));
        pulse
    }

    fn region_size(&self) -> Bytes {
        self.welcome.region
    }

    fn capacity(&self) -> Bytes {
        self.welcome.capacity
    }
}
