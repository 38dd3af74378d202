//! The policies by name.

use zico_core::policy::{Aim, Policy, TickTock, TimeShift};

use super::pools::UNMANAGED;
use crate::policy::{AlwaysStart, Conservative, Exclusive, Lanes, ModelBased, Order, Spatial};

/// Which policy decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// zico's time shift.
    #[default]
    Zico,
    /// The same for throughput more than for fairness.
    ZicoThroughput,
    /// The same for fairness more than for throughput.
    ZicoFairness,
    /// What may still come has to fit at once.
    Conservative,
    /// Zico as published: sampled profiles, one by one.
    ModelBased,
    /// While all others are in their backward passes.
    TickTock,
    /// The peaks have to fit at once.
    Spatial,
    /// Salus's lanes, in the order of asking.
    SalusPack,
    /// Salus's lanes, least memory x time first.
    SalusFair,
    /// Salus's lanes, shortest remaining time first.
    SalusSrtf,
    /// A fixed share of the budget for each job: the [cap](zico_core::JobConfig::cap) among its terms,
    /// such as [`Needs::terms`](super::Needs::terms) gives.
    Static,
    /// One iteration at a time.
    Exclusive,
    /// No policy: each job has a pool of its own on the one device, as jobs with caching allocators of
    /// their own have. Each may take all that the device has, and keeps what it has taken; the budget
    /// limits what the device has in all. A job that finds it taken runs out of memory.
    Unmanaged,
}

impl PolicyKind {
    /// All of them, zico as it is unless told otherwise.
    pub const ALL: [Self; 11] = [
        Self::Zico,
        Self::Conservative,
        Self::ModelBased,
        Self::TickTock,
        Self::Spatial,
        Self::SalusPack,
        Self::SalusFair,
        Self::SalusSrtf,
        Self::Static,
        Self::Exclusive,
        Self::Unmanaged,
    ];

    /// zico's aims, from throughput to fairness.
    pub const AIMS: [Self; 3] = [Self::ZicoThroughput, Self::Zico, Self::ZicoFairness];

    /// The policy for jobs that are each to do so many iterations (for [`SalusSrtf`](Self::SalusSrtf)),
    /// if it is one: [`Unmanaged`](Self::Unmanaged) is none.
    #[must_use]
    pub fn policy(self, iterations: u64) -> Option<Box<dyn Policy>> {
        Some(match self {
            Self::Zico => Box::new(TimeShift::default()),
            Self::ZicoThroughput => Box::new(TimeShift::new(Aim::Throughput)),
            Self::ZicoFairness => Box::new(TimeShift::new(Aim::Fairness)),
            Self::Conservative => Box::new(Conservative),
            Self::ModelBased => Box::new(ModelBased),
            Self::TickTock => Box::new(TickTock),
            Self::Spatial => Box::new(Spatial),
            Self::SalusPack => Box::new(Lanes::new(Order::Pack)),
            Self::SalusFair => Box::new(Lanes::new(Order::Fair)),
            Self::SalusSrtf => Box::new(Lanes::new(Order::Srtf { iterations })),
            Self::Static => Box::new(AlwaysStart),
            Self::Exclusive => Box::new(Exclusive),
            Self::Unmanaged => return None,
        })
    }

    /// The name by which people choose it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.policy(0).map_or(UNMANAGED, |policy| policy.name())
    }

    /// Whether a job never gets memory that another one has not used: the budget then has to be the
    /// sum of the peaks.
    #[must_use]
    pub const fn needs_every_peak(self) -> bool {
        matches!(self, Self::Static | Self::Unmanaged)
    }
}
