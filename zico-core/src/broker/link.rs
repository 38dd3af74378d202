//! The way from a job's process to the broker.

use super::Pulse;
use super::message::{Reply, Request};
use crate::types::JobId;
use crate::types::device::Device;
use crate::types::error::BrokerError;
use crate::types::units::Bytes;

/// A client's way to its broker: carries requests there, in the order in which they are made.
///
/// A pool whose books are at a broker ([`Pool::connect`](crate::Pool::connect)) has one. Calls may
/// come from several threads at once.
pub trait Link<D: Device>: Send + Sync {
    /// Sends a request that [asks](Request::asks), and waits for the reply. `heard` is called with
    /// it before any later reply is heard by another thread, and before there is another
    /// connection: so what replies change here is changed in the order in which the broker has
    /// given them.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    fn ask_in_order(
        &self,
        job: Option<JobId>,
        request: Request,
        heard: &mut dyn FnMut(&Reply),
    ) -> Result<Reply, BrokerError>;

    /// The same where the order does not matter.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    fn ask(&self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError> {
        self.ask_in_order(job, request, &mut |_| {})
    }

    /// Takes a request that does not ask: it goes before any that is made later, and at the latest
    /// with the next [`flush`](Self::flush). Called under locks, so it makes no system call that
    /// others may come to wait for. One that cannot be sent any more is of no use to anybody: a
    /// broker that has lost a client takes back all it had.
    fn tell(&self, job: Option<JobId>, request: Request);

    /// Sends what has been told, without waiting. No lock is held that another thread needs.
    fn flush(&self);

    /// A handle of the memory of a region that a lease has just been granted of, and of which this
    /// process has none yet.
    ///
    /// # Errors
    /// If the broker cannot be reached, or the device refuses.
    fn memory(&self, region: u32) -> Result<D::Memory, Fetch<D::Error>>;

    /// The pulse of a job that has just joined, where the broker sees it. It is the job's until
    /// that has [departed](Request::Departed).
    fn pulse(&self, job: JobId) -> &'static Pulse;

    /// Makes a new connection in the place of one that is broken, and has `offer` tell the new
    /// broker what this process holds, before anybody else can ask it anything. Whether there is a
    /// connection. It may take as long as the link's owner thinks fit.
    ///
    /// A link that cannot says no.
    fn reconnect(
        &self,
        offer: &mut dyn FnMut(&mut dyn Offers<D>) -> Result<(), BrokerError>,
    ) -> bool {
        let _ = offer;
        false
    }

    /// The size of a region.
    fn region_size(&self) -> Bytes;

    /// The memory of the broker's device.
    fn capacity(&self) -> Bytes;
}

/// A new connection to a broker, which has yet to be told what this process holds.
pub trait Offers<D: Device> {
    /// Asks, as [`Link::ask`].
    ///
    /// # Errors
    /// If the broker cannot be reached.
    fn ask(&mut self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError>;

    /// Tells, as [`Link::tell`].
    fn tell(&mut self, job: Option<JobId>, request: Request);

    /// Hands in the memory of a region.
    ///
    /// # Errors
    /// If the broker cannot be reached, or does not take it.
    fn hand_in(&mut self, region: u32, memory: &D::Memory) -> Result<(), BrokerError>;
}

/// Why there is no handle of a region's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch<E> {
    /// The broker cannot be reached, or has none.
    Broker(BrokerError),
    /// The device refused to take it in.
    Device(E),
}
