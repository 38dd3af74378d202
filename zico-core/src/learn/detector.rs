//! Finds the iterations of a job that does not mark them, in the order of its allocations.
//!
//! An iteration repeats, and with it the sizes of its allocations. A *period* is a number of
//! allocations after which they come again (SmartPool, arXiv 1903.06631, section 4.1: the smallest
//! adjacent segment of more than about 100 operations that is repeated). It is found as it comes
//! about, in O(1) for each allocation and bounded memory:
//!
//! 1. The last [`HASH_WINDOW`] sizes have a rolling hash (Karp and Rabin). Where the same hash
//!    stood before tells a candidate: the distance, or the smallest multiple of it that is long
//!    enough.
//! 2. Each further allocation has to have the size of the one a period ago. A candidate that has
//!    held for a whole period is believed if as much is live as was then: layers of a network
//!    repeat as well, but each keeps something. If the period's half or third and so on holds as
//!    long, that is the period.
//! 3. Iterations begin where the least is live.
//!
//! A period that ends was part of something larger, as the optimizer's loop over alike layers is:
//! what is looked for from then on is longer than the stretch that it held for, if that is not too
//! long for a loop within an iteration. Where the job itself has changed, that is a multiple of the
//! new period, and step 2 takes it apart. If nothing longer has been found for as long as it held,
//! or it ends for the second time, it was an iteration after all, with others in between, as those
//! are that validate.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::learn::signature::mixed;
use crate::types::report::Detected;
use crate::types::tuning::{
    HASH_PLACES, HASH_WINDOW, LONGEST_LOOP, LONGEST_PERIOD, OVERDUE, REMEMBERED_ALLOCATIONS,
    SAME_LIVE_PART, SHORTEST_PERIOD, TROUGH_PART,
};
use crate::types::units::Bytes;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// A hash of the size.
    size: u32,
    /// What was live before, in units of 512 bytes.
    live: u32,
}

/// A distance at which sizes have been the same lately.
#[derive(Clone, Copy)]
struct Candidate {
    period: u64,
    /// For so many allocations.
    held: u64,
    /// Where the next iteration begins, once it is believed.
    next: Option<u64>,
}

/// Finds the iterations of a job in the sizes of its allocations, as they come.
///
/// An [`AutoJob`](crate::AutoJob) has one of its own. By itself it is for recordings of jobs that
/// did not mark their iterations.
///
/// ```
/// # use zico_core::{Bytes, Detector};
/// let mut detector = Detector::new();
/// for _ in 0..5 {
///     let mut live = Bytes::mib(7);
///     for size in (1..=100).map(Bytes::kib) {
///         detector.push(size, live);
///         live = live.saturating_add(size);
///     }
/// }
/// let found = detector.detected().ok_or("nothing repeats")?;
/// assert_eq!((found.period, detector.boundary()), (100, Some(500)));
/// # Ok::<(), &str>(())
/// ```
pub struct Detector {
    /// The last allocations, in a ring.
    entries: Vec<Entry>,
    /// All allocations so far: the number of the next one.
    count: u64,
    rolling: u64,
    /// Where a window with this hash ended last, and one more.
    places: Box<[u64]>,
    candidate: Option<Candidate>,
    /// Shorter periods are not looked for ...
    shortest: u64,
    /// ... up to this allocation.
    until: u64,
    /// Periods that were believed and have ended, the last one first.
    ended: [u64; 4],
    /// An iteration that goes on for ever may end where no more than this is live, as was looked at
    /// with this allocation.
    trough: Option<(u32, u64)>,
}

impl Default for Detector {
    fn default() -> Self {
        Self::new()
    }
}

