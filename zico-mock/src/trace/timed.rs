//! Jobs whose recorded times mean nothing.

use std::num::NonZeroU64;

use zico_core::Ticks;

use super::{Iteration, Step, Trace, TraceError};

const NANOSECONDS: u128 = 1_000_000_000;

impl Trace {
    /// The same job with times by a rule instead of the recorded ones: when a block has been
    /// allocated, the device works for as long as it takes to write the block once at
    /// `bytes_per_second`, and at no other time. For recordings of a runtime that computes nothing,
    /// or of a host that others kept busy: sizes and order are right there, and times are not.
    ///
    /// What the recorded launches read and write is left out, as the launches are others.
    ///
    /// # Errors
    /// If that makes no trace: the time of all blocks cannot be summed up.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    /// use zico_mock::bundled;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let recorded = bundled::open("unet")?;
    /// let [one, two] = [NonZeroU64::new(1 << 40), NonZeroU64::new(2 << 40)]
    ///     .map(|rate| recorded.timed_by_bytes(rate.ok_or("no rate")?).map_err(|e| e.to_string()));
    /// let work = |trace: &zico_mock::trace::Trace| trace.stats().iterations[2].work.value();
    /// let (one, two) = (work(&one?), work(&two?));
    /// assert!(one.abs_diff(2 * two) < one / 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn timed_by_bytes(&self, bytes_per_second: NonZeroU64) -> Result<Self, TraceError> {
        let rate = u128::from(bytes_per_second.get());
        let iterations = self.iterations.iter().map(|iteration| {
            let mut steps = Vec::with_capacity(iteration.steps().len());
            let mut total = Ticks::ZERO;
            for &step in iteration.steps() {
                if !matches!(step, Step::Launch { .. }) {
                    steps.push(step);
                }
                if let Step::Alloc { bytes, .. } = step {
                    let time = u128::from(bytes.value()).saturating_mul(NANOSECONDS) / rate;
                    let work = Ticks::new(u64::try_from(time).unwrap_or(u64::MAX));
                    total = total.saturating_add(work);
                    // A launch of no time would say nothing.
                    if work > Ticks::ZERO {
                        steps.push(Step::Launch { work });
                    }
                }
            }
            Iteration::new(steps, total)
        });
        let iterations = iterations.collect();
        Self::new(self.name.clone(), self.provenance.clone(), self.setup.clone(), iterations)
    }
}
