//! How much of a line is covered by intervals that come and go.

use alloc::vec::Vec;

use super::work::digits;

/// A line that is cut into runs, which intervals cover as a whole or not at all.
///
/// A binary tree over the runs: a node counts the intervals that cover all of it and not all of its
/// parent, so that one that comes or goes touches O(log n) nodes, however many runs it covers.
#[derive(Debug)]
pub struct Cover {
    runs: Runs,
    count: Vec<u32>,
    width: Vec<u64>,
    covered: Vec<u64>,
}

/// The runs between bounds.
#[derive(Debug)]
pub struct Runs {
    bounds: Vec<u64>,
}

impl Runs {
    /// The runs between the ends of these half-open intervals. O(n log n).
    pub fn new(intervals: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut bounds: Vec<u64> = intervals.flat_map(<[u64; 2]>::from).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self { bounds }
    }

    /// The runs that an interval covers, which has to be one of those given: the first, and the one
    /// behind the last. O(log n).
    #[must_use]
    pub fn of(&self, (start, end): (u64, u64)) -> (usize, usize) {
        let run = |at: u64| self.bounds.partition_point(|&bound| bound < at);
        (run(start), run(end))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of one, in the unit of the bounds.
    ///
    /// # Panics
    /// There is no such run.
    #[must_use]
    pub fn width(&self, run: usize) -> u64 {
        self.bounds[run + 1] - self.bounds[run]
    }
}

impl Cover {
    /// A line of which nothing is covered. O(n).
    #[must_use]
    pub fn new(runs: Runs) -> Self {
        let leaves = runs.len().max(1).next_power_of_two();
        let mut width = alloc::vec![0; 2 * leaves];
        for run in 0..runs.len() {
            width[leaves + run] = runs.width(run);
        }
        for node in (1..leaves).rev() {
            width[node] = width[2 * node] + width[2 * node + 1];
        }
        let (count, covered) = (alloc::vec![0; 2 * leaves], alloc::vec![0; 2 * leaves]);
        Self { runs, count, width, covered }
    }

    /// The nodes that are touched, at most, when an interval comes or goes: the steps to count for
    /// it.
    #[must_use]
    pub fn steps(&self) -> u64 {
        4 * digits(self.runs.len())
    }

    /// The length that is covered, in the unit of the bounds. O(1).
    #[must_use]
    pub fn covered(&self) -> u64 {
        self.covered[1]
    }

    /// The runs of the line.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// An interval comes, as [`Runs::of`] gives it. O(log n).
    ///
    /// # Panics
    /// It is not one of the line.
    pub fn add(&mut self, runs: (usize, usize)) {
        self.change(runs, |count| *count += 1);
    }

    /// An interval goes that has come. O(log n).
    ///
    /// # Panics
    /// It is not one of the line.
    pub fn remove(&mut self, runs: (usize, usize)) {
        self.change(runs, |count| *count -= 1);
    }

    fn change(&mut self, (first, end): (usize, usize), by: impl Fn(&mut u32)) {
        if first >= end {
            return;
        }
        let leaves = self.count.len() / 2;
        let (mut low, mut high) = (first + leaves, end + leaves);
        while low < high {
            if low & 1 == 1 {
                by(&mut self.count[low]);
                self.renew(low);
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                by(&mut self.count[high]);
                self.renew(high);
            }
            (low, high) = (low / 2, high / 2);
        }
        for leaf in [first + leaves, end - 1 + leaves] {
            let mut node = leaf / 2;
            while node > 0 {
                self.renew(node);
                node /= 2;
            }
        }
    }

    fn renew(&mut self, node: usize) {
        self.covered[node] = if self.count[node] > 0 {
            self.width[node]
        } else if 2 * node < self.count.len() {
            self.covered[2 * node] + self.covered[2 * node + 1]
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_is_what_some_interval_covers() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let interval = |random: &mut fastrand::Rng| {
                let start = random.u64(0..40);
                (start, start + random.u64(0..20))
            };
            let all: Vec<(u64, u64)> =
                (0..random.usize(1..12)).map(|_| interval(&mut random)).collect();
            let mut cover = Cover::new(Runs::new(all.iter().copied()));
            let mut there: Vec<(u64, u64)> = Vec::new();
            for _ in 0..40 {
                if there.is_empty() || random.bool() {
                    there.push(all[random.usize(0..all.len())]);
                    cover.add(cover.runs().of(there[there.len() - 1]));
                } else {
                    let gone = there.swap_remove(random.usize(0..there.len()));
                    cover.remove(cover.runs().of(gone));
                }
                let is_covered = |at: &u64| there.iter().any(|&(s, e)| s <= *at && *at < e);
                assert_eq!(cover.covered(), (0..60).filter(is_covered).count() as u64);
            }
        }
    }
}