impl Detector {
    /// One that has seen nothing yet. It takes 768 KiB at most.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            count: 0,
            rolling: 0,
            places: vec![0; HASH_PLACES].into_boxed_slice(),
            candidate: None,
            shortest: SHORTEST_PERIOD,
            until: 0,
            ended: [0; 4],
            trough: None,
        }
    }

    /// All allocations so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether an iteration begins with the next allocation.
    pub(crate) fn is_boundary(&self) -> bool {
        self.boundary() == Some(self.count)
    }

    /// Whether an iteration that began with this allocation has gone on for too long for others to
    /// wait for its end, and `live` is about the least that it comes down to: it may as well end
    /// here. O(1), amortised.
    pub(crate) fn is_overdue(&mut self, began: u64, live: Bytes) -> bool {
        let lasted = self.count.saturating_sub(began);
        if lasted < OVERDUE {
            self.trough = None;
            return false;
        }
        let (trough, _) = match self.trough.filter(|&(_, at)| self.count - at < OVERDUE) {
            Some(known) => known,
            None => *self.trough.insert((self.trough_of(lasted.min(LONGEST_LOOP)), self.count)),
        };
        in_units(live) <= trough
    }

    /// What is live at the troughs of the last so many allocations, at the most.
    fn trough_of(&self, allocations: u64) -> u32 {
        let lately = || (self.count - allocations..self.count).map(|at| self.entry(at).live);
        let (least, most) = (lately().min().unwrap_or(0), lately().max().unwrap_or(0));
        least + (most - least) / TROUGH_PART
    }

    /// Whether the next allocation has a size that was expected, or nothing is.
    pub(crate) fn expects(&self, size: u64) -> bool {
        let known = self.candidate.filter(|candidate| candidate.next.is_some());
        known.is_none_or(|known| self.entry(self.count - known.period).size == folded(size))
    }

    /// The number of the allocation with which the next iteration begins, counted from zero, if
    /// that is known. It has not been made yet, and iterations have begun with those whole periods
    /// before it, for as long as the period has held.
    #[must_use]
    pub fn boundary(&self) -> Option<u64> {
        self.candidate?.next
    }

    /// How long an iteration is and how often it has come again, if that is known.
    #[must_use]
    pub fn detected(&self) -> Option<Detected> {
        let candidate = self.candidate.filter(|candidate| candidate.next.is_some())?;
        let period = u32::try_from(candidate.period).unwrap_or(u32::MAX);
        Some(Detected { period, repeats: candidate.held / candidate.period })
    }

    /// An allocation of this size has been made while `live` was allocated besides. O(1), amortised
    /// over a period.
    pub fn push(&mut self, size: Bytes, live: Bytes) {
        let live = in_units(live);
        let (at, entry) = (self.count, Entry { size: folded(size.value()), live });
        self.roll(entry.size);
        match self.entries.get_mut(slot(at)) {
            Some(slot) => *slot = entry,
            None => self.entries.push(entry),
        }
        self.count += 1;
        match self.candidate {
            Some(candidate) if self.entry(at - candidate.period).size == entry.size => {
                self.go_on(Candidate { held: candidate.held + 1, ..candidate });
            }
            Some(candidate) => self.give_up(candidate),
            None => self.look(),
        }
        let place = self.place();
        self.places[place] = self.count;
    }

    /// The candidate holds for one allocation more.
    fn go_on(&mut self, mut candidate: Candidate) {
        let at = self.count - 1;
        match candidate.next {
            Some(next) if next <= at => candidate.next = Some(next + candidate.period),
            None if candidate.held >= candidate.period && self.is_level(candidate.period) => {
                candidate.period = self.smallest(candidate.period);
                let trough = (self.count - candidate.period..self.count)
                    .min_by_key(|&i| (self.entry(i).live, i))
                    .unwrap_or(at);
                candidate.next = Some(trough + candidate.period);
            }
            _ => {}
        }
        self.candidate = Some(candidate);
    }

    /// The candidate holds no longer.
    fn give_up(&mut self, candidate: Candidate) {
        self.candidate = None;
        if candidate.next.is_some() {
            let stretch = candidate.held + candidate.period;
            let is_loop = stretch < LONGEST_LOOP && !self.ended.contains(&candidate.period);
            self.shortest = if is_loop { stretch + 1 } else { SHORTEST_PERIOD };
            self.until = self.count + stretch;
            if is_loop {
                self.ended.rotate_right(1);
                self.ended[0] = candidate.period;
            }
        }
    }

    /// Looks for a candidate: where the last sizes were seen before.
    fn look(&mut self) {
        if self.count > self.until {
            self.shortest = SHORTEST_PERIOD;
        }
        let before = self.places[self.place()];
        if before < HASH_WINDOW || before >= self.count {
            return;
        }
        let distance = self.count - before;
        let period = self.shortest.div_ceil(distance) * distance;
        if period > LONGEST_PERIOD || self.count < period + HASH_WINDOW {
            return;
        }
        let same = |i: u64| self.entry(i).size == self.entry(i - period).size;
        if (self.count - HASH_WINDOW..self.count).all(same) {
            self.candidate = Some(Candidate { period, held: HASH_WINDOW, next: None });
        }
    }

    /// The smallest period by which the last `period` allocations repeat as well.
    fn smallest(&self, period: u64) -> u64 {
        let holds = |&part: &u64| {
            period.is_multiple_of(part)
                && self.is_level(part)
                && (self.count - period..self.count)
                    .all(|i| self.entry(i).size == self.entry(i - part).size)
        };
        (SHORTEST_PERIOD..period).find(holds).unwrap_or(period)
    }

    /// Whether as much is live as a period ago.
    fn is_level(&self, period: u64) -> bool {
        let (now, then) =
            (self.entry(self.count - 1).live, self.entry(self.count - 1 - period).live);
        u64::from(now.abs_diff(then)) * SAME_LIVE_PART <= u64::from(now)
    }

    fn entry(&self, at: u64) -> Entry {
        self.entries.get(slot(at)).copied().unwrap_or_default()
    }

    /// Takes a size into the rolling hash, and the one that leaves the window out of it.
    fn roll(&mut self, size: u32) {
        const { assert!(HASH_WINDOW == 16, "the power below") };
        const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
        const OLDEST: u64 = BASE.wrapping_pow(16);
        let oldest = self.count.checked_sub(HASH_WINDOW).map_or(0, |i| self.entry(i).size);
        self.rolling = self
            .rolling
            .wrapping_mul(BASE)
            .wrapping_add(size.into())
            .wrapping_sub(OLDEST.wrapping_mul(oldest.into()));
    }

    /// Where the hash of the present window is kept.
    #[expect(clippy::cast_possible_truncation, reason = "as many bits as there are places")]
    fn place(&self) -> usize {
        (mixed(0, self.rolling) >> (u64::BITS - HASH_PLACES.ilog2())) as usize
    }
}

/// What is live, as entries have it.
fn in_units(live: Bytes) -> u32 {
    u32::try_from(live.value() / 512).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "it is less than what is remembered")]
const fn slot(at: u64) -> usize {
    (at % REMEMBERED_ALLOCATIONS as u64) as usize
}

const fn folded(size: u64) -> u32 {
    (mixed(0, size) >> 32) as u32
}

#[cfg(test)]
mod tests;
