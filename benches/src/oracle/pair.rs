//! Two jobs: the optimum, exactly.
//!
//! On the clock a schedule is a set of starts, and only the *offset* of two iterations that
//! overlap, one start less the other, decides whether they fit. Step [a, b) of one and piece [s, e)
//! of the other, too large together, forbid the offsets in (s - b, e - a); all of them make up a
//! set of open gaps ([`Offsets`]).
//!
//! Time is (2 - S) clock + (S - 1) work, with S = max(1, 2u) the stretch of two, so for work given
//! less clock is better and it never pays that both wait. Take any schedule, and keep for each two
//! iterations on which side of which gap they are: what is left are differences of starts with
//! bounds, and the least solution is the best one. In it each start is held back by something: by
//! the job's last end; by the other's running iteration, then the offset is the upper end of a gap;
//! or by a later iteration of the other, which begins without delay and would otherwise come into a
//! gap, then *that* offset is the lower end of a gap. These are all the starts that matter, and
//! there are finitely many. So the states, which job waits and how far the other one is, make up a
//! graph, and the best cycle in it is the optimum in the long run.
//!
//! Jobs of unlike lengths that never have to wait may drift past each other for long before a state
//! returns. Beyond `MOST_STATES` states it is taken that they need not wait any more:
//! [`Optimum::exact`] says so, and the figure is a bound from above.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::cycle::{Edge, Graph};
use super::{Case, Wave};

/// So many states are looked at.
const MOST_STATES: usize = 2_000_000;

/// The best that can be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimum {
    /// The throughput.
    pub throughput: f64,
    /// Whether it can be reached; else it is a bound from above.
    pub exact: bool,
}

/// The best throughput of two jobs in the long run; none if one does not fit alone, or if there are
/// not two.
#[must_use]
pub fn long_run(case: &Case) -> Option<Optimum> {
    let pair = Pair::new(case)?;
    if pair.offsets[0].gaps.is_empty() {
        // Nobody ever waits.
        return Some(Optimum { throughput: 2.0 / case.stretch(2), exact: true });
    }
    let states = States::explore(&pair, MOST_STATES, &[])?;
    Some(Optimum { throughput: states.graph.best_ratio(), exact: states.exact })
}

/// The best throughput up to the moment at which each of two jobs has done `iterations` iterations,
/// counted as the replay does: a job that is done earlier goes on, and what it has done of its last
/// iteration counts.
#[must_use]
pub fn finite(case: &Case, iterations: u8) -> Option<Optimum> {
    let states = States::explore(&Pair::new(case)?, MOST_STATES, &[])?;
    Some(Optimum { throughput: states.best_within(iterations), exact: states.exact })
}

/// Which offsets of two iterations do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Open gaps, in order, that do not overlap; they may touch.
    gaps: Vec<(i64, i64)>,
}

