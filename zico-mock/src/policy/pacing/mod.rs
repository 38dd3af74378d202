//! Controllers that pace a job of low priority, so that one of high priority is not slowed.
//!
//! A *production* job is never to be slowed; an *opportunistic* one takes what is left. How much
//! that is nobody knows: a controller looks at the production job's own rate at the end of each
//! window, and says how fast the opportunistic job may go until the end of the next. Rates are in
//! [blocks](BLOCK) a second.
//!
//! [`Tgs`] is the published one, [`Estimating`] ours. Both are pure: rates in, limits out, and no
//! clock. Ours [looks](Controller::fills_gaps) only at the time in which production runs an
//! iteration: between iterations there is nothing that could be slowed.

mod estimating;
mod tgs;

pub use estimating::Estimating;
pub use tgs::Tgs;

use zico_core::Ticks;

/// TGS counts thread blocks that are launched. A recorded launch does not say how many it has: a
/// block stands for a microsecond of work of the device. Then a job that keeps the device busy
/// alone makes 50,000 in 50 ms, and TGS's first limit of 20,000 is two fifths of that.
pub const BLOCK: Ticks = Ticks::micros(1);

/// What has been seen in a window, in blocks a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// What the production job has made; none once it has left, or before it has come.
    pub production: Option<f64>,
    /// What the opportunistic job has made.
    pub own: f64,
}

/// How fast the opportunistic job may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// As fast as it can.
    Free,
    /// So many blocks a second.
    Rate(f64),
}

/// Says after each window how fast the opportunistic job may go in the next one.
pub trait Controller: Send {
    /// The name by which people know it.
    fn name(&self) -> &'static str;

    /// The length of a window.
    fn window(&self) -> Ticks;

    /// Whether a window has only the time in which a production job is at an iteration, and the
    /// opportunistic jobs fill what lies between.
    fn fills_gaps(&self) -> bool {
        false
    }

    /// What it may do in the first window, of which nothing is known.
    fn first(&self) -> Limit {
        Limit::Rate(0.0)
    }

    /// A window has ended.
    fn next(&mut self, seen: Seen) -> Limit;
}
