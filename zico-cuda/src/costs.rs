//! Measurement of the time that calls of the driver take.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use zico_core::Ticks;

/// The time taken by the calls of one function of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCost {
    /// The function.
    pub function: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// The time of all calls together.
    pub total: Ticks,
    /// The time of the longest.
    pub longest: Ticks,
}

impl CallCost {
    /// The time of a call, on average.
    #[must_use]
    pub fn mean(&self) -> Ticks {
        Ticks::new(self.total.value().checked_div(self.calls).unwrap_or(0))
    }
}

static MEASURED: AtomicBool = AtomicBool::new(false);

/// Turns the measurement of all driver calls by this crate on or off, for the whole process. It is
/// off at first, and takes some ten nanoseconds a call when on.
pub fn measure_calls(on: bool) {
    MEASURED.store(on, Ordering::Relaxed);
}

#[derive(Default)]
pub(crate) struct Cost {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
}

/// The start time of a call, if calls are measured.
#[inline]
pub(crate) fn start() -> Option<Instant> {
    MEASURED.load(Ordering::Relaxed).then(Instant::now)
}

impl Cost {
    #[inline]
    pub(crate) fn add(&self, started: Option<Instant>) {
        if let Some(started) = started {
            let time = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.nanoseconds.fetch_add(time, Ordering::Relaxed);
            self.longest.fetch_max(time, Ordering::Relaxed);
        }
    }

    pub(crate) fn take(&self, function: &'static str) -> CallCost {
        let take = |number: &AtomicU64| number.swap(0, Ordering::Relaxed);
        CallCost {
            function,
            calls: take(&self.calls),
            total: Ticks::new(take(&self.nanoseconds)),
            longest: Ticks::new(take(&self.longest)),
        }
    }
}
