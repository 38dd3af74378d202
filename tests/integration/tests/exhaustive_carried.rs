//! I4 on small cases, all of them, with what jobs hold between iterations.
//!
//! Two and three jobs, each of which runs two iterations of a few regions, one region at a time: it
//! carries some of the first into the second and frees them there, before it takes more or after,
//! or never; or does nothing any more after the first; or takes a region that stays between the
//! two; or marks no iterations at all. A state is how far each job is, and in which order those
//! wait that have asked to begin. All states that any order of calls leads to are gone through.
//! From each of them, with a budget that lets each job finish beside what the others keep between
//! iterations, all jobs have to finish and nobody may be refused; with less, somebody has to be
//! told, and nobody waits for ever.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::collections::{HashSet, VecDeque};

use zico_core::policy::{Policy, TimeShift};
use zico_core::{
    AllocError, Begin, Block, Bytes, Device as _, Job, JobConfig, Lifetime, Pool, PoolConfig,
    Request, Ticks,
};
use zico_mock::{MockConfig, MockDevice};
use zico_tests::waves::{REGION, Reckless, regions};

/// When what is carried into the second iteration is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// Before that takes anything.
    Before,
    /// When it has taken all it takes.
    After,
    /// Never: the job leaves with it.
    Never,
}

/// What a job does.
#[derive(Clone, Copy, Debug)]
struct Kind {
    first: u64,
    carried: u64,
    freed: Freed,
    /// Of the second iteration, none if there is none: then the job stays for ever with what it
    /// carries.
    second: Option<u64>,
    /// Taken between the two, to stay.
    stays: u64,
    /// Whether iterations are marked.
    marked: bool,
    /// Whether it says what it takes.
    declared: bool,
}

const PLAIN: Kind = Kind {
    first: 2,
    carried: 1,
    freed: Freed::After,
    second: Some(1),
    stays: 0,
    marked: true,
    declared: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    End,
    Take,
    TakeToStay,
    /// Gives back what it has had for longest, or has taken last.
    GiveOldest,
    GiveNewest,
}

impl Kind {
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut some = |step: Step, times: u64| (0..times).for_each(|_| steps.push(step));
        let mark = u64::from(self.marked);
        some(Step::Begin, mark);
        some(Step::Take, self.first);
        some(Step::GiveNewest, self.first - self.carried);
        some(Step::End, mark);
        let Some(second) = self.second else { return steps };
        some(Step::TakeToStay, self.stays);
        some(Step::Begin, mark);
        let early = if self.freed == Freed::Before { self.carried } else { 0 };
        let late = if self.freed == Freed::After { self.carried } else { 0 };
        some(Step::GiveOldest, early);
        some(Step::Take, second);
        some(Step::GiveOldest, late);
        some(Step::GiveNewest, second);
        some(Step::End, mark);
        steps
    }

    /// The most that an iteration holds beside what stays.
    fn peak(&self) -> u64 {
        let carried = if self.freed == Freed::Before { 0 } else { self.carried };
        self.first.max(carried + self.second.unwrap_or(0))
    }

    /// What it holds at any time, and while no iteration of it runs.
    fn ever_and_kept(&self) -> (u64, u64) {
        let ever = self.stays + self.peak();
        (ever, if self.marked { self.stays + self.carried } else { ever })
    }
}

/// A budget that does.
fn enough(kinds: &[Kind]) -> u64 {
    let all = kinds.iter().map(Kind::ever_and_kept);
    let kept: u64 = all.clone().map(|(_, kept)| kept).sum();
    all.map(|(ever, own)| kept - own + ever).max().unwrap()
}

struct Actor {
    job: Option<Job<MockDevice>>,
    steps: Vec<Step>,
    at: usize,
    held: VecDeque<Block>,
    leaves: bool,
}

struct World {
    device: MockDevice,
    pool: Pool<MockDevice>,
    actors: Vec<Actor>,
    /// Those who have asked to begin and wait.
    waiting: Vec<usize>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Done {
    Yes,
    Wait,
    Told(String),
}

impl World {
    fn new(budget: u64, kinds: &[Kind], reckless: bool) -> Self {
        let device =
            MockDevice::new(MockConfig::new(Bytes::gib(1)).budget(regions(budget))).unwrap();
        let policy: Box<dyn Policy> =
            if reckless { Box::new(Reckless) } else { Box::new(TimeShift::default()) };
        let config = PoolConfig::new(regions(budget)).region_size(REGION).policy(policy);
        let pool = Pool::new(device.clone(), config).unwrap();
        let actors = kinds.iter().map(|kind| {
            let terms = JobConfig::default().without_plans();
            let terms = if kind.declared { terms.declare(regions(kind.peak())) } else { terms };
            let job = Some(pool.join(terms, device.add_stream()).unwrap());
            let leaves = kind.second.is_some();
            Actor { job, steps: kind.steps(), at: 0, held: VecDeque::new(), leaves }
        });
        let actors = actors.collect();
        Self { device, pool, actors, waiting: Vec::new() }
    }

