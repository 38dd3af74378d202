//! Our planner of everything: what stays, moves over the link, is encoded or runs again, for each
//! storage and each gap between two uses.

use alloc::vec::Vec;

use super::hidden::{self, SMALL};
use crate::relief::random::Random;
use crate::relief::swap::{self, Gap, Move};
use crate::relief::{
    Found, Graph, Link, Recompute, Relief, Step, Terms, lower_bound, sequence, simulate,
};

/// Plans by all that is here, and from what others have found. What each step is for is said at
/// [`joint_within`](crate::relief::joint_within()).
pub(in crate::relief) fn plan(
    graph: &Graph,
    link: &Link,
    terms: Terms,
    work: u64,
    others: &mut dyn Iterator<Item = Found>,
) -> Option<Found> {
    let mut planner = Joint::new(graph, link, terms);
    let each = work / 8;
    let stages: [&mut dyn FnMut(&mut Joint<'_>); 7] = [
        &mut |planner| planner.begin(0),
        &mut |planner| {
            if each > 0 {
                planner.begin(each);
            }
        },
        &mut |planner| planner.wait_for_all(),
        &mut |planner| planner.encode(each),
        &mut |planner| planner.wait(each),
        &mut |planner| planner.others(others),
        &mut |planner| planner.improve(work.saturating_mul(4), each),
    ];
    for stage in stages {
        // Often nothing can be faster than one of the first plans.
        if planner.is_least() {
            break;
        }
        stage(&mut planner);
    }
    let spent = planner.spent;
    planner.best.map(|best| Found { work: spent, ..best.found })
}

/// A first plan of recomputation may always take so much work: some milliseconds.
const LEAST: u64 = 1 << 22;

/// A planning of recomputation ends after so many turns in a row that found nothing: the last three
/// of them work 16 times as long as the first three.
const IN_VAIN: usize = 15;

/// How much slower than the last one a plan may be that the local search goes on from, at first, as
/// a part of the iteration.
const HEAT: f64 = 1.0 / 2048.0;

/// How many changes the local search tries for each gap, at most: a few gaps are searched through
/// long before the work is spent.
const TRIES: usize = 256;

/// What happens to a storage between two uses. What stays may still run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Stays,
    /// As early as the link has come to it, and back as late as nothing has to wait for it; or as
    /// `Waits` where there is not the time for that.
    Moves,
    /// On the device only while it is in use, whatever waits for it.
    Waits,
    Encoded,
}

/// A plan with the choices that led to it.
pub(super) struct Best {
    pub(super) found: Found,
    pub(super) choices: Vec<Choice>,
    /// When operations begin in it, by the timeline.
    pub(super) times: Vec<u64>,
}

pub(super) struct Joint<'a> {
    pub(super) graph: &'a Graph,
    pub(super) link: &'a Link,
    pub(super) terms: Terms,
    pub(super) gaps: Vec<Gap>,
    /// What no plan can be faster than, in nanoseconds.
    least: u64,
    pub(super) best: Option<Best>,
    spent: u64,
    /// What a first plan of recomputation may take: no more than twice what one took that fitted.
    first: u64,
}

impl<'a> Joint<'a> {
    fn new(graph: &'a Graph, link: &'a Link, terms: Terms) -> Self {
        let gaps = gaps(graph, link, terms);
        let least = lower_bound(graph, Some(link), true, terms.budget).unwrap_or(0);
        Self { graph, link, terms, gaps, least, best: None, spent: 0, first: Recompute::FIRST }
    }

    pub(super) fn nothing(&self) -> Vec<Choice> {
        alloc::vec![Choice::Stays; self.gaps.len()]
    }

    /// Recomputation alone, and with transfers that nothing waits for.
    fn begin(&mut self, work: u64) {
        let plain = swap::times(self.graph);
        let (_, longer) = self.evaluate(&self.nothing(), &plain, work);
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

    /// Whether nothing can be faster.
    pub(super) fn is_least(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.found.nanos <= self.least)
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
                self.evaluate(&choices, &times, work);
            }
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

