//! The setup that a seed determines before the jobs start.

use std::fmt;
use std::ops::RangeInclusive;

use fastrand::Rng;
use zico_core::HandOver;
use zico_core::policy::Policy;
use zico_mock::replay::PolicyKind;

use super::bound::{Most, enough};
use super::script::{Common, Ending, Marks, Op, Script};
use crate::waves::Reckless;

/// How many iterations a policy takes it that each job does: more than any script has.
const ITERATIONS: u64 = 1000;

/// The jobs and the pool of one run.
#[derive(Clone)]
pub struct Setup {
    /// For the order of the steps.
    pub seed: u64,
    /// What the jobs do.
    pub scripts: Vec<Script>,
    /// What each of them takes at most.
    pub most: Vec<Most>,
    /// Whether the budget suffices.
    pub enough: bool,
    /// The least budget that suffices, in regions.
    pub least: u64,
    /// The budget, in regions.
    pub budget: u64,
    /// None for the policy that admits all.
    pub policy: Option<PolicyKind>,
    /// How memory passes from one job to another.
    pub hand_over: HandOver,
    /// Fewer calls of the device rather than least memory.
    pub fewest_calls: bool,
    /// The budget changes now and then, but is never less than it was at the beginning.
    pub changes: bool,
    /// Beyond the least budget, or of it, in 64ths.
    share: u64,
}

