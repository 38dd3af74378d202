//! A component, its best plan so far, and what is done next to find a lower one.

use alloc::vec::Vec;

use super::greedy::{self, Fit, Order};
use super::problem::Component;
use super::search::{Conflicts, Ground, Outcome, Search};
use super::skyline::{self, Taste};
use super::squeaky::Wheel;
use super::{Block, extent};

/// More blocks than this are not placed by orders, which takes the square of their number.
const ORDERED: usize = 4096;
/// The steps of the first turn of the exact search.
const TURN: u64 = 1 << 14;
/// How many fast plans learn from those before them.
const TURNS_OF_THE_WHEEL: usize = 40;

#[derive(Debug)]
pub(super) struct Part {
    pub(super) component: Component,
    pub(super) best: Vec<u64>,
    pub(super) height: u64,
    /// The largest live sum.
    pub(super) bound: u64,
    /// There is no plan below this: the bound, or more where the search has shown it.
    pub(super) least: u64,
    /// How many of the fast plans have been made.
    fast: usize,
    wheel: Wheel,
    conflicts: Option<Conflicts>,
    /// The search at the height that is asked for.
    goal: Option<(u64, Search)>,
    /// A search at a height between that and the best: easier, and something at any rate.
    between: Option<(u64, Search)>,
    /// How far up between these two that is, in eighths.
    ease: u64,
    turn: u64,
    /// What is left of this turn: for the search between, then for the one at the goal.
    turns: [u64; 2],
    /// Nothing more can be done.
    stuck: bool,
}

impl Part {
    /// With the first fast plan.
    pub(super) fn new(component: Component) -> Self {
        let bound = component.bound();
        let mut part = Self {
            best: Vec::new(),
            height: u64::MAX,
            bound,
            least: bound,
            fast: 0,
            wheel: Wheel::new(component.len()),
            conflicts: None,
            goal: None,
            between: None,
            ease: 4,
            turn: TURN,
            turns: [TURN / 4, TURN],
            stuck: false,
            component,
        };
        part.next_fast();
        part
    }

    /// Whether work could bring it down to `goal`.
    pub(super) fn can_improve(&self, goal: u64) -> bool {
        self.height > goal.max(self.least) && !self.stuck
    }

    /// The next thing to do for a plan of at most `goal`, which somebody `asked` for or is the least that
    /// can be, in at most `work` steps, which are counted down.
    pub(super) fn improve(&mut self, goal: u64, asked: bool, work: &mut u64) {
        if let Some(steps) = self.next_fast() {
            *work = work.saturating_sub(steps);
        } else if self.component.conflicts() > Conflicts::MOST {
            self.stuck = true;
        } else {
            self.search(goal.max(self.least), asked, work);
        }
    }

    /// The next fast plan, and what it took in steps; nothing if there are no more.
    fn next_fast(&mut self) -> Option<u64> {
        let c = &self.component;
        let (n, which) = (c.len() as u64, self.fast);
        let (offsets, steps) = if let Some(&taste) = Taste::ALL.get(which) {
            (skyline::plan(c, taste, &alloc::vec![1; c.len()]), n)
        } else if which < Taste::ALL.len() + TURNS_OF_THE_WHEEL {
            (self.wheel.turn(c), n)
        } else {
            let fit =
                *[Fit::First, Fit::Best].get(which - Taste::ALL.len() - TURNS_OF_THE_WHEEL)?;
            if c.len() > ORDERED {
                return None;
            }
            (greedy::plan(c, &greedy::order(c, Order::Size), fit), n)
        };
        self.fast += 1;
        self.keep(offsets);
        Some(steps)
    }

    fn keep(&mut self, offsets: Vec<u64>) {
        let height = self.component.height(&offsets);
        if height < self.height {
            (self.best, self.height) = (offsets, height);
        }
    }

    /// One turn of a search, or what is left of it.
    fn search(&mut self, goal: u64, asked: bool, work: &mut u64) {
        let between = goal + (self.height - 1 - goal) / 8 * self.ease;
        let which = usize::from(self.turns[1] > 0 || between == goal);
        let aim = [between, goal][which];
        let slot = if which == 0 { &mut self.between } else { &mut self.goal };
        let conflicts = self.conflicts.get_or_insert_with(|| Conflicts::new(&self.component));
        let ground = Ground { component: &self.component, conflicts, capacity: aim };
        let search = match slot {
            Some((old, search)) if *old == aim => search,
            _ => &mut slot.insert((aim, Search::new(&ground))).1,
        };
        let turn = &mut self.turns[which];
        let mut steps = (*turn).min(*work);
        *turn -= steps;
        *work -= steps;
        let outcome = search.run(&ground, &mut steps);
        *turn += steps;
        *work += steps;
        match outcome {
            Outcome::Found => {
                let offsets = search.offsets().to_vec();
                self.between = None;
                self.ease = 4;
                self.keep(offsets);
            }
            Outcome::Impossible => {
                self.least = aim + 1;
                self.between = None;
                self.goal = None;
            }
            Outcome::Open => {}
        }
        if self.turns[which] > 0 {
            return;
        }
        if which == 0 {
            // That was too hard: something easier the next time.
            self.between = None;
            self.ease = (self.ease + 1).min(7);
        }
        if which == 0 || between == goal {
            self.turn = self.turn.saturating_mul(2);
            // Who asks for a height is not helped by a plan that is a little lower than the last.
            self.turns = [if asked { self.turn / 4 } else { self.turn }, self.turn];
        }
    }
}

/// The preference for plans whose regions empty early.
impl Part {
    /// Makes those fast plans that are measured below.
    pub(super) fn all_tastes(&mut self) {
        while self.fast < Taste::ALL.len() && self.next_fast().is_some() {}
    }

    /// Of the best plan, the fast plans and their mirror images, those up to `height`, the one with the
    /// fewest regions in use over time.
    pub(super) fn settled(&self, blocks: &[Block], region: u64, height: u64) -> Vec<u64> {
        let c = &self.component;
        let fast =
            Taste::ALL.into_iter().map(|taste| skyline::plan(c, taste, &alloc::vec![1; c.len()]));
        let upright: Vec<Vec<u64>> = fast.filter(|plan| c.height(plan) <= height).collect();
        let all = [&self.best].into_iter().chain(&upright);
        let mirrored: Vec<Vec<u64>> = all.clone().filter_map(|plan| mirror(c, plan)).collect();
        let measure = |plan: &&Vec<u64>| {
            let placed = c.ids.iter().map(|&id| blocks[id as usize]).zip(plan.iter().copied());
            extent::of(&placed.collect::<Vec<_>>(), region.max(1)).region_moments
        };
        all.chain(&mirrored).min_by_key(measure).unwrap_or(&self.best).clone()
    }
}

/// A plan upside down, unless alignments forbid it.
fn mirror(c: &Component, plan: &[u64]) -> Option<Vec<u64>> {
    let height = c.height(plan);
    let turned: Vec<u64> = plan.iter().zip(&c.size).map(|(at, size)| height - at - size).collect();
    turned.iter().zip(&c.align).all(|(at, align)| at % align == 0).then_some(turned)
}
