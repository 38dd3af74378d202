//! The way from a job's process to the broker.

use super::Pulse;
use super::message::{Reply, Request};
use crate::types::JobId;
use crate::types::device::Device;
use crate::types::error::BrokerError;
use crate::types::units::Bytes;

/// A client's way to its broker: carries requests there, in the order in which they are made.
///
/// A pool whose books are at a broker ([`Pool::connect`](crate::Pool::connect)) has one. Calls may come from
/// several threads at once.
pub trait Link<D: Device>: Send + Sync {
    /// Sends a request that [asks](Request::asks), and waits for the reply.
    ///
    /// # Errors
    /// If the broker cannot be reached.
    fn ask(&self, job: Option<JobId>, request: Request) -> Result<Reply, BrokerError>;

    /// Sends a request that does not ask. One that cannot be sent any more is of no use to anybody: a broker
    /// that has lost a client takes back all it had.
    fn tell(&self, job: Option<JobId>, request: Request);

    /// A handle of the memory of a region that a lease has just been granted of, and of which this
    /// process has none yet.
    ///
    /// # Errors
    /// If the broker cannot be reached, or the device refuses.
    fn memory(&self, region: u32) -> Result<D::Memory, Fetch<D::Error>>;

    /// The pulse of a job that has just joined, where the broker sees it. It is the job's until that has
    /// [departed](Request::Departed).
    fn pulse(&self, job: JobId) -> &'static Pulse;

    /// The size of a region.
    fn region_size(&self) -> Bytes;

    /// The memory of the broker's device.
    fn capacity(&self) -> Bytes;
}

/// Why there is no handle of a region's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch<E> {
    /// The broker cannot be reached, or has none.
    Broker(BrokerError),
    /// The device refused to take it in.
    Device(E),
}