impl Setup {
    /// The setup of a seed. Every second one has a budget that does not suffice, if possible.
    #[must_use]
    pub fn draw(seed: u64, jobs: RangeInclusive<usize>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let common = Common { whole: rng.u8(..3) > 0 };
        // Two and three are the most telling.
        let count = rng.usize(jobs.clone()).min(rng.usize(jobs));
        let mut scripts: Vec<Script> = (0..count).map(|_| Script::draw(&mut rng, common)).collect();
        if seed % 5 == 1 {
            let mut rng = Rng::with_seed(!seed);
            scripts.iter_mut().for_each(|script| script.draw_pace(&mut rng));
        }
        if seed % 5 == 2 {
            let mut rng = Rng::with_seed(!seed);
            scripts.iter_mut().for_each(|script| script.draw_turns(&mut rng));
        }
        if seed % 5 == 3 {
            let mut rng = Rng::with_seed(!seed);
            scripts.iter_mut().for_each(|script| script.draw_follows(&mut rng));
        }
        if seed % 7 == 3 {
            let mut rng = Rng::with_seed(!seed ^ 1);
            scripts.iter_mut().for_each(|script| script.draw_interruptible(&mut rng));
        }
        let kinds = PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_every_peak());
        let kinds: Vec<PolicyKind> = kinds.collect();
        let policy = match rng.u8(..8) {
            0..4 => Some(PolicyKind::Zico),
            4 | 5 => None,
            _ => Some(kinds[rng.usize(..kinds.len())]),
        };
        let share = if rng.bool() { 0 } else { rng.u64(..64) };
        let mut setup = Self {
            seed,
            scripts,
            most: Vec::new(),
            enough: !seed.is_multiple_of(4),
            least: 0,
            budget: 0,
            policy,
            hand_over: [HandOver::Fenced, HandOver::Isolated][rng.usize(..2)],
            fewest_calls: seed % 3 == 1,
            changes: rng.u8(..6) == 0,
            share,
        };
        setup.settle();
        setup
    }

    /// Whether all jobs mark their iterations and hold between them only what they declare
    /// persistent.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let marked = self.scripts.iter().all(|script| script.marks == Marks::Marked);
        marked && self.most.iter().all(|most| most.carried == 0)
    }

    /// Works out the budget.
    fn settle(&mut self) {
        self.most = self.scripts.iter().map(Most::of).collect();
        self.least = enough(&self.scripts, &self.most);
        self.enough |= self.least == 1;
        self.budget = if self.enough {
            self.least + self.least * self.share / 128
        } else {
            (self.least * (63 - self.share / 2) / 64).clamp(1, self.least - 1)
        };
    }

    pub(super) fn policy(&self) -> Box<dyn Policy> {
        let kind = self.policy.and_then(|kind| kind.policy(ITERATIONS));
        kind.unwrap_or(Box::new(Reckless))
    }

    /// Setups with a little less in them.
    pub(super) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut smaller = self.clone();
            change(&mut smaller);
            smaller.settle();
            all.push(smaller);
        };
        for job in 0..self.scripts.len() {
            if self.scripts.len() > 1 {
                add(&|setup| drop(setup.scripts.remove(job)));
            }
        }
        if self.changes {
            add(&|setup| setup.changes = false);
        }
        for (job, script) in self.scripts.iter().enumerate() {
            for (at, op) in script.ops.iter().enumerate() {
                match *op {
                    Op::Begin => {
                        let end = script.ops[at..].iter().position(|&op| op == Op::End);
                        let end = end.map(|end| at + end);
                        // Without the marks, what happens in between would mean something else.
                        if let Some(end) = end.filter(|&end| end == at + 1) {
                            add(&|setup| drop(setup.scripts[job].ops.drain(at..=end)));
                        }
                    }
                    Op::End => {}
                    Op::Alloc(slot, ..) => add(&|setup| {
                        let names = |op: &Op| match *op {
                            Op::Alloc(s, ..)
                            | Op::Free(s)
                            | Op::FreeElsewhere(s)
                            | Op::UseElsewhere(s) => s == slot,
                            _ => false,
                        };
                        setup.scripts[job].ops.retain(|op| !names(op));
                    }),
                    _ => add(&|setup| _ = setup.scripts[job].ops.remove(at)),
                }
            }
            if script.pace.is_some() {
                add(&|setup| setup.scripts[job].pace = None);
            }
            if script.slice.is_some() {
                add(&|setup| setup.scripts[job].slice = None);
            }
            if script.follows {
                add(&|setup| setup.scripts[job].follows = false);
            }
            if script.interruptible {
                add(&|setup| setup.scripts[job].interruptible = false);
            }
            if script.priority != 0 {
                add(&|setup| setup.scripts[job].priority = 0);
            }
            if script.floor > 0 {
                add(&|setup| setup.scripts[job].floor = 0);
            }
            if script.ending != Ending::Leave {
                add(&|setup| setup.scripts[job].ending = Ending::Leave);
            }
        }
        all
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} regions where {} do, policy {}, {:?}{}{}",
            self.seed,
            self.budget,
            self.least,
            self.policy.map_or("Reckless".to_owned(), |kind| format!("{kind:?}")),
            self.hand_over,
            if self.fewest_calls { ", fewest calls" } else { "" },
            if self.changes { ", the budget changes" } else { "" },
        )?;
        for (job, (script, most)) in self.scripts.iter().zip(&self.most).enumerate() {
            let Script { marks, declares, floor, capped, planned, ops, ending, .. } = script;
            let Script { pace, slice, follows, interruptible, priority, .. } = script;
            writeln!(
                f,
                "job {job}: {marks:?}, {ending:?} in the end, floor {floor}, declares {declares}, \
                 capped {capped}, planned {planned}, pace {pace:?}, slice {slice:?}, \
                 follows {follows}, interruptible {interruptible}, priority {priority}; {most:?}"
            )?;
            for op in ops {
                write!(f, "  {op}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => write!(f, "begin"),
            Self::End => write!(f, "end\n "),
            Self::Alloc(block, bytes, lifetime) => {
                let lifetime = lifetime.map_or("learned".to_owned(), |l| format!("{l:?}"));
                write!(f, "#{block} = {lifetime}({bytes})")
            }
            Self::Free(block) => write!(f, "free #{block}"),
            Self::FreeElsewhere(block) => write!(f, "another thread frees #{block}"),
            Self::UseElsewhere(block) => write!(f, "another stream uses #{block}"),
            Self::Launch(micros) => write!(f, "launch {micros} us"),
            Self::Mute(steps) => write!(f, "no events for {steps} steps"),
            Self::Sleep => write!(f, "sleep"),
            Self::Suspend => write!(f, "suspend"),
            Self::Resume => write!(f, "resume"),
        }
    }
}
