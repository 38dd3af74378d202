//! What a job holds with plans and without them, iteration by iteration, in program order.
//!
//! Random jobs that repeat their iterations and then diverge: in the middle, in sizes, in
//! lifetimes, in length; of several kinds. Each runs twice, with plans and without.

#![allow(clippy::expect_used, reason = "a failure fails the test")]

use zico_core::{Begin, Block, Bytes, Job, JobConfig, Lifetime, Pool, PoolConfig, Request};
use zico_mock::{MockConfig, MockDevice};

const REGION: u64 = 64 << 10;
/// A job has an arena for each lifetime.
const ZONES: u64 = 2;

/// A block: its size, and before which allocation it is freed. Beyond the end of its iteration that
/// is one of the next.
#[derive(Clone, Copy, Debug)]
struct Life {
    size: u64,
    until: usize,
}

/// Blocks as a training step has them: temporaries, activations that go in the order opposite to
/// that in which they came, and what lives to the end or, if `carries`, into the next iteration.
fn routine(random: &mut fastrand::Rng, n: usize, largest: u64, carries: bool) -> Vec<Life> {
    let life = |i: usize| {
        let size = match random.u8(..10) {
            0..4 => random.u64(1..20),
            4..8 => random.u64(1..largest),
            _ => random.u64(1..4 * largest),
        };
        let until = match random.u8(..10) {
            0..5 => i + 1 + random.usize(..3),
            5..8 if i < n / 2 => n - i,
            5..8 => i + 1 + random.usize(..n / 4),
            8 => i + 1 + random.usize(..n),
            _ => n,
        };
        let most = if carries && random.u8(..20) == 0 { n + random.usize(..n) } else { n };
        Life { size: size * 512, until: until.clamp(i + 1, most) }
    };
    (0..n).map(life).collect()
}

/// The next iteration of a kind.
fn varied(random: &mut fastrand::Rng, base: &[Life], largest: u64) -> Vec<Life> {
    let n = base.len();
    let mut next = base.to_vec();
    match random.u8(..10) {
        0..4 => {}
        4 => {
            let at = random.usize(..n);
            next[at..].copy_from_slice(&routine(random, n, largest, false)[at..]);
        }
        5 => {
            for life in &mut next {
                if random.u8(..8) == 0 {
                    life.size = random.u64(1..2 * largest) * 512;
                }
            }
        }
        6 => {
            let percent = 50 + random.u64(..100);
            next.iter_mut().for_each(|life| life.size = (life.size * percent / 100).max(512));
        }
        7 => next.iter_mut().filter(|_| random.u8(..30) == 0).for_each(|life| life.until = n),
        8 => next.truncate(1 + random.usize(..n - 1)),
        _ => next.retain(|_| random.u8(..25) != 0),
    }
    next
}

/// An iteration of random blocks, up to so `many` of which outlive it.
fn outlived(random: &mut fastrand::Rng, n: usize, many: usize) -> Vec<Life> {
    let life = |i: usize| {
        let most = if random.bool() { 10 } else { 280 };
        let (size, until) = (512 * random.u64(1..most), random.usize(i + 1..=n));
        Life { size, until }
    };
    let mut lives: Vec<Life> = (0..n).map(life).collect();
    for _ in 0..many {
        lives[random.usize(..n)].until = n + random.usize(1..n);
    }
    lives
}

/// A job alone in a pool.
struct Run {
    job: Job<MockDevice>,
    pool: Pool<MockDevice>,
    /// It says of all its blocks that they live within the iteration.
    tells: bool,
    /// Blocks of the last iteration, and before which allocation of the next they are freed.
    carried: Vec<(usize, Block)>,
}

impl Run {
    fn new(plans: bool, tells: bool) -> Self {
        let spare = Bytes::gib(1);
        let device =
            MockDevice::new(MockConfig::new(spare).granularity(Bytes::kib(4))).expect("a device");
        let config = PoolConfig::new(spare).region_size(Bytes::new(REGION));
        let pool = Pool::new(device, config).expect("a pool");
        let config = JobConfig::default().name("job");
        let config = if plans { config } else { config.without_plans() };
        let job = pool.join(config, pool.device().add_stream()).expect("a job");
        Self { job, pool, tells, carried: Vec::new() }
    }

    /// The most regions that an iteration holds, and whether all of it was as planned.
    fn iteration(&mut self, routine: &[Life]) -> (u64, bool) {
        assert_eq!(self.job.begin(None), Ok(Begin::Started));
        let before = self.job.snapshot().planning.placed;
        let mut live = core::mem::take(&mut self.carried);
        let mut most = 0;
        for (i, life) in routine.iter().enumerate() {
            for (_, block) in live.extract_if(.., |block| block.0 <= i) {
                self.job.free(block).expect("it is live");
            }
            self.pool.poll().expect("nothing fails");
            let bytes = Bytes::new(life.size);
            let request = match self.tells {
                true => Request::new(bytes, Lifetime::Iteration),
                false => Request::learned(bytes),
            };
            let block = self.job.alloc(request).expect("there is room");
            live.push((life.until, block));
            most = most.max(self.job.held().total().value() / REGION);
        }
        for (until, block) in live {
            match until.checked_sub(routine.len()) {
                None | Some(0) => self.job.free(block).expect("it is live"),
                Some(until) => self.carried.push((until, block)),
            }
        }
        let placed = self.job.snapshot().planning.placed - before;
        self.job.end().expect("it runs");
        self.pool.poll().expect("nothing fails");
        (most, placed == routine.len() as u64)
    }
}

/// What one job has held at most, with plans and without.
struct Most {
    with: u64,
    without: u64,
    exact: u64,
}

