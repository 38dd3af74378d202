//! When an iteration may start: the sharing decision and its alternatives.
//!
//! A [`Policy`] sees the running iterations, each at its own progress, and one candidate; it says
//! whether the candidate may start now. Whatever it says, the pool's own tests lie beneath: the
//! budget is never exceeded, and no lease is granted that could leave every job waiting.

mod exclusive;
mod time_shift;
mod unmanaged;

pub use exclusive::Exclusive;
pub use time_shift::TimeShift;
pub use unmanaged::Unmanaged;

use crate::profile::Profile;
use crate::units::{Regions, Ticks};

/// An iteration that runs now.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// What its iterations take; none before its first one has ended.
    pub profile: Option<&'a Profile>,
    /// How far it has come, in the time of its profile.
    pub position: Ticks,
}

/// What a policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The regions that iterations can have: the budget without what is held between iterations.
    pub room: Regions,
    /// The iterations that run now, in the order in which their jobs joined.
    pub running: &'a [Running<'a>],
    /// What the candidate's iterations take; none before its first one has ended.
    pub candidate: Option<&'a Profile>,
}

/// What a policy says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may start now.
    Start,
    /// It may start when the running iterations have come this much further, as far as their
    /// profiles tell.
    After(Ticks),
    /// It has to wait until a running iteration has ended.
    AfterAnEnd,
}

/// Decides when iterations start.
pub trait Policy: Send + Sync {
    /// The name by which people choose it.
    fn name(&self) -> &'static str;

    /// Whether the candidate may start now. With nothing running it must say so.
    fn decide(&self, view: &View<'_>) -> Verdict;

    /// Whether jobs hand memory over to each other. If not, a job keeps what it has leased until
    /// it leaves.
    fn hands_over(&self) -> bool {
        true
    }
}
