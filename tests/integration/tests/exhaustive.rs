//! I4 by exhaustive search of small cases: from every reachable state all jobs can finish.
//!
//! Two and three jobs, each of which takes a region at a time up to its maximum and then gives all
//! back, under a policy that admits all iterations. A state is how many regions each job holds and
//! whether it still wants more. All states that any order of calls leads to are gone through; in
//! each of them some order of finishing the jobs, one after the other, has to be possible.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::collections::{HashSet, VecDeque};

use zico_core::{
    AllocError, Begin, Block, Bytes, Job, JobConfig, Lifetime, Pool, PoolConfig, Request,
};
use zico_mock::{MockConfig, MockDevice};
use zico_tests::waves::{REGION, Reckless, regions};

/// One job and what it holds.
struct Actor {
    job: Job<MockDevice>,
    most: u64,
    held: Vec<Block>,
    /// It has had all that it wanted, and only gives back.
    falling: bool,
}

/// What can be seen of a job.
type State = Vec<(usize, bool)>;

struct World {
    pool: Pool<MockDevice>,
    actors: Vec<Actor>,
}

impl World {
    fn new(budget: u64, most: &[u64]) -> Self {
        let device =
            MockDevice::new(MockConfig::new(Bytes::gib(1)).budget(regions(budget))).unwrap();
        let config =
            PoolConfig::new(regions(budget)).region_size(REGION).policy(Box::new(Reckless));
        let pool = Pool::new(device.clone(), config).unwrap();
        let actors = most.iter().map(|&most| {
            let terms = JobConfig::default().declare(regions(most));
            let job = pool.join(terms, device.add_stream()).unwrap();
            assert_eq!(job.begin(None).unwrap(), Begin::Started);
            Actor { job, most, held: Vec::new(), falling: false }
        });
        let actors = actors.collect();
        Self { pool, actors }
    }

    /// The state space of these jobs' steps.
    fn after(budget: u64, most: &[u64], path: &[usize]) -> Self {
        let mut world = Self::new(budget, most);
        path.iter().for_each(|&actor| {
            world.step(actor);
        });
        world
    }

    /// A job takes a region more, or gives one back once it has had its most. Whether it could.
    fn step(&mut self, actor: usize) -> bool {
        let Actor { job, most, held, falling } = &mut self.actors[actor];
        if *falling {
            let Some(block) = held.pop() else { return false };
            job.free(block).unwrap();
        } else {
            match job.alloc(Request::new(REGION, Lifetime::Iteration)) {
                Ok(block) => held.push(block),
                Err(AllocError::Busy(_)) => return false,
                Err(error) => panic!("{error}"),
            }
            *falling = held.len() as u64 == *most;
        }
        self.pool.poll().unwrap();
        true
    }

    fn state(&self) -> State {
        self.actors.iter().map(|actor| (actor.held.len(), actor.falling)).collect()
    }

    /// Lets jobs finish as long as one can.
    fn all_finish(&mut self) -> bool {
        let mut left: Vec<usize> = (0..self.actors.len()).collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|&actor| {
                while self.step(actor) {}
                !(self.actors[actor].falling && self.actors[actor].held.is_empty())
            });
            if left.len() == before {
                return false;
            }
        }
        true
    }
}

/// Visits all states; returns their number, and in how many a job was denied memory that the budget
/// had.
fn explore(budget: u64, most: &[u64]) -> (usize, usize) {
    let mut queue = VecDeque::from([Vec::new()]);
    let mut seen: HashSet<State> = HashSet::from([World::new(budget, most).state()]);
    let mut withheld = 0;
    while let Some(path) = queue.pop_front() {
        let mut world = World::after(budget, most, &path);
        let state = world.state();
        assert!(
            world.all_finish(),
            "budget {budget}, jobs of {most:?}: nothing goes on in {state:?}"
        );
        let mut denied = false;
        for actor in 0..most.len() {
            let mut world = World::after(budget, most, &path);
            let falling = world.actors[actor].falling;
            if world.step(actor) {
                if seen.insert(world.state()) {
                    queue.push_back([path.as_slice(), &[actor]].concat());
                }
            } else if !falling {
                let held: usize = state.iter().map(|(held, _)| held).sum();
                denied |= (held as u64) < budget;
            }
        }
        withheld += usize::from(denied);
    }
    (seen.len(), withheld)
}

#[test]
fn two_jobs_can_finish_from_every_state() {
    let (mut states, mut withheld) = (0, 0);
    for budget in 1..=6 {
        for one in 1..=budget {
            for other in one..=budget {
                let (seen, denied) = explore(budget, &[one, other]);
                (states, withheld) = (states + seen, withheld + denied);
            }
        }
    }
    assert!(states > 500 && withheld > 50, "{states} states, {withheld} with memory withheld");
}

#[test]
fn three_jobs_can_finish_from_every_state() {
    for (budget, most) in [(3, [2, 2, 3]), (4, [3, 3, 3]), (5, [2, 4, 5])] {
        let (states, withheld) = explore(budget, &most);
        assert!(states > 50 && withheld > 5, "{states} states, {withheld} with memory withheld");
    }
}
