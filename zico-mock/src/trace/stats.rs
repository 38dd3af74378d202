//! Figures of a trace, for reports.

use zico_core::{Bytes, Lifetime, Ticks};

use super::{Iteration, Phase, Step, Trace};

/// Figures of one iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationStats {
    /// Blocks allocated.
    pub allocations: usize,
    /// Blocks freed.
    pub frees: usize,
    /// Pieces of work given to the device.
    pub launches: usize,
    /// Times that a block was given to another stream of the job.
    pub uses: usize,
    /// The work of all launches.
    pub work: Ticks,
    /// The wall time the iteration took when it was recorded.
    pub recorded: Ticks,
    /// Bytes of persistent blocks alive when it starts.
    pub persistent_at_start: Bytes,
    /// Bytes alive when it starts, persistent ones included. So are they in all that follows.
    pub live_at_start: Bytes,
    /// Bytes alive when it ends.
    pub live_at_end: Bytes,
    /// The most bytes alive at once.
    pub peak: Bytes,
    /// The phase in which that is reached first; nothing if no phase has been marked by then.
    pub peak_phase: Option<Phase>,
    /// The fewest bytes alive.
    pub trough: Bytes,
}

/// Figures of a whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// One for each iteration.
    pub iterations: Vec<IterationStats>,
    /// The most bytes alive at once in any iteration.
    pub peak: Bytes,
}

impl Trace {
    /// Sums the trace up.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut level = Level::default();
        self.setup().iter().for_each(|step| level.apply(self, step));
        let iterations: Vec<_> =
            self.iterations().iter().map(|iteration| sum_up(self, iteration, &mut level)).collect();
        let peak = iterations.iter().map(|stats| stats.peak).max().unwrap_or_default();
        Stats { iterations, peak }
    }

    /// The wave of live bytes over one iteration (counted from zero), for small plots: its launch
    /// work is cut into `buckets` spans of equal length, and each gives the most bytes alive in it.
    ///
    /// Nothing if there is no such iteration.
    #[must_use]
    pub fn wave(&self, iteration: usize, buckets: u16) -> Vec<Bytes> {
        let Some(shown) = self.iterations().get(iteration) else {
            return Vec::new();
        };
        let mut level = Level::default();
        let earlier = self.iterations()[..iteration].iter().flat_map(Iteration::steps);
        self.setup().iter().chain(earlier).for_each(|step| level.apply(self, step));

        let total: u64 = shown.steps().iter().map(|step| work(step).value()).sum();
        let last = usize::from(buckets).saturating_sub(1);
        let bucket = |done: u64| -> usize {
            let at = u128::from(done) * u128::from(buckets) / u128::from(total.max(1));
            usize::try_from(at).unwrap_or(last).min(last)
        };
        let mut wave = vec![Bytes::ZERO; usize::from(buckets)];
        wave.iter_mut().take(1).for_each(|most| *most = level.live);
        let mut done = 0;
        for step in shown.steps() {
            let from = bucket(done);
            done += work(step).value();
            // A launch that ends where a bucket begins is not in that bucket.
            let to = bucket(done.saturating_sub(1)).max(from);
            level.apply(self, step);
            for most in wave.iter_mut().take(to + 1).skip(from) {
                *most = most.at_least(level.live);
            }
        }
        // Only an iteration without any work leaves buckets that no launch has reached.
        for most in wave.iter_mut().skip(bucket(done)) {
            *most = most.at_least(level.live);
        }
        wave
    }
}

/// The work of a step: zero unless it is a launch.
const fn work(step: &Step) -> Ticks {
    match *step {
        Step::Launch { work } => work,
        _ => Ticks::ZERO,
    }
}

/// Bytes alive. The checks in [`Trace::new`] keep these sums from overflowing.
#[derive(Default)]
struct Level {
    live: Bytes,
    persistent: Bytes,
}

impl Level {
    fn apply(&mut self, trace: &Trace, step: &Step) {
        match *step {
            Step::Alloc { bytes, lifetime, .. } => {
                self.live = self.live.saturating_add(bytes);
                if lifetime == Lifetime::Persistent {
                    self.persistent = self.persistent.saturating_add(bytes);
                }
            }
            Step::Free { block } => {
                self.live = self.live.saturating_sub(trace.blocks()[block.index()].bytes);
            }
            Step::Launch { .. } | Step::Use { .. } | Step::Phase(_) => {}
        }
    }
}

fn sum_up(trace: &Trace, iteration: &Iteration, level: &mut Level) -> IterationStats {
    let mut stats = IterationStats {
        allocations: 0,
        frees: 0,
        launches: 0,
        uses: 0,
        work: Ticks::ZERO,
        recorded: iteration.recorded(),
        persistent_at_start: level.persistent,
        live_at_start: level.live,
        live_at_end: level.live,
        peak: level.live,
        peak_phase: None,
        trough: level.live,
    };
    let mut phase = None;
    for step in iteration.steps() {
        level.apply(trace, step);
        match *step {
            Step::Alloc { .. } => stats.allocations += 1,
            Step::Free { .. } => stats.frees += 1,
            Step::Launch { work } => {
                stats.launches += 1;
                stats.work = stats.work.saturating_add(work);
            }
            Step::Use { .. } => stats.uses += 1,
            Step::Phase(next) => phase = Some(next),
        }
        if level.live > stats.peak {
            stats.peak = level.live;
            stats.peak_phase = phase;
        }
        stats.trough = stats.trough.min(level.live);
    }
    stats.live_at_end = level.live;
    stats
}