    fn after(budget: u64, kinds: &[Kind], reckless: bool, path: &[usize]) -> Self {
        let mut world = Self::new(budget, kinds, reckless);
        path.iter().for_each(|&actor| _ = world.step(actor));
        world
    }

    fn is_over(&self, actor: usize) -> bool {
        let actor = &self.actors[actor];
        actor.at == actor.steps.len() || actor.job.is_none()
    }

    /// A job goes on by a step, if it may.
    fn step(&mut self, who: usize) -> Done {
        let over = self.is_over(who);
        let Actor { job, steps, at, held, leaves } = &mut self.actors[who];
        let (Some(asks), false) = (&*job, over) else { return Done::Wait };
        let mut take = |lifetime, stays: bool| match asks.alloc(Request::new(REGION, lifetime)) {
            Ok(block) => {
                if !stays {
                    held.push_back(block);
                }
                Done::Yes
            }
            Err(AllocError::Busy(_)) => Done::Wait,
            Err(error) => Done::Told(error.to_string()),
        };
        let done = match steps[*at] {
            Step::Begin => match asks.begin(None) {
                Ok(Begin::Started) => Done::Yes,
                Ok(Begin::Wait(_)) => Done::Wait,
                Err(error) => Done::Told(error.to_string()),
            },
            Step::Take => take(Lifetime::Iteration, false),
            Step::TakeToStay => take(Lifetime::Persistent, true),
            Step::GiveOldest => {
                held.pop_front().into_iter().for_each(|block| asks.free(block).unwrap());
                Done::Yes
            }
            Step::GiveNewest => {
                held.pop_back().into_iter().for_each(|block| asks.free(block).unwrap());
                Done::Yes
            }
            Step::End => {
                asks.end().unwrap();
                Done::Yes
            }
        };
        match (&done, steps[*at]) {
            (Done::Wait, Step::Begin) if !self.waiting.contains(&who) => self.waiting.push(who),
            (Done::Yes | Done::Told(_), _) => self.waiting.retain(|&waiting| waiting != who),
            _ => {}
        }
        if done == Done::Yes {
            *at += 1;
        }
        let told = matches!(done, Done::Told(_));
        if told || *leaves && *at == steps.len() {
            drop(job.take());
            held.clear();
        }
        self.pool.poll().unwrap();
        done
    }

    fn state(&self) -> (Vec<(usize, bool)>, Vec<usize>) {
        let actors = self.actors.iter().map(|actor| (actor.at, actor.job.is_some()));
        (actors.collect(), self.waiting.clone())
    }

    /// Lets jobs go on as long as one can. Who was refused, or that nothing goes on.
    fn finish(&mut self) -> Result<Vec<String>, String> {
        let (mut told, mut vain) = (Vec::new(), 0);
        while !(0..self.actors.len()).all(|actor| self.is_over(actor)) {
            let mut moved = false;
            for actor in 0..self.actors.len() {
                loop {
                    match self.step(actor) {
                        Done::Yes => moved = true,
                        Done::Wait => break,
                        Done::Told(why) => {
                            told.push(format!("job {actor}: {why}"));
                            moved = true;
                            break;
                        }
                    }
                }
            }
            vain = if moved { 0 } else { vain + 1 };
            if vain % 2 == 0 && vain > 0 {
                // For a job that does nothing others wait only as long as the pool has patience.
                let now = self.device.now();
                self.device.advance_to(now.saturating_add(Ticks::millis(60_000)));
                self.pool.poll().unwrap();
            }
            if vain > 8 {
                return Err(format!(
                    "nothing goes on in {:?}\n{}",
                    self.state(),
                    self.pool.snapshot()
                ));
            }
        }
        Ok(told)
    }
}

/// Goes through all states. How many there are, or what is wrong in one of them.
fn explore(budget: u64, kinds: &[Kind], reckless: bool) -> Result<usize, String> {
    let is_enough = budget >= enough(kinds);
    let start = World::new(budget, kinds, reckless).state();
    let (mut queue, mut seen) = (VecDeque::from([Vec::new()]), HashSet::from([start]));
    while let Some(path) = queue.pop_front() {
        let case = || format!("budget {budget}, reckless {reckless}, {kinds:?} after {path:?}: ");
        let mut world = World::after(budget, kinds, reckless, &path);
        let told = world.finish().map_err(|error| case() + &error)?;
        if is_enough && !told.is_empty() {
            return Err(case() + &told.join("; "));
        }
        for actor in 0..kinds.len() {
            let mut world = World::after(budget, kinds, reckless, &path);
            if world.is_over(actor) {
                continue;
            }
            world.step(actor);
            if seen.insert(world.state()) {
                queue.push_back([path.as_slice(), &[actor]].concat());
            }
        }
    }
    Ok(seen.len())
}

/// Explores all of the cases on two threads, and panics with what is wrong in how many of them.
fn explore_all(cases: &[(u64, Vec<Kind>)]) -> usize {
    let half = |odd: usize| {
        let (mut states, mut wrong) = (0, Vec::new());
        for (budget, kinds) in cases.iter().skip(odd).step_by(2) {
            for reckless in [false, true] {
                match explore(*budget, kinds, reckless) {
                    Ok(seen) => states += seen,
                    Err(error) => wrong.push(error),
                }
            }
        }
        (states, wrong)
    };
    let (mine, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        (half(0), other.join().unwrap())
    });
    let wrong = [mine.1, other.1].concat();
    let first = wrong.iter().min_by_key(|text| text.len());
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), 2 * cases.len(), first.unwrap());
    mine.0 + other.0
}

