//! One memory budget for several processes: zico's broker and its client.
//!
//! A [`Server`] has the books of one pool ([`Broker`](zico_core::broker::Broker)) and a descriptor
//! of each region's memory. It makes no context on a device and maps nothing. A job's process
//! [connects](Client::connect) and gets a [`Pool`](zico_core::Pool) whose jobs are like those of a
//! pool in one process: the same calls, the same errors. Its own device maps what is leased.
//!
//! | module | what it does |
//! |---|---|
//! | [`host`] | host memory as a device |
//! | [`wire`] | what is said, as bytes |
//! | `socket` | packets and descriptors over a Unix socket |
//! | `page` | the page that a client and the broker share: its jobs' progress |
//! | `peer` | who is at the other end, and when that process has ended |
//! | `server` | the loop over all clients |
//! | `client` | a job's process |
//!
//! Who may connect, what a client can do to others and what it cannot is said in the book, in the
//! chapter on safety.

pub mod host;
pub mod wire;

mod client;
mod page;
mod peer;
mod server;
mod socket;

pub use client::{Client, ConnectError, Observer};
pub use server::{
    DeviceLock, DeviceStore, Server, ServerConfig, ServerError, Teardown, Use, end_unused,
};
