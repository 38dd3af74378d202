//! Our planner of everything: what stays, moves over the link, is encoded or runs again, for each
//! storage and each gap between two uses.

use alloc::vec::Vec;

use super::{gaps, hidden};
use crate::relief::swap::{self, Ends, Gap, Move, Way};
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
    let each = work / 32;
    let stages: [&mut dyn FnMut(&mut Joint<'_>); 8] = [
        &mut |planner| planner.begin(),
        &mut |planner| planner.cover(),
        &mut |planner| planner.wait_for_all(),
        &mut |planner| planner.encode(),
        &mut |planner| planner.wait(),
        &mut |planner| planner.others(others),
        &mut |planner| planner.work_on(each),
        &mut |planner| planner.improve(work, each),
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

/// The first one of all may take so much for each operation: about 0.2 seconds for a thousand.
const EACH: u64 = 1 << 16;

/// A planning of recomputation ends after so many turns in a row that found nothing: the last three
/// of them work 16 times as long as the first three.
const IN_VAIN: usize = 15;

/// For so many of the starting points recomputation is planned for longer.
const BEST: usize = 8;

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
    /// Of what persists: on the host between iterations.
    Hosted,
}

/// A plan with the choices that led to it.
pub(super) struct Best {
    pub(super) found: Found,
    pub(super) choices: Vec<Choice>,
    /// When operations begin in it, by the timeline.
    pub(super) times: Vec<u64>,
}

/// Choices that led to a plan of so many nanoseconds, with the timeline on which they were placed.
struct Tried {
    nanos: u64,
    choices: Vec<Choice>,
    times: Vec<u64>,
}

pub(super) struct Joint<'a> {
    pub(super) graph: &'a Graph,
    pub(super) link: &'a Link,
    pub(super) terms: Terms,
    pub(super) gaps: Vec<Gap>,
    /// Before or after the iteration there is more than the budget.
    hosts: bool,
    /// What no plan can be faster than, in nanoseconds.
    least: u64,
    pub(super) best: Option<Best>,
    tried: Vec<Tried>,
    /// What the last planning could not free, during each operation; none where that fits.
    pub(super) lacks: Vec<u64>,
    pub(super) spent: u64,
    /// What a first plan of recomputation may take: no more than twice what one took that fitted, and
    /// half of what one took in vain.
    first: u64,
}

impl<'a> Joint<'a> {
    fn new(graph: &'a Graph, link: &'a Link, terms: Terms) -> Self {
        let gaps = gaps::of(graph, link, terms);
        let least = lower_bound(graph, Some(link), true, terms.budget).unwrap_or(0);
        let hosts = gaps::hosts(graph, terms.budget);
        let first = Recompute::FIRST.min(graph.operations().len() as u64 * EACH).max(LEAST);
        let (best, tried, lacks) = (None, Vec::new(), Vec::new());
        Self { graph, link, terms, gaps, hosts, least, best, tried, lacks, spent: 0, first }
    }

    /// The way of a storage to the host in a gap: what persists is there between iterations where
    /// not all of it fits.
    pub(super) fn away(&self, gap: &Gap) -> Choice {
        if self.hosts && gap.may_be_hosted(self.graph) { Choice::Hosted } else { Choice::Moves }
    }

    pub(super) fn nothing(&self) -> Vec<Choice> {
        alloc::vec![Choice::Stays; self.gaps.len()]
    }

    /// Recomputation alone, and with transfers that nothing waits for: with what was there before
    /// the iteration among them, and without.
    fn begin(&mut self) {
        let plain = swap::times(self.graph);
        let (_, longer) = self.try_out(&self.nothing(), &plain);
        let initial = |gap: &Gap| self.graph.storages()[gap.storage as usize].initial;
        let states: &[bool] = match self.gaps.iter().any(initial) {
            true if self.hosts => &[true],
            true => &[false, true],
            false => &[false],
        };
        for &state in states {
            for by_cost in [false, true] {
                for times in [&plain, &longer] {
                    if self.is_least() {
                        return;
                    }
                    let way = hidden::Order { by_cost, state };
                    let moves = hidden::moves(self.graph, self.link, self.terms.budget, times, way);
                    if !moves.is_empty() {
                        self.try_out(&self.choices_of(&moves), times);
                    }
                }
            }
        }
    }

    /// Plans recomputation for longer for the best choices so far, and for none.
    fn work_on(&mut self, work: u64) {
        if work == 0 {
            return;
        }
        let mut tried = core::mem::take(&mut self.tried);
        tried.sort_by_key(|one| one.nanos);
        tried.dedup_by(|one, other| one.choices == other.choices);
        tried.truncate(BEST);
        let plain = Tried { nanos: 0, choices: self.nothing(), times: swap::times(self.graph) };
        for one in tried.into_iter().chain([plain]) {
            if self.is_least() {
                return;
            }
            self.evaluate(&one.choices, &one.times, work);
        }
        self.with_waits(work);
    }