/// Kinds of jobs, none of whose second iterations takes more than the first.
fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        Kind { carried: 0, second: Some(2), ..PLAIN },
        PLAIN,
        Kind { freed: Freed::Before, second: Some(2), ..PLAIN },
        Kind { freed: Freed::Never, ..PLAIN },
        Kind { second: None, ..PLAIN },
        Kind { stays: 1, ..PLAIN },
        Kind { marked: false, ..PLAIN },
        Kind { declared: true, ..PLAIN },
        Kind { first: 1, carried: 1, freed: Freed::Before, ..PLAIN },
    ];
    for freed in [Freed::Before, Freed::After, Freed::Never] {
        kinds.push(Kind { first: 3, carried: 2, freed, ..PLAIN });
        kinds.push(Kind { first: 3, stays: 1, freed, second: Some(2), declared: true, ..PLAIN });
    }
    kinds
}

fn pairs(budget: impl Fn(u64) -> Option<u64>) -> Vec<(u64, Vec<Kind>)> {
    let kinds = kinds();
    let pairs = (0..kinds.len()).flat_map(|i| (i..kinds.len()).map(move |j| (i, j)));
    let pairs = pairs.map(|(i, j)| vec![kinds[i], kinds[j]]);
    pairs.filter_map(|pair| Some((budget(enough(&pair))?, pair))).collect()
}

fn triples(budget: impl Fn(u64) -> Option<u64>) -> Vec<(u64, Vec<Kind>)> {
    let kinds = [
        PLAIN,
        Kind { first: 1, freed: Freed::Before, ..PLAIN },
        Kind { second: None, ..PLAIN },
        Kind { marked: false, first: 1, carried: 1, freed: Freed::Before, ..PLAIN },
        Kind { stays: 1, first: 1, carried: 0, ..PLAIN },
    ];
    let all = (0..5).flat_map(|i| (i..5).flat_map(move |j| (j..5).map(move |k| [i, j, k])));
    let all = all.map(|triple| triple.map(|kind| kinds[kind]).to_vec());
    all.filter_map(|triple| Some((budget(enough(&triple))?, triple))).collect()
}

#[test]
fn two_jobs_that_carry_blocks_finish_from_every_state() {
    let states = explore_all(&pairs(Some));
    assert!(states > 5000, "{states} states");
}

#[test]
fn two_jobs_that_carry_blocks_are_told_where_memory_is_short() {
    let states = explore_all(&pairs(|enough| Some(enough - 1).filter(|&budget| budget > 0)));
    assert!(states > 5000, "{states} states");
}

#[test]
fn three_jobs_that_carry_blocks_finish_from_every_state() {
    let states = explore_all(&triples(Some));
    assert!(states > 5000, "{states} states");
}

#[test]
fn three_jobs_that_carry_blocks_are_told_where_memory_is_short() {
    let states = explore_all(&triples(|enough| Some(enough - 1).filter(|&budget| budget > 0)));
    assert!(states > 5000, "{states} states");
}

/// The second iteration takes more than the first, because of what it carries: it may be told so
/// where others run as well, but nobody waits for ever.
#[test]
fn iterations_that_grow_by_what_they_carry_end() {
    let grows = [
        Kind { second: Some(2), ..PLAIN },
        Kind { second: Some(2), freed: Freed::Never, ..PLAIN },
        Kind { first: 3, carried: 3, second: Some(3), ..PLAIN },
    ];
    let pairs =
        grows.into_iter().flat_map(|one| kinds().into_iter().map(move |other| [one, other]));
    let cases = pairs.map(|pair| (enough(&pair) - 1, pair.to_vec()));
    assert!(explore_all(&cases.collect::<Vec<_>>()) > 1000);
}
