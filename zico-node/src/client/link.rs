//! The way to the broker, as a pool needs it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use zico_core::broker::{Fetch, Link, Offers, Pulse, Reply, Request};
use zico_core::{BrokerError, Bytes, JobId};
use zico_cuda::Share;

use super::connections::Connections;
use super::links;
use super::pages::OwnPage;
use super::wire::{NewLine, Wire};
use crate::page::SLOTS;
use crate::wire::{Down, Up, VERSION, Welcome};

pub(super) struct NodeLink<D> {
    wire: Arc<Wire>,
    socket: PathBuf,
    /// Those who ask while there is no broker wait for a new connection: how many there were.
    connections: Arc<Connections>,
    page: OwnPage,
    welcome: Welcome,
    device: D,
    /// Who has which place of the page.
    slots: Mutex<BTreeMap<usize, JobId>>,
}

impl<D: Share> NodeLink<D> {
    pub(super) fn new(
        wire: Arc<Wire>,
        socket: PathBuf,
        connections: Arc<Connections>,
        page: OwnPage,
        welcome: Welcome,
        device: D,
    ) -> Self {
        links::add(&socket);
        Self { wire, socket, connections, page, welcome, device, slots: Mutex::default() }
    }

    /// Asks, and asks again once another broker is there, if the one that is asked has gone.
    fn ask_with(
        &self,
        up: &Up,
        heard: &mut dyn FnMut(&Down),
    ) -> Result<(Down, Vec<OwnedFd>), BrokerError> {
        loop {
            let seen = self.connections.count();
            match self.wire.ask_with(up, &[], heard) {
                Err(BrokerError::Unreachable) if self.connections.wait_beyond(seen) => {}
                answer => return answer,
            }
        }
    }

    /// One try to connect to another broker, and to tell it what is here.
    fn connect_anew(
        &self,
        offer: &mut dyn FnMut(&mut dyn Offers<D>) -> Result<(), BrokerError>,
    ) -> Result<bool, BrokerError> {
        let unreachable = |_| BrokerError::Unreachable;
        let Some(mut line) = self.wire.reconnect(&self.socket).map_err(unreachable)? else {
            return Ok(true);
        };
        let told = self.tell_all(&mut line, offer);
        match told {
            Ok(notices) => {
                line.open();
                self.connections.has_new(notices);
                Ok(true)
            }
            Err(error) => {
                line.give_up();
                Err(error)
            }
        }
    }

    fn tell_all(
        &self,
        line: &mut NewLine<'_>,
        offer: &mut dyn FnMut(&mut dyn Offers<D>) -> Result<(), BrokerError>,
    ) -> Result<OwnedFd, BrokerError> {
        let unreachable = |_| BrokerError::Unreachable;
        let (notices, far) = crate::socket::pair().map_err(unreachable)?;
        let hello = Up::Hello { version: VERSION, only_looks: false, resumes: true };
        match line.ask(&hello, &[self.page.descriptor(), far.as_fd()])? {
            Down::Welcome(welcome) if welcome.is_like(&self.welcome) => {}
            _ => return Err(BrokerError::Confused),
        }
        offer(&mut Offering { line, device: &self.device, last: None })?;
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        for (&slot, &job) in slots.iter() {
            line.tell(&Up::Slot(job, u8::try_from(slot).unwrap_or(u8::MAX)));
        }
        line.tell(&Up::Recovered(links::of(&self.socket)));
        Ok(notices)
    }
}

impl<D> Drop for NodeLink<D> {
    fn drop(&mut self) {
        links::remove(&self.socket);
    }
}

/// A new connection, which only the thread that has made it uses yet.
struct Offering<'a, 'w, D> {
    line: &'a mut NewLine<'w>,
    device: &'a D,
    /// Of the memory handed in last: a GPU's driver exports in a fifteenth of the time while another
    /// descriptor is open.
    last: Option<OwnedFd>,
}

impl<D: Share> Offers<D> for Offering<'_, '_, D> {
    fn ask(&mut self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError> {
        match self.line.ask(&Up::Request(job, request), &[])? {
            Down::Reply(reply) => Ok(reply),
            _ => Err(BrokerError::Confused),
        }
    }

    fn tell(&mut self, job: Option<JobId>, request: Request) {
        self.line.tell(&Up::Request(job, request));
    }

    fn hand_in(&mut self, region: u32, memory: &D::Memory) -> Result<(), BrokerError> {
        let descriptor = self.device.export(memory).map_err(|_| BrokerError::Confused)?;
        match self.line.ask(&Up::HandIn(region), &[descriptor.as_fd()])? {
            Down::Memory(true) => {
                self.last = Some(descriptor);
                Ok(())
            }
            _ => Err(BrokerError::Confused),
        }
    }
}

/// The pulse of a job for which there is no place: the broker lets in no more jobs than there are
/// places, so none has it.
static NOBODYS: LazyLock<Pulse> = LazyLock::new(Pulse::new);

impl<D: Share> Link<D> for NodeLink<D> {
    fn ask_in_order(
        &self,
        job: Option<JobId>,
        request: Request,
        heard: &mut dyn FnMut(&Reply),
    ) -> Result<Reply, BrokerError> {
        let mut heard = |down: &Down| {
            if let Down::Reply(reply) = down {
                heard(reply);
            }
        };
        match self.ask_with(&Up::Request(job, request), &mut heard)?.0 {
            Down::Reply(reply) => Ok(reply),
            _ => Err(BrokerError::Confused),
        }
    }

    fn reconnect(
        &self,
        offer: &mut dyn FnMut(&mut dyn Offers<D>) -> Result<(), BrokerError>,
    ) -> bool {
        self.connect_anew(offer).unwrap_or(false)
    }

    fn tell(&self, job: Option<JobId>, request: Request) {
        if let (Some(job), Request::Departed) = (job, &request) {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|_, other| *other != job);
        }
        self.wire.tell(&Up::Request(job, request));
    }

    fn flush(&self) {
        self.wire.flush();
    }

    fn memory(&self, region: u32) -> Result<D::Memory, Fetch<D::Error>> {
        let broker = |error| Fetch::Broker(error);
        let (down, descriptors) = self.ask_with(&Up::Fetch(region), &mut |_| {}).map_err(broker)?;
        let descriptor = descriptors.into_iter().next();
        match (down, descriptor) {
            (Down::Memory(true), Some(descriptor)) => {
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
        let Some((slot, pulse)) = place else { return LazyLock::force(&NOBODYS) };
        slots.insert(slot, job);
        // There are fewer places than that.
        self.wire.tell(&Up::Slot(job, u8::try_from(slot).unwrap_or(u8::MAX)));
        self.wire.flush();
        pulse
    }

    fn region_size(&self) -> Bytes {
        self.welcome.region
    }

    fn capacity(&self) -> Bytes {
        self.welcome.capacity
    }
}
