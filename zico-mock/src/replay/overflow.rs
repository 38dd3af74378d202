//! Memory of the host that stands in for what a job has beyond its cap, as under AntMan: its
//! kernels reach it over the link.
//!
//! A trace does not say which launch touches what. It is assumed that a block of an iteration
//! crosses the link when it is made and when it is used last, and one that is kept three times in
//! each iteration, spread evenly: a parameter is read forward and backward, and written. A launch
//! takes as long as its work, or as its bytes on the link if that is longer. Each job is alone on
//! the link.

use std::collections::{BTreeMap, VecDeque};

use zico_core::{Bytes, Link, Ticks};

use crate::MockDevice;
use crate::trace::BlockId;

/// A job that has no share of the time looks again after so long.
const LOOKS: Ticks = Ticks::millis(1);
/// What a job needs is known of so many iterations (inferred).
const SEEN: usize = 8;

/// How a job is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// What it may have on the device from its next iteration on.
    pub(super) cap: Bytes,
    /// What it has of the time, in hundredths.
    pub(super) share: u32,
}

/// A block on the host.
#[derive(Clone, Copy, Debug)]
struct Standing {
    bytes: Bytes,
    /// It was there when the iteration began.
    kept: bool,
}

/// What a job has on the host, and what of that crosses the link.
pub(super) struct Overflow {
    scale: Scale,
    link: Link,
    blocks: BTreeMap<BlockId, Standing>,
    held: Bytes,
    /// Of the blocks that are kept.
    kept: Bytes,
    /// What crosses with the next launch: to the host, and from it.
    due: (Bytes, Bytes),
    /// What has crossed.
    moved: (Bytes, Bytes),
    /// The launches of the iteration that runs, and of the one before.
    launches: (u64, u64),
    /// Until then it rests before its next iteration.
    until: Option<Ticks>,
    /// The most that the job has had since its iteration began, wherever it is.
    peak: Bytes,
    /// The same of its last iterations.
    peaks: VecDeque<Bytes>,
}

impl Overflow {
    /// Of a job that has `cap` on this device for now, and all of the time; none if the device has no
    /// link to the host.
    pub(super) fn new(device: &MockDevice, cap: Bytes) -> Option<Self> {
        let link = zico_core::Device::host(device)?.link()?;
        Some(Self {
            scale: Scale { cap, share: 100 },
            link,
            blocks: BTreeMap::new(),
            held: Bytes::ZERO,
            kept: Bytes::ZERO,
            due: (Bytes::ZERO, Bytes::ZERO),
            moved: (Bytes::ZERO, Bytes::ZERO),
            launches: (0, 0),
            until: None,
            peak: Bytes::ZERO,
            peaks: VecDeque::new(),
        })
    }

    pub(super) fn scale(&mut self, scale: Scale) {
        self.scale = scale;
    }

    pub(super) fn cap(&self) -> Bytes {
        self.scale.cap
    }

    /// Whether the job has less than all of the time.
    pub(super) fn rests(&self) -> bool {
        self.scale.share < 100
    }

    /// When to ask again for an iteration's start, which is asked for `now`, if the job has to rest:
    /// for what is not its share of the time since the last iteration `began`, which the device has
    /// finished now. (The re-implementation spreads a part of that over the next iteration's
    /// launches.)
    pub(super) fn rests_until(&mut self, began: Option<Ticks>, now: Ticks) -> Option<Ticks> {
        let share = u64::from(self.scale.share);
        if share == 0 {
            return Some(now.saturating_add(LOOKS));
        }
        if let Some(began) = began.filter(|_| self.until.is_none()) {
            let took = now.saturating_sub(began).value();
            let rest = (took / share).saturating_mul(100 - share);
            self.until = Some(now.saturating_add(Ticks::new(rest)));
        }
        self.until.filter(|&until| until > now)
    }

    /// A block is made on the host.
    pub(super) fn alloc(&mut self, block: BlockId, bytes: Bytes) {
        self.put(block, Standing { bytes, kept: false });
    }

    /// A block leaves the device between two iterations.
    pub(super) fn spill(&mut self, block: BlockId, bytes: Bytes) {
        self.put(block, Standing { bytes, kept: true });
    }

    fn put(&mut self, block: BlockId, standing: Standing) {
        self.due.0 = self.due.0.saturating_add(standing.bytes);
        self.held = self.held.saturating_add(standing.bytes);
        if standing.kept {
            self.kept = self.kept.saturating_add(standing.bytes);
        }
        self.blocks.insert(block, standing);
    }

    /// A block is no longer on the host: it has been freed, or goes to the device. Its bytes, or
    /// none if it is not there.
    pub(super) fn take(&mut self, block: BlockId) -> Option<Bytes> {
        let Standing { bytes, kept } = self.blocks.remove(&block)?;
        self.held = self.held.saturating_sub(bytes);
        if kept {
            self.kept = self.kept.saturating_sub(bytes);
        }
        self.due.1 = self.due.1.saturating_add(bytes);
        Some(bytes)
    }

