//! Our planner of everything: what stays, moves over the link, is encoded or runs again, for each
//! storage and each gap between two uses.

use alloc::vec::Vec;

use super::hidden::{self, SMALL};
use crate::relief::random::Random;
use crate::relief::swap::{self, Gap, Move, Way};
use crate::relief::{Found, Graph, Link, Recompute, Relief, Step, Terms, simulate};

/// Plans what moves and what runs again so that an iteration fits in a budget in as little time as
/// can be, without loss: [`joint_within`] of the budget.
#[must_use]
pub fn joint(graph: &Graph, link: &Link, budget: u64, work: u64) -> Option<Found> {
    joint_within(graph, link, Terms { budget, lossy: false }, work)
}

/// Plans what moves, what is encoded and what runs again so that an iteration fits in a budget in
/// as little time as can be. `None` where nothing that it tries fits.
///
/// Transfers that end before anything waits for them cost nothing, so the link is filled with those
/// first that free most in places over the budget: by place and byte, or by what the bytes would
/// take to be made again. What is left over the budget is for
/// [`Recompute`](crate::relief::Recompute). Where operations run again, there is more time for
/// transfers: then both are planned once more on the longer timeline. Encodings are tried beside
/// that, those first that free most for their time; and transfers that something waits for. From
/// the best of all that, by the simulator, a local search changes the choice of one gap or of a few
/// at a time, each time with recomputation planned anew for what is left over the budget.
/// Deterministic.
///
/// The first plans take what they take; `work` is for each of the first plannings of recomputation,
/// and four times as much for the local search.
#[must_use]
pub fn joint_within(graph: &Graph, link: &Link, terms: Terms, work: u64) -> Option<Found> {
    let mut planner = Joint::new(graph, link, terms);
    planner.begin(work);
    planner.encode(work);
    planner.wait(work);
    planner.improve(work.saturating_mul(4));
    let spent = planner.spent;
    let found = planner.best.map(|best| Found { work: spent, ..best.found });
    if !terms.lossy {
        return found;
    }
    // What may be lossy is never slower than what may not.
    let exact = joint_within(graph, link, Terms { lossy: false, ..terms }, work);
    found.into_iter().chain(exact).min_by_key(|found| found.nanos)
}

/// A first plan of recomputation may always take so much work: some milliseconds.
const LEAST: u64 = 1 << 22;

/// What happens to a storage between two uses. What stays may still run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Stays,
    Moves,
    Encoded,
}

/// A plan with the choices that led to it.
struct Best {
    found: Found,
    choices: Vec<Choice>,
    /// When operations begin in it, by the timeline.
    times: Vec<u64>,
}

struct Joint<'a> {
    graph: &'a Graph,
    link: &'a Link,
    terms: Terms,
    gaps: Vec<Gap>,
    best: Option<Best>,
    spent: u64,
    /// What a first plan of recomputation may take: no more than twice what one took that fitted.
    first: u64,
}

impl<'a> Joint<'a> {
    fn new(graph: &'a Graph, link: &'a Link, terms: Terms) -> Self {
        let largest = graph.storages().iter().map(|storage| storage.bytes).max().unwrap_or(0);
        let live = graph.live();
        // Only what is away while something is over the budget can be worth it.
        let over = |gap: &Gap| {
            let range = gap.after as usize + 1..gap.before as usize;
            live[range].iter().any(|&bytes| bytes > terms.budget)
        };
        let mut gaps = swap::gaps(graph, largest / SMALL);
        gaps.retain(over);
        Self { graph, link, terms, gaps, best: None, spent: 0, first: Recompute::FIRST }
    }

    fn nothing(&self) -> Vec<Choice> {
        alloc::vec![Choice::Stays; self.gaps.len()]
    }

    /// Recomputation alone, and with transfers that nothing waits for.
    fn begin(&mut self, work: u64) {
        let plain = swap::times(self.graph);
        let longer = self.evaluate(&self.nothing(), &plain, work);
        for by_cost in [false, true] {
            for times in [&plain, &longer] {
                if self.is_least() {
                    return;
                }
                let moves = hidden::moves(self.graph, self.link, self.terms.budget, times, by_cost);
                let choices = self.choices_of(&moves);
                if !moves.is_empty() {
                    self.evaluate_moves(&choices, moves, work);
                }
            }
        }
    }

