//! Policies to compare with: the baselines of the literature, and what is common practice.
//!
//! zico itself decides by [`TimeShift`](zico_core::policy::TimeShift). These are what its figures
//! are held against in [replays](crate::replay); any of them can be given to a pool as well
//! ([`PoolConfig::policy`](zico_core::PoolConfig::policy)).
//!
//! | policy | starts an iteration | from |
//! |---|---|---|
//! | [`Conservative`] | if all that may still come fits at once | after Salus's safety condition |
//! | [`ModelBased`] | if the sampled profiles fit up to the end of the other's iteration | Zico |
//! | [`TickTock`] (in the core) | while all others are in their backward pass | Zico's artifact |
//! | [`Spatial`] | if the peaks fit at once | Zico's artifact |
//! | [`Lanes`] | if its lane is free | Salus |
//! | [`AlwaysStart`] | always; with [caps] a static partition | MPS, MIG |
//! | [`Exclusive`] | one at a time | both papers' baseline |
//!
//! [caps]: zico_core::JobConfig::cap
//! [`TickTock`]: zico_core::policy::TickTock
//!
//! [`antman`] and [`pacing`] are no policies of starts: they scale how much memory a job has on the
//! device, and how much of the time.
//!
//! Zico is Lim et al., *Zico: Efficient GPU Memory Sharing for Concurrent DNN Training*, USENIX ATC
//! 2021; Salus is Yu and Chowdhury, *Fine-Grained GPU Sharing Primitives for Deep Learning
//! Applications*, MLSys 2020. What goes on with no manager at all is no policy: each job then has a
//! pool of its own on one device ([`PolicyKind::Unmanaged`](crate::replay::PolicyKind::Unmanaged)).

mod always;
pub mod antman;
mod conservative;
mod exclusive;
mod lanes;
mod model_based;
pub mod pacing;
mod spatial;

#[cfg(test)]
mod testing;

pub use always::AlwaysStart;
pub use conservative::Conservative;
pub use exclusive::Exclusive;
pub use lanes::{Lanes, Order};
pub use model_based::ModelBased;
pub use spatial::Spatial;