    /// The blocks on the host, in a fixed order.
    pub(super) fn blocks(&self) -> Vec<(BlockId, Bytes)> {
        self.blocks.iter().map(|(&id, standing)| (id, standing.bytes)).collect()
    }

    /// The job has so much on the device.
    pub(super) fn note(&mut self, device: Bytes) {
        self.peak = self.peak.at_least(device.saturating_add(self.held));
    }

    /// An iteration begins: what is on the host now is kept.
    pub(super) fn begin(&mut self) {
        self.blocks.values_mut().for_each(|standing| standing.kept = true);
        (self.kept, self.until) = (self.held, None);
        (self.launches, self.peak) = ((0, self.launches.0), Bytes::ZERO);
    }

    /// An iteration ends.
    pub(super) fn end(&mut self) {
        self.peaks.truncate(SEEN - 1);
        self.peaks.push_front(self.peak);
    }

    /// What the job needs to have any of its last iterations on the device, once one has ended.
    pub(super) fn need(&self) -> Option<Bytes> {
        self.peaks.iter().copied().max()
    }

    /// How long a launch takes that would take so long if all were on the device.
    pub(super) fn stretch(&mut self, work: Ticks) -> Ticks {
        self.launches.0 += 1;
        let (out, back) = std::mem::take(&mut self.due);
        let part = Bytes::new(self.kept.value() / self.launches.1.max(1));
        let (out, back) =
            (out.saturating_add(part), back.saturating_add(part).saturating_add(part));
        let (before, after) = self.moved;
        self.moved = (before.saturating_add(out), after.saturating_add(back));
        work.at_least(self.link.time_out(out)).at_least(self.link.time_back(back))
    }

    /// What has crossed the link: to the host, and from it.
    pub(super) fn moved(&self) -> (Bytes, Bytes) {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;
    use crate::MockConfig;

    /// Over a link of a byte each way in a nanosecond.
    fn overflow() -> Overflow {
        let rate = Bytes::new(1_000_000_000);
        let config = MockConfig::new(Bytes::mib(2)).link(Some(Link::new(rate, rate)));
        Overflow::new(&MockDevice::new(config).unwrap(), Bytes::ZERO).unwrap()
    }

    #[test]
    fn a_block_crosses_the_link_when_it_is_made_and_when_it_goes() {
        let (mut host, block) = (overflow(), BlockId::new(1));
        host.begin();
        host.alloc(block, Bytes::new(1000));
        host.note(Bytes::new(50));
        assert_eq!(host.stretch(Ticks::new(10)), Ticks::new(1000));
        assert_eq!(host.stretch(Ticks::new(10)), Ticks::new(10));
        assert_eq!(host.take(block), Some(Bytes::new(1000)));
        assert_eq!(host.take(block), None);
        assert_eq!(host.stretch(Ticks::new(3000)), Ticks::new(3000), "both at the same time");
        assert_eq!(host.moved(), (Bytes::new(1000), Bytes::new(1000)));
        host.end();
        assert_eq!(host.need(), Some(Bytes::new(1050)));
        for _ in 0..SEEN {
            assert_eq!(host.need(), Some(Bytes::new(1050)));
            host.begin();
            host.note(Bytes::new(7));
            host.end();
        }
        assert_eq!(host.need(), Some(Bytes::new(7)), "that was long ago");
    }

    #[test]
    fn what_is_kept_crosses_it_three_times_an_iteration() {
        let mut host = overflow();
        host.begin();
        for _ in 0..4 {
            let _ = host.stretch(Ticks::ZERO);
        }
        host.spill(BlockId::new(1), Bytes::new(4000));
        host.begin();
        assert_eq!(host.stretch(Ticks::ZERO), Ticks::new(5000), "its own way out as well");
        assert_eq!(host.stretch(Ticks::ZERO), Ticks::new(2000));
        assert_eq!(host.moved(), (Bytes::new(6000), Bytes::new(4000)));
    }

    #[test]
    fn a_job_rests_for_the_rest_of_its_time() {
        let mut host = overflow();
        let at = |ticks: u64| Some(Ticks::new(ticks));
        let mut rests = |share, now| {
            host.scale(Scale { cap: Bytes::ZERO, share });
            host.rests_until(at(1000), Ticks::new(now))
        };
        assert_eq!(rests(0, 1100), at(1100 + LOOKS.value()));
        // A quarter of the time: three times as long as it took.
        assert_eq!([rests(25, 1100), rests(25, 1399), rests(25, 1400)], [at(1400), at(1400), None]);
        host.begin();
        host.scale(Scale { cap: Bytes::ZERO, share: 100 });
        assert_eq!(host.rests_until(at(2000), Ticks::new(2100)), None);
        assert_eq!(host.rests_until(None, Ticks::new(2100)), None, "it has not begun yet");
    }
}
