//! The rate that a job's progress is held to.

use crate::types::units::Ticks;

/// A rate of progress, as a token bucket: so many operations in so many ticks, and so many that may
/// be saved up.
///
/// An operation is what [`Progress`](crate::Progress) counts: an allocation or a free. See
/// [`Pool::set_pace`](crate::Pool::set_pace) for what is done with it.
///
/// ```
/// use zico_core::{Pace, Ticks};
///
/// // 4000 operations a second, of which no more than a tenth of a second's are saved up.
/// let pace = Pace::new(4000, Ticks::millis(1000)).burst(400);
/// assert_eq!((pace.operations(), pace.most_saved()), (4000, 400));
/// assert!(Pace::HALT.is_halt());
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    operations: u32,
    every: Ticks,
    burst: u32,
}

impl Pace {
    /// No progress at all, until the job is given another pace or none.
    pub const HALT: Self = Self { operations: 0, every: Ticks::new(1), burst: 0 };

    /// So many operations in so many ticks (nanoseconds); a time of none counts as one tick. No
    /// operations: [`HALT`](Self::HALT). As many as that may be saved up.
    #[must_use]
    pub const fn new(operations: u32, every: Ticks) -> Self {
        Self { operations, every, burst: operations }
    }

    /// The most operations that may be saved up while the job makes none. At least one.
    #[must_use]
    pub const fn burst(mut self, operations: u32) -> Self {
        self.burst = operations;
        self
    }

    /// So many operations ...
    #[must_use]
    pub const fn operations(self) -> u32 {
        self.operations
    }

    /// ... in so many ticks.
    #[must_use]
    pub const fn every(self) -> Ticks {
        self.every.at_least(Ticks::new(1))
    }

    /// The most operations that are saved up: none where there is no progress.
    #[must_use]
    pub const fn most_saved(self) -> u32 {
        match self.burst {
            _ if self.is_halt() => 0,
            0 => 1,
            burst => burst,
        }
    }

    /// Whether it is no progress at all.
    #[must_use]
    pub const fn is_halt(self) -> bool {
        self.operations == 0
    }
}