    /// Whether nothing takes longer than without a budget.
    fn is_least(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.found.nanos <= self.graph.nanos())
    }

    /// Encodings, those first that free most in the gap for their time, beside the best so far.
    fn encode(&mut self, work: u64) {
        let mut all: Vec<(f64, usize)> = Vec::new();
        for (at, gap) in self.gaps.iter().enumerate() {
            if let Some(encoding) = self.encoding(gap) {
                let freed = (gap.bytes - encoding.bytes) as f64 * f64::from(gap.before - gap.after);
                let nanos = encoding.encode.saturating_add(encoding.decode);
                all.push((nanos as f64 / freed, at));
            }
        }
        if all.is_empty() {
            return;
        }
        all.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let times = self.times();
        for base in [self.nothing(), self.best_choices()] {
            for eighths in [1, 2, 4, 6, 8] {
                let mut choices = base.clone();
                let count = (all.len() * eighths).div_ceil(8);
                all[..count].iter().for_each(|one| choices[one.1] = Choice::Encoded);
                self.evaluate(&choices, &times, work / 8);
            }
        }
    }

    /// Transfers that something waits for: where that may take less than to make it again, and all.
    fn wait(&mut self, work: u64) {
        if self.is_least() {
            return;
        }
        let times = self.times();
        let cheaper = |gap: &Gap| {
            let writer = self.graph.writers[gap.storage as usize].first();
            let own = writer.map_or(u64::MAX, |&one| self.graph.operations()[one as usize].nanos);
            self.link.nanos_out(gap.bytes).max(self.link.nanos_back(gap.bytes)) < own
        };
        let cheap: Vec<bool> = self.gaps.iter().map(cheaper).collect();
        for all in [false, true] {
            let mut choices = self.best_choices();
            for (choice, &cheap) in choices.iter_mut().zip(&cheap) {
                if *choice == Choice::Stays && (cheap || all) {
                    *choice = Choice::Moves;
                }
            }
            self.evaluate(&choices, &times, work / 8);
        }
        self.wait_in_part(work);
        self.with_waits(work);
    }

    /// The same choices with transfers placed where the best plan, which waits for some of them,
    /// has the time for them; as long as that gains something.
    fn with_waits(&mut self, work: u64) {
        for _ in 0..6 {
            let Some(best) = &self.best else { return };
            let (before, choices, times) =
                (best.found.nanos, best.choices.clone(), self.simulated(&best.found));
            self.evaluate(&choices, &times, work / 8);
            if self.best.as_ref().is_none_or(|best| best.found.nanos >= before) {
                return;
            }
        }
    }

    /// When operations begin for the first time in a schedule, with all that it waits for.
    fn simulated(&self, found: &Found) -> Vec<u64> {
        let mut times = alloc::vec![None; self.graph.operations().len()];
        let outcome = simulate(self.graph, self.link, &found.steps, self.terms.budget);
        let outcome = outcome.unwrap_or_default();
        for (step, span) in found.steps.iter().zip(&outcome.spans) {
            if let Step::Run(run) = *step {
                times[run as usize].get_or_insert(span.start);
            }
        }
        let end = core::iter::once(outcome.nanos);
        times.into_iter().map(Option::unwrap_or_default).chain(end).collect()
    }

    /// Some of all transfers, those first that are away for longest while something is over the
    /// budget: between too few to fit and all, which take the link longest.
    fn wait_in_part(&mut self, work: u64) {
        let (live, times) = (self.graph.live(), swap::times(self.graph));
        let over = |gap: &Gap| {
            let places = gap.after as usize + 1..gap.before as usize;
            let crowded = places.filter(|&at| live[at] > self.terms.budget);
            crowded.map(|at| times[at + 1] - times[at]).sum::<u64>()
        };
        let mut order: Vec<(u64, usize)> =
            self.gaps.iter().enumerate().map(|(at, gap)| (over(gap), at)).collect();
        order.sort_unstable_by_key(|&(over, at)| (core::cmp::Reverse(over), at));
        for sixteenths in [1, 2, 3, 4, 6, 8, 10, 12] {
            let mut choices = self.nothing();
            let count = (order.len() * sixteenths).div_ceil(16);
            order[..count].iter().for_each(|one| choices[one.1] = Choice::Moves);
            self.evaluate(&choices, &times, work / 8);
        }
    }

    fn choices_of(&self, moves: &[Move]) -> Vec<Choice> {
        let mut choices = self.nothing();
        for one in moves {
            let key = (one.storage, one.before);
            let at = self.gaps.iter().position(|gap| (gap.storage, gap.before) == key);
            if let Some(at) = at {
                choices[at] = Choice::Moves;
            }
        }
        choices
    }

    /// A local search over choices: one gap or a few at a time.
    fn improve(&mut self, work: u64) {
        let mut random = Random::new(3);
        let until = self.spent.saturating_add(work);
        // A planning costs this much at least, so that the end is reached.
        let least = 64 + self.graph.operations().len() as u64 * 16;
        while self.spent < until && !self.gaps.is_empty() {
            self.spent += least;
            let Some(best) = self.best.as_ref().filter(|_| !self.is_least()) else { return };
            let (mut choices, times) = (best.choices.clone(), best.times.clone());
            for _ in 0..=random.below(3) {
                // The larger of two by chance.
                let (one, other) = (random.below(choices.len()), random.below(choices.len()));
                let at = if self.gaps[one].bytes < self.gaps[other].bytes { other } else { one };
                choices[at] = self.other(at, choices[at], &mut random);
            }
            if choices != best.choices {
                self.evaluate(&choices, &times, 0);
            }
        }
    }

    /// Another choice for a gap, by chance.
    fn other(&self, at: usize, now: Choice, random: &mut Random) -> Choice {
        let encodes = self.encoding(&self.gaps[at]).is_some();
        match (now, encodes && random.chance(128)) {
            (Choice::Stays | Choice::Moves, true) => Choice::Encoded,
            (Choice::Stays, false) => Choice::Moves,
            (Choice::Encoded, true) => Choice::Moves,
            _ => Choice::Stays,
        }
    }

    fn encoding(&self, gap: &Gap) -> Option<crate::relief::Encoding> {
        let encoding = self.graph.storages()[gap.storage as usize].encoding;
        encoding.filter(|one| one.bytes < gap.bytes && (self.terms.lossy || !one.lossy))
    }

    fn times(&self) -> Vec<u64> {
        self.best.as_ref().map_or_else(|| swap::times(self.graph), |best| best.times.clone())
    }

    fn best_choices(&self) -> Vec<Choice> {
        self.best.as_ref().map_or_else(|| self.nothing(), |best| best.choices.clone())
    }

    /// Plans the rest for some choices, on a timeline; gives the new one.
    fn evaluate(&mut self, choices: &[Choice], times: &[u64], work: u64) -> Vec<u64> {
        let of = |wanted| {
            let chosen = self.gaps.iter().zip(choices).filter(move |one| *one.1 == wanted);
            chosen.map(|one| *one.0).collect::<Vec<Gap>>()
        };
        let moved = of(Choice::Moves);
        let placed = swap::place(self.graph, self.link, &moved, times);
        let eager = |gap: &Gap| {
            let &Gap { storage, after, before, .. } = gap;
            Move { storage, after, gone: after + 1, back: before, before, way: Way::Link }
        };
        let mut moves: Vec<Move> = placed
            .into_iter()
            .zip(&moved)
            .map(|(one, gap)| one.unwrap_or_else(|| eager(gap)))
            .collect();
        moves.extend(of(Choice::Encoded).iter().map(Gap::encoded));
        self.evaluate_moves(choices, moves, work)
    }

    fn evaluate_moves(&mut self, choices: &[Choice], moves: Vec<Move>, work: u64) -> Vec<u64> {
        let relief = Relief::with_moves(self.graph, moves);
        let mut planner = relief.recompute(self.terms.budget);
        let first = planner.run_within(self.first, 0);
        if first.feasible {
            self.first = self.first.min((2 * first.work).max(LEAST));
        }
        let mut found = if work > 0 { planner.run(work) } else { first };
        self.spent = self.spent.saturating_add(found.work);
        let times = planner.times();
        if !found.feasible {
            return times;
        }
        if let Ok(outcome) = simulate(self.graph, self.link, &found.steps, self.terms.budget) {
            found.nanos = outcome.nanos;
            if self.best.as_ref().is_none_or(|best| found.nanos < best.found.nanos) {
                let choices = choices.to_vec();
                self.best = Some(Best { found, choices, times: times.clone() });
            }
        }
        times
    }
}