    /// A local search over choices, one gap or a few at a time, with recomputation planned in one
    /// go; then recomputation is worked on for the best.
    fn improve(&mut self, work: u64, each: u64) {
        let mut random = Random::new(3);
        let (begin, search) = (self.spent, work / 4 * 3);
        // A planning costs this much at least, so that the end is reached.
        let least = 64 + self.graph.operations().len() as u64 * 16;
        let mut now = (self.best_choices(), self.times(), u64::MAX);
        let most = self.gaps.len().saturating_mul(TRIES);
        for tried in 0..most {
            if self.spent - begin >= search {
                break;
            }
            self.spent += least;
            let mut choices = now.0.clone();
            for _ in 0..=random.below(3) {
                // The larger of two by chance.
                let (one, other) = (random.below(choices.len()), random.below(choices.len()));
                let at = if self.gaps[one].bytes < self.gaps[other].bytes { other } else { one };
                choices[at] = self.other(at, choices[at], &mut random);
            }
            if now.2 == u64::MAX {
                choices.clone_from(&now.0);
            }
            let (nanos, times) = self.evaluate(&choices, &now.1, 0);
            if self.is_least() {
                return;
            }
            let done = (self.spent - begin) as f64 / search as f64;
            let left = 1.0 - done.max(tried as f64 / most as f64);
            let heat = self.graph.nanos() as f64 * HEAT * left.max(0.0);
            if nanos as f64 <= now.2 as f64 + heat * random.exponential() {
                now = (choices, times, nanos);
            }
        }
        self.evaluate(&now.0, &now.1, each);
        let (choices, times) = (self.best_choices(), self.times());
        self.evaluate(&choices, &times, each);
    }

    /// Another choice for a gap, by chance.
    fn other(&self, at: usize, now: Choice, random: &mut Random) -> Choice {
        let encodes = self.encoding(&self.gaps[at]).is_some();
        match (now, encodes && random.chance(128), random.chance(64)) {
            (Choice::Stays | Choice::Moves | Choice::Waits, true, _) => Choice::Encoded,
            (Choice::Stays | Choice::Moves, _, true) => Choice::Waits,
            (Choice::Stays, ..) | (Choice::Encoded, true, _) => Choice::Moves,
            (Choice::Waits, ..) if random.chance(128) => Choice::Moves,
            _ => Choice::Stays,
        }
    }

    fn encoding(&self, gap: &Gap) -> Option<crate::relief::Encoding> {
        let encoding = self.graph.storages()[gap.storage as usize].encoding;
        encoding.filter(|one| one.bytes < gap.bytes && (self.terms.lossy || !one.lossy))
    }

    pub(super) fn times(&self) -> Vec<u64> {
        self.best.as_ref().map_or_else(|| swap::times(self.graph), |best| best.times.clone())
    }

    pub(super) fn best_choices(&self) -> Vec<Choice> {
        self.best.as_ref().map_or_else(|| self.nothing(), |best| best.choices.clone())
    }

    /// Plans the rest for some choices, on a timeline; gives the time, as large as can be where
    /// that does not fit, and the new timeline.
    pub(super) fn evaluate(
        &mut self,
        choices: &[Choice],
        times: &[u64],
        work: u64,
    ) -> (u64, Vec<u64>) {
        let of = |wanted| {
            let chosen = self.gaps.iter().zip(choices).filter(move |one| *one.1 == wanted);
            chosen.map(|one| *one.0).collect::<Vec<Gap>>()
        };
        let moved = of(Choice::Moves);
        let placed = swap::place(self.graph, self.link, &moved, times);
        let mut moves: Vec<Move> = placed
            .into_iter()
            .zip(&moved)
            .map(|(one, gap)| one.unwrap_or_else(|| gap.waits()))
            .collect();
        moves.extend(of(Choice::Waits).iter().map(Gap::waits));
        moves.extend(of(Choice::Encoded).iter().map(Gap::encoded));
        self.evaluate_moves(choices, moves, work)
    }

    fn evaluate_moves(
        &mut self,
        choices: &[Choice],
        moves: Vec<Move>,
        work: u64,
    ) -> (u64, Vec<u64>) {
        let relief = Relief::with_moves(self.graph, moves);
        let mut planner = relief.recompute(self.terms.budget);
        let first = planner.run_within(self.first, 0, 0);
        if first.feasible {
            self.first = self.first.min((2 * first.work).max(LEAST));
        }
        let mut found = if work > 0 { planner.run_within(0, work, IN_VAIN) } else { first };
        self.spent = self.spent.saturating_add(found.work);
        let times = planner.times();
        let waits = relief.moves.iter().any(|one| one.back == one.before);
        self.consider(&mut found, waits);
        let nanos = found.nanos;
        if found.feasible && self.best.as_ref().is_none_or(|best| nanos < best.found.nanos) {
            let choices = choices.to_vec();
            self.best = Some(Best { found, choices, times: times.clone() });
        }
        (nanos, times)
    }

