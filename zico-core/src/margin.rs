//! By how much a job's claim is taken to be larger than its profile says: by as much as its recent
//! iterations have shown.
//!
//! An iteration that repeats needs hardly any margin; one that varies needs what it varies by. So
//! whenever a running iteration leases memory it is noted by how many regions it then holds more than
//! its profile had promised from there on. The largest such figure of the last few iterations is the
//! margin.

/// So many iterations back.
const REMEMBERED: usize = 8;
/// Whatever the iterations have shown.
const LEAST: u32 = 1;

/// What the last iterations have shown.
#[derive(Debug, Default)]
pub(crate) struct Margin {
    /// By how many regions each of them exceeded its promise, in a ring.
    exceeded: [u32; REMEMBERED],
    next: usize,
}

impl Margin {
    /// An iteration has ended that held at most so many regions more than promised.
    pub(crate) fn note(&mut self, exceeded: u32) {
        self.exceeded[self.next] = exceeded;
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// The margin, in regions.
    pub(crate) fn regions(&self) -> u32 {
        self.exceeded.into_iter().fold(LEAST, u32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_iteration_has_shown_counts_for_eight_iterations() {
        let mut margin = Margin::default();
        assert_eq!(margin.regions(), 1);
        margin.note(5);
        for _ in 1..REMEMBERED {
            margin.note(3);
            assert_eq!(margin.regions(), 5);
        }
        margin.note(0);
        assert_eq!(margin.regions(), 3);
        (0..REMEMBERED).for_each(|_| margin.note(0));
        assert_eq!(margin.regions(), 1, "it repeats exactly");
    }
}
