//! By how much a job's claim is taken to be larger than its profile says: by as much as its recent
//! iterations have shown.
//!
//! An iteration that repeats needs hardly any margin; one that varies needs what it varies by. So
//! whenever a running iteration leases memory it is noted by how many regions it then holds more
//! than its profile had promised from there on. While lifetimes are being learned nothing is
//! promised, and what counts is by how much an iteration rises that is taken to be as those before
//! ([`steadiness`](super::steadiness)). The largest such figure of the last few iterations is the
//! margin.

use crate::learn::recent::Recent;
use crate::types::tuning::LEAST_MARGIN;

/// By how many regions each of the last iterations exceeded its promise.
#[derive(Debug, Default)]
pub(super) struct Margin(Recent);

impl Margin {
    /// An iteration has ended that held at most so many regions more than promised.
    pub(crate) fn note(&mut self, exceeded: u32) {
        self.0.note(exceeded);
    }

    /// The margin, in regions.
    pub(crate) fn regions(&self) -> u32 {
        self.0.most().max(LEAST_MARGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_that_repeats_exactly_needs_one_region() {
        let mut margin = Margin::default();
        assert_eq!(margin.regions(), 1);
        margin.note(5);
        margin.note(0);
        assert_eq!(margin.regions(), 5);
        (0..8).for_each(|_| margin.note(0));
        assert_eq!(margin.regions(), 1);
    }
}