fn compare(seed: u64) -> Most {
    let random = &mut fastrand::Rng::with_seed(seed);
    let (n, largest) = (20 + random.usize(..300), [40, 200, 1000][random.usize(..3)]);
    let (kinds, carries) = (1 + random.usize(..3), seed.is_multiple_of(2));
    let kinds: Vec<Vec<Life>> = (0..kinds).map(|_| routine(random, n, largest, carries)).collect();
    let (mut with, mut without) = (Run::new(true, false), Run::new(false, false));
    let mut most = Most { with: 0, without: 0, exact: 0 };
    // The sizes of each iteration so far, and what it held without plans.
    let mut seen: Vec<(Vec<u64>, u64)> = Vec::new();
    for i in 0..24 {
        let base = &kinds[random.usize(..kinds.len())];
        let next = if i < 4 { base.clone() } else { varied(random, base, largest) };
        let (held, exact) = with.iteration(&next);
        let (usual, _) = without.iteration(&next);
        let sizes: Vec<u64> = next.iter().map(|life| life.size).collect();
        // One that ends early is as planned too.
        let alike = seen.iter().filter(|(other, _)| other.starts_with(&sizes));
        let highest = alike.map(|&(_, held)| held).max().unwrap_or(0).max(usual);
        seen.push((sizes, usual));
        if exact && !carries {
            most.exact += 1;
            let limit = highest + ZONES;
            assert!(held <= limit, "seed {seed}, {i}: {held} as planned, {limit} without");
        }
        (most.with, most.without) = (most.with.max(held), most.without.max(usual));
    }
    most
}

/// An iteration that is as planned holds no more than one region for each arena above what its like
/// has held without the plan, if no blocks are carried into it (those lie among what persists
/// without a plan, and beside the iteration's with one); and whatever it does, a job holds no more
/// with plans than without: in all, and each job within what best fit makes of another placement (a
/// tenth, in jobs of few regions; of thousands of jobs one in a thousand comes out further apart,
/// as one in 130 does without any plans after one iteration more).
#[test]
fn plans_never_make_a_job_hold_more() {
    let (mut with, mut without, mut exact) = (0, 0, 0);
    let (cases, mut apart) = (u64::from(zico_tests::cases(300)), Vec::new());
    for seed in 0..cases {
        let most = compare(seed);
        if most.with > most.without + most.without / 10 + ZONES {
            apart.push((seed, most.with, most.without));
        }
        (with, without, exact) = (with + most.with, without + most.without, exact + most.exact);
    }
    assert!(apart.len() as u64 <= cases / 1000, "(seed, with plans, without): {apart:?}");
    assert!(with <= without + without / 1000, "{with} regions with plans, {without} without");
    assert!(exact > cases, "iterations as planned: {exact}");
    println!("{with} regions with plans, {without} without; as planned: {exact}; {apart:?}");
}

/// D70: whatever it says of them, a job of which blocks outlive its iterations follows its plan
/// from the fourth on, and comes to hold no more than it does without plans and once what it
/// leaves: when the first one is as planned, what the one before has left lies elsewhere still.
#[test]
fn a_job_of_which_blocks_outlive_its_iterations_follows_its_plan() {
    let kinds = [(4, 1), (10, 1), (30, 1), (100, 1), (100, 3), (100, 10), (100, 30)];
    for seed in 0..u64::from(zico_tests::cases(120)) {
        let random = &mut fastrand::Rng::with_seed(seed);
        let ((n, many), tells) = (kinds[random.usize(..kinds.len())], random.bool());
        let routine = outlived(random, n, many);
        let [with, without] = [true, false].map(|plans| {
            let mut run = Run::new(plans, tells);
            (0..12).map(|_| run.iteration(&routine)).collect::<Vec<_>>()
        });
        let leaves = routine.iter().filter(|life| life.until > n).map(|life| life.size);
        let leaves = leaves.sum::<u64>().div_ceil(REGION);
        let case = format!("seed {seed}, {many} of {n}, tells {tells}, leaves {leaves}");
        assert!(with[3..].iter().all(|&(_, exact)| exact), "{case}: {with:?}");
        let [with, without] =
            [with, without].map(|run| run.into_iter().map(|(held, _)| held).max().unwrap_or(0));
        let most = without + leaves + ZONES;
        assert!(with <= most, "{case}: {with} with, {without} without");
    }
}

/// D52: a block that was made before the iteration has a region, and its plan would have another,
/// which is not to be had: its blocks go where there is room.
#[test]
fn what_a_plan_has_no_memory_for_goes_where_there_is_room() {
    let budget = Bytes::new(2 * REGION);
    let device =
        MockDevice::new(MockConfig::new(budget).granularity(Bytes::kib(4))).expect("a device");
    let config = PoolConfig::new(budget).region_size(Bytes::new(REGION));
    let pool = Pool::new(device, config).expect("a pool");
    let job = pool.join("a", pool.device().add_stream()).expect("a job");
    let get = |granules: u64, lifetime| {
        job.alloc(Request::new(Bytes::new(granules * 512), lifetime)).expect("there is room")
    };
    get(1, Lifetime::Iteration);
    get(1, Lifetime::Persistent);
    for _ in 0..8 {
        assert_eq!(job.begin(None).expect("it fits"), Begin::Started);
        let blocks = [9, 4, 7, 2, 1].map(|granules| get(granules, Lifetime::Iteration));
        blocks.into_iter().for_each(|block| job.free(block).expect("it is live"));
        job.end().expect("it runs");
    }
    assert!(job.snapshot().planning.plans > 0, "there is a plan");
}