    /// Whether nothing can be faster.
    pub(super) fn is_least(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.found.nanos <= self.least)
    }

    /// Encodings, those first that free most in the gap for their time, beside the best so far.
    fn encode(&mut self) {
        let mut all: Vec<(f64, usize)> = Vec::new();
        for (at, gap) in self.gaps.iter().enumerate() {
            if let Some(encoding) = self.encoding(gap) {
                let freed =
                    (gap.bytes - encoding.bytes) as f64 * f64::from(gap.before - gap.from + 1);
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
                self.try_out(&choices, &times);
            }
        }
    }

    fn choices_of(&self, moves: &[Move]) -> Vec<Choice> {
        let mut choices = self.nothing();
        for one in moves {
            let key = (one.storage, one.before);
            let at = self.gaps.iter().position(|gap| (gap.storage, gap.before) == key);
            match (at, one.way) {
                (Some(at), Way::Link(Ends::Both) | Way::Encoded) => choices[at] = Choice::Moves,
                (Some(at), Way::Link(Ends::Back | Ends::Neither)) => choices[at] = Choice::Hosted,
                _ => {}
            }
        }
        choices
    }

    pub(super) fn encoding(&self, gap: &Gap) -> Option<crate::relief::Encoding> {
        let encoding = self.graph.storages()[gap.storage as usize].encoding;
        encoding.filter(|one| one.bytes < gap.bytes && (self.terms.lossy || !one.lossy))
    }

    pub(super) fn times(&self) -> Vec<u64> {
        self.best.as_ref().map_or_else(|| swap::times(self.graph), |best| best.times.clone())
    }

    pub(super) fn best_choices(&self) -> Vec<Choice> {
        self.best.as_ref().map_or_else(|| self.nothing(), |best| best.choices.clone())
    }

    /// The same without further work, as a starting point.
    pub(super) fn try_out(&mut self, choices: &[Choice], times: &[u64]) -> (u64, Vec<u64>) {
        let (nanos, found) = self.evaluate(choices, times, 0);
        if nanos < u64::MAX {
            let (choices, times) = (choices.to_vec(), times.to_vec());
            self.tried.push(Tried { nanos, choices, times });
        }
        (nanos, found)
    }

    /// Plans the rest for some choices, on a timeline; gives the time, as large as can be where
    /// that does not fit, and the new timeline.
    pub(super) fn evaluate(
        &mut self,
        choices: &[Choice],
        times: &[u64],
        work: u64,
    ) -> (u64, Vec<u64>) {
        let chosen = || self.gaps.iter().zip(choices);
        let mut hosted = alloc::vec![false; self.graph.storages().len()];
        for (gap, _) in chosen().filter(|one| *one.1 == Choice::Hosted) {
            hosted[gap.storage as usize] = true;
        }
        // From its last use on, what is on the host between iterations is there.
        let is_of_end =
            |gap: &Gap| gap.from > 0 && gap.before as usize == self.graph.operations().len();
        let of = |wanted| {
            let own = move |one: &(&Gap, &Choice)| *one.1 == wanted;
            let own = chosen().filter(own).map(|one| *one.0);
            own.filter(|gap| !hosted[gap.storage as usize] || !is_of_end(gap)).collect::<Vec<Gap>>()
        };
        let mut moved = of(Choice::Moves);
        moved.extend(of(Choice::Hosted).iter().flat_map(|gap| gap.hosted(self.graph)));
        let placed = swap::place(self.graph, self.link, &moved, times);
        let mut moves: Vec<Move> = placed
            .into_iter()
            .zip(&moved)
            .map(|(one, gap)| one.unwrap_or_else(|| gap.waits()))
            .collect();
        moves.extend(of(Choice::Waits).iter().map(Gap::waits));
        moves.extend(of(Choice::Encoded).iter().map(Gap::encoded));
        let relief = Relief::with_moves(self.graph, moves);
        let mut planner = relief.recompute(self.terms.budget);
        let first = planner.run_within(self.first, 0, 0);
        let limit = if first.feasible { 2 * first.work } else { self.first / 2 };
        self.first = self.first.min(limit.max(LEAST));
        let mut found = if work > 0 { planner.run_within(0, work, IN_VAIN) } else { first };
        self.spent = self.spent.saturating_add(found.work);
        self.lacks = planner.lacks();
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
        planner.begin();
        let before = planner.spent;
        planner.improve(WORK, WORK / 8);
        assert!(planner.best.is_some() && !planner.is_least() && !planner.gaps.is_empty());
        assert!(planner.spent - before < WORK / 2, "{}", planner.spent - before);
    }

    #[test]
    fn recomputation_ends_long_before_the_work_is_spent_where_it_finds_nothing() {
        let (graph, link) = (there_and_back(), link(1));
        let mut planner = Joint::new(&graph, &link, TERMS);
        planner.begin();
        planner.work_on(WORK);
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