impl Offsets {
    /// Offsets are the start of `own` less that of `other`.
    #[must_use]
    pub fn forbidden(own: &Wave, other: &Wave, room: u32) -> Self {
        let mut gaps: Vec<(i64, i64)> = Vec::new();
        for (a, b, demand) in own.pieces() {
            let left = room.saturating_sub(demand);
            let mut last: Option<(u64, u64)> = None;
            for (s, e, _) in other.pieces().filter(|piece| piece.2 > left) {
                match &mut last {
                    Some((_, end)) if *end == s => *end = e,
                    _ => {
                        gaps.extend(last.map(|(s, e)| (less(s, b), less(e, a))));
                        last = Some((s, e));
                    }
                }
            }
            gaps.extend(last.map(|(s, e)| (less(s, b), less(e, a))));
        }
        gaps.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in gaps {
            match merged.last_mut() {
                Some(last) if from < last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self { gaps: merged }
    }

    /// Each gap wider by `margin` on both sides.
    fn widened(&self, margin: i64) -> Self {
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in self.gaps.iter().map(|gap| (gap.0 - margin, gap.1 + margin)) {
            match merged.last_mut() {
                Some(last) if margin > 0 && from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self { gaps: merged }
    }

    /// The same seen from the other iteration.
    fn mirrored(&self) -> Self {
        Self { gaps: self.gaps.iter().rev().map(|&(from, to)| (-to, -from)).collect() }
    }

    /// Whether the two fit.
    #[must_use]
    pub fn fit(&self, offset: i64) -> bool {
        let gap = self.gaps.partition_point(|gap| gap.1 <= offset);
        self.gaps.get(gap).is_none_or(|gap| offset <= gap.0)
    }

    /// The least offset from here on at which they fit.
    #[must_use]
    pub fn next_fit(&self, mut offset: i64) -> i64 {
        while let Some(gap) = self.gaps.get(self.gaps.partition_point(|gap| gap.1 <= offset)) {
            if offset <= gap.0 {
                break;
            }
            offset = gap.1;
        }
        offset
    }

    /// The gaps, each an open interval.
    #[must_use]
    pub fn gaps(&self) -> &[(i64, i64)] {
        &self.gaps
    }
}

fn less(a: u64, b: u64) -> i64 {
    signed(a) - signed(b)
}

pub(super) fn signed(a: u64) -> i64 {
    i64::try_from(a).unwrap_or(i64::MAX)
}

/// One job waits and the other has come so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) waits: usize,
    pub(super) at: i64,
}

/// What can be reached, and how.
pub(super) struct States {
    pub(super) graph: Graph,
    pub(super) exact: bool,
    /// Work of an iteration of each job.
    lengths: [i64; 2],
    pub(super) states: Vec<State>,
}

/// What does not change while states are explored.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) lengths: [i64; 2],
    /// For each job, at which points of the other it may not start.
    offsets: [Offsets; 2],
    /// For each job, at which points of the other a delayed start matters.
    starts: [Vec<i64>; 2],
    /// What a moment costs in which both run, one runs.
    stretch: (f64, f64),
}

impl Pair {
    pub(super) fn new(case: &Case) -> Option<Self> {
        Self::with_margin(case, 0)
    }

    /// The same if iterations are to miss by `margin` more than what does not fit.
    pub(super) fn with_margin(case: &Case, margin: i64) -> Option<Self> {
        let [one, other] = case.waves.as_slice() else { return None };
        if !case.is_possible() || one.is_empty() || other.is_empty() {
            return None;
        }
        let offsets = Offsets::forbidden(one, other, case.room).widened(margin);
        let offsets = [offsets.clone(), offsets.mirrored()];
        let lengths = [signed(one.length()), signed(other.length())];
        let starts = [0, 1].map(|job| starts(&offsets[job], &offsets[1 - job], lengths[1 - job]));
        Some(Self { lengths, offsets, starts, stretch: (case.stretch(2), case.stretch(1)) })
    }

    /// What can be done, and where it leads.
    pub(super) fn ways(&self, state: State) -> Vec<(State, Edge)> {
        let State { waits, at } = state;
        let (own, other) = (self.lengths[waits], self.lengths[1 - waits]);
        if at == other {
            // Both wait: either may start first.
            let way = |waits| (State { waits, at: 0 }, edge(0, 0.0, 0));
            return vec![way(0), way(1)];
        }
        let mut ways = Vec::with_capacity(2);
        if self.fits(state) {
            let both = own.min(other - at);
            let edge = edge(2 * both, both as f64 * self.stretch.0, 0);
            ways.push(match own.cmp(&(other - at)) {
                std::cmp::Ordering::Less => {
                    (State { waits, at: at + own }, Edge { ended: 1 << waits, ..edge })
                }
                std::cmp::Ordering::Greater => {
                    let waits = 1 - waits;
                    (State { waits, at: both }, Edge { ended: 1 << waits, ..edge })
                }
                std::cmp::Ordering::Equal => (self.neither_runs(), Edge { ended: 3, ..edge }),
            });
        }
        let starts = &self.starts[waits];
        let next = starts.get(starts.partition_point(|&start| start <= at));
        let next = next.copied().unwrap_or(other);
        let edge = edge(next - at, (next - at) as f64 * self.stretch.1, 0);
        ways.push(if next == other {
            (self.neither_runs(), Edge { ended: 1 << (1 - waits), ..edge })
        } else {
            (State { waits, at: next }, edge)
        });
        ways
    }

    /// Whether the job that waits fits now.
    pub(super) fn fits(&self, State { waits, at }: State) -> bool {
        at < self.lengths[1 - waits] && self.offsets[waits].fit(at)
    }

    /// The states in which a job that waits may start after all.
    pub(super) fn delayed(&self) -> Vec<State> {
        let of = |waits: usize| self.starts[waits].iter().map(move |&at| State { waits, at });
        of(0).chain(of(1)).collect()
    }

    fn neither_runs(&self) -> State {
        State { waits: 0, at: self.lengths[1] }
    }
}

fn edge(gain: i64, cost: f64, ended: u8) -> Edge {
    Edge { to: 0, gain: gain as f64, cost, ended }
}

/// The points of the other iteration, from 0 to its `length`, at which a job may have waited to
/// start: the upper ends of gaps, and what brings a later iteration of the other to the lower end
/// of one.
fn starts(own: &Offsets, others: &Offsets, length: i64) -> Vec<i64> {
    let upper = own.gaps.iter().map(|gap| gap.1);
    // The other's iteration after n of them, that began without delay, is at offset `gap.0` from
    // ours.
    let lower = others.gaps.iter().filter(|gap| gap.0 >= 0).map(|gap| (-gap.0).rem_euclid(length));
    let mut starts: Vec<i64> =
        upper.chain(lower).filter(|start| (0..length).contains(start)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

impl States {
    /// All that can be reached from where neither runs, and from `more`.
    pub(super) fn explore(pair: &Pair, most: usize, more: &[State]) -> Option<Self> {
        let mut states = vec![pair.neither_runs()];
        states.extend(more);
        let mut numbers: HashMap<State, u32> = states.iter().copied().zip(0..).collect();
        let (mut graph, mut exact) = (Graph::default(), true);
        while let Some(&state) = states.get(graph.len()) {
            if states.len() > most && graph.len() > 0 {
                // As good as it can get, for ever, or back to the beginning.
                exact = false;
                let loop_edge = edge(2, pair.stretch.0, 3);
                let to = u32::try_from(graph.len()).ok()?;
                graph.push([Edge { to, ..loop_edge }, edge(0, 1.0, 0)]);
                continue;
            }
            let mut edges = Vec::with_capacity(2);
            for (to, edge) in pair.ways(state) {
                let next = u32::try_from(states.len()).ok()?;
                let to = *numbers.entry(to).or_insert_with(|| {
                    states.push(to);
                    next
                });
                edges.push(Edge { to, ..edge });
            }
            graph.push(edges);
        }
        Some(Self { graph, exact, lengths: pair.lengths, states })
    }

    /// The shortest time to each state with so many iterations done by each job, and the best
    /// throughput over all ways in which the last job comes to `wanted`. Work done is known from
    /// the state and the counts, so the shortest time is the best.
    fn best_within(&self, wanted: u8) -> f64 {
        let mut queue = BinaryHeap::from([Reached { time: 0.0, done: [0, 0], state: 0 }]);
        let mut settled: HashSet<(u32, [u32; 2])> = HashSet::new();
        // Beyond those wanted, an iteration that overlaps none of the other job's is better left
        // out.
        let overlapped = |job: usize| self.lengths[1 - job] / self.lengths[job] + 2;
        let most = [0, 1].map(|job| {
            let most = i64::from(wanted) * (1 + overlapped(job));
            u32::try_from(most).unwrap_or(u32::MAX)
        });
        let mut best = 0.0_f64;
        while let Some(Reached { time, done, state }) = queue.pop() {
            if !settled.insert((state, done)) {
                continue;
            }
            if done.iter().all(|&done| done >= u32::from(wanted)) {
                best = best.max(self.work(state, done) / time);
                continue;
            }
            for edge in self.graph.edges(state as usize) {
                let done = [0, 1].map(|job| done[job] + u32::from(edge.ended >> job & 1));
                if (0..2).any(|job| done[job] > most[job]) {
                    continue;
                }
                queue.push(Reached { time: time + edge.cost, done, state: edge.to });
            }
        }
        best
    }

    fn work(&self, state: u32, done: [u32; 2]) -> f64 {
        let State { waits, at } = self.states[state as usize];
        let whole: i64 = (0..2).map(|job| i64::from(done[job]) * self.lengths[job]).sum();
        let under_way = if at == self.lengths[1 - waits] { 0 } else { at };
        (whole + under_way) as f64
    }
}

/// A state with iterations done, at a time. The earliest comes first.
#[derive(PartialEq)]
struct Reached {
    time: f64,
    done: [u32; 2],
    state: u32,
}

impl Eq for Reached {}

impl Ord for Reached {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_time = other.time.total_cmp(&self.time);
        by_time.then_with(|| (other.done, other.state).cmp(&(self.done, self.state)))
    }
}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