    /// Whether steps fit, and their time, by the simulator; where something waits for a transfer
    /// back, also with transfers that begin earlier.
    fn consider(&self, found: &mut Found, waits: bool) {
        let budget = self.terms.budget;
        let nanos = |steps: &[Step]| {
            simulate(self.graph, self.link, steps, budget).ok().map(|outcome| outcome.nanos)
        };
        let own = nanos(&found.steps);
        (found.feasible, found.nanos) = (own.is_some(), own.unwrap_or(u64::MAX));
        if !waits {
            return;
        }
        for lead in [1, 4] {
            let steps = sequence::earlier(self.graph, self.link, &found.steps, budget, lead);
            if let Some(nanos) = nanos(&steps).filter(|&nanos| nanos < found.nanos) {
                (found.steps, found.nanos, found.feasible) = (steps, nanos, true);
            }
        }
    }
}

/// Where storages can be away: large ones, or all of them where that is too little.
fn gaps(graph: &Graph, link: &Link, terms: Terms) -> Vec<Gap> {
    let largest = graph.storages().iter().map(|storage| storage.bytes).max().unwrap_or(0);
    let (live, units) = (graph.live(), Relief::new(graph).problem);
    let of = |least| {
        let mut gaps = swap::gaps_to_end(graph, least);
        // Only what is away while something is over the budget can be worth it, and nothing moves
        // while its unit runs.
        gaps.retain(|gap| {
            let range = gap.after as usize + 1..gap.before as usize;
            units.stage(gap.after) < units.stage(gap.before)
                && live[range].iter().any(|&bytes| bytes > terms.budget)
        });
        gaps
    };
    let gaps = of(largest / SMALL);
    let moves: Vec<Move> = gaps.iter().map(Gap::waits).collect();
    let steps = sequence::without_recomputation(graph, &moves);
    if simulate(graph, link, &steps, terms.budget).is_ok() { gaps } else { of(1) }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::relief::{Operation, Storage};

    /// Four operations and their way back, which reads each again.
    fn there_and_back() -> Graph {
        let reads =
            [vec![], vec![0], vec![1], vec![2], vec![3], vec![4, 2], vec![5, 1], vec![6, 0]];
        let operation = |(at, reads): (u32, &Vec<u32>)| Operation {
            reads: reads.clone(),
            writes: vec![at],
            nanos: 1000,
            repeatable: true,
        };
        let operations = (0..).zip(&reads).map(operation).collect();
        Graph::new(vec![Storage::new(100); reads.len()], operations).unwrap()
    }

    fn link(rate: u64) -> Link {
        Link { out: rate, back: rate, latency: 0 }
    }

    const TERMS: Terms = Terms { budget: 350, lossy: false };
    const WORK: u64 = 1 << 27;

    #[test]
    fn a_few_gaps_are_searched_through_long_before_the_work_is_spent() {
        let (graph, link) = (there_and_back(), link(1_000_000_000));
        let mut planner = Joint::new(&graph, &link, TERMS);
        planner.begin(0);
        let before = planner.spent;
        planner.improve(WORK, WORK / 8);
        assert!(planner.best.is_some() && !planner.is_least() && !planner.gaps.is_empty());
        assert!(planner.spent - before < WORK / 2, "{}", planner.spent - before);
    }

    #[test]
    fn recomputation_ends_long_before_the_work_is_spent_where_it_finds_nothing() {
        let (graph, link) = (there_and_back(), link(1));
        let mut planner = Joint::new(&graph, &link, TERMS);
        planner.begin(WORK);
        assert!(planner.best.is_some() && !planner.is_least());
        assert!(planner.spent < WORK, "{}", planner.spent);
    }

    #[test]
    fn nothing_is_looked_for_where_the_first_plan_takes_no_longer() {
        let (graph, link) = (there_and_back(), link(1_000_000_000_000));
        let terms = Terms { budget: 450, lossy: false };
        assert!(graph.peak() > terms.budget);
        let found = plan(&graph, &link, terms, WORK, &mut core::iter::empty()).unwrap();
        assert_eq!(found.nanos, graph.nanos());
        assert!(found.work < WORK / 1024, "{}", found.work);
    }
}
