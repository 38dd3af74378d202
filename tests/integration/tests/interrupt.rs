//! Iterations that are interrupted: two that have outgrown what there is both end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, Class, Job, JobConfig, JoinError, Lifetime, Pool,
    PoolConfig, Request,
};
use zico_mock::policy::AlwaysStart;
use zico_mock::{
    Access, FaultPlan, Faulty, MockConfig, MockDevice, MockStream, Operation, Operations,
};
use zico_tests::owned::all_leave;
use zico_tests::waves::{REGION, regions};

type Dev = Faulty<MockDevice>;

fn setup(budget: u64) -> (MockDevice, Pool<Dev>) {
    let device = MockDevice::new(MockConfig::new(regions(budget)).budget(regions(budget))).unwrap();
    let faulty = Faulty::new(device.clone(), FaultPlan::none());
    let config = PoolConfig::new(regions(budget)).region_size(REGION).policy(Box::new(AlwaysStart));
    (device, Pool::new(faulty, config).unwrap())
}

/// A job whose iterations take one region after the other, write each and look at all before they
/// free them.
struct Tenant {
    device: MockDevice,
    job: Job<Dev>,
    stream: MockStream,
    owner: u32,
    /// How many its iterations take.
    takes: Vec<usize>,
    blocks: Vec<Block>,
    is_inside: bool,
    iterations: usize,
    /// It was told that there is no memory.
    told: bool,
}

impl Tenant {
    fn join(device: &MockDevice, pool: &Pool<Dev>, owner: u32, takes: &[usize]) -> Self {
        let stream = device.add_stream();
        let config = JobConfig::new(format!("job {owner}")).interruptible();
        let job = pool.join(config, stream).unwrap();
        Self {
            device: device.clone(),
            job,
            stream,
            owner,
            takes: takes.to_vec(),
            blocks: Vec::new(),
            is_inside: false,
            iterations: 0,
            told: false,
        }
    }

    fn is_done(&self) -> bool {
        self.iterations == self.takes.len() || self.told
    }

    /// Work on a block, which the job owns while that is done.
    fn on(&self, block: &Block, work: impl FnOnce(Access)) {
        let Self { device, stream, owner, .. } = self;
        let (addr, len) = (block.address(), block.bytes());
        let claim = device.own(*stream, *owner, addr, len).unwrap();
        work(Access { owner: *owner, addr, len });
        device.disown(*stream, claim).unwrap();
    }

    fn mark(&self, at: usize) -> u64 {
        u64::from(self.owner) * 1000 + at as u64
    }

    /// Goes on by a step, if it can.
    fn step(&mut self) {
        if self.is_done() {
            return;
        }
        if !self.is_inside {
            match self.job.begin(None) {
                Ok(Begin::Started) => self.is_inside = true,
                Ok(Begin::Wait(_)) | Err(BeginError::Suspended) => {}
                Err(error) => panic!("{error}"),
            }
        } else if self.blocks.len() < self.takes[self.iterations] {
            match self.job.alloc(Request::new(REGION, Lifetime::Iteration)) {
                Ok(block) => {
                    let mark = self.mark(self.blocks.len());
                    self.on(&block, |access| {
                        self.device.write(self.stream, access, mark).unwrap();
                    });
                    self.blocks.push(block);
                }
                Err(AllocError::Busy(_) | AllocError::Device(_)) => {}
                Err(AllocError::OutOfMemory(_)) => {
                    self.told = true;
                    let blocks = std::mem::take(&mut self.blocks);
                    blocks.into_iter().for_each(|block| self.job.free(block).unwrap());
                    self.job.end().unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        } else {
            for (at, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
                let mark = self.mark(at);
                self.on(&block, |access| {
                    self.device.expect(self.stream, access, mark).unwrap();
                });
                self.job.free(block).unwrap();
            }
            self.job.end().unwrap();
            (self.is_inside, self.iterations) = (false, self.iterations + 1);
        }
    }
}

/// The jobs go on in turn until all are done.
fn run(device: &MockDevice, pool: &Pool<Dev>, jobs: &mut [Tenant]) {
    for round in 0.. {
        jobs.iter_mut().for_each(Tenant::step);
        device.run_until_idle();
        let _ = pool.poll();
        if jobs.iter().all(Tenant::is_done) {
            break;
        }
        assert!(round < 10_000, "{}\n{:?}", pool.snapshot(), pool.waits());
    }
    assert_eq!(device.violations(), []);
}

#[test]
fn iterations_that_have_outgrown_the_pool_all_end() {
    let mut interrupted = 0;
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (device, pool) = setup(8);
        let mut jobs: Vec<_> = (1..=rng.u32(2..5))
            .map(|owner| {
                let takes: Vec<usize> = (0..12).map(|_| rng.usize(1..9)).collect();
                Tenant::join(&device, &pool, owner, &takes)
            })
            .collect();
        run(&device, &pool, &mut jobs);
        assert!(jobs.iter().all(|job| !job.told), "seed {seed}");
        interrupted += u32::from(device.calls().of(Operation::CopyOut) > 0);
        drop(jobs);
        all_leave(&device, pool);
    }
    assert!(interrupted > 150, "in {interrupted} cases");
}

/// Two of which each needs more than half. Whether the n-th call was made.
fn one_call_fails(n: u64, class: Class) -> bool {
    let (device, pool) = setup(6);
    let mut jobs: Vec<_> =
        (1..3).map(|owner| Tenant::join(&device, &pool, owner, &[5, 5])).collect();
    pool.device().set_plan(FaultPlan::none().nth(Operations::all(), n, class));
    run(&device, &pool, &mut jobs);
    let injected = pool.device().injected() > 0;
    pool.device().set_plan(FaultPlan::none());
    drop(jobs);
    all_leave(&device, pool);
    injected
}

#[test]
fn every_call_of_the_device_may_fail() {
    for class in [Class::Transient, Class::OutOfMemory] {
        let calls = (1..).take_while(|&n| one_call_fails(n, class)).count();
        assert!(calls > 25, "{calls} calls");
    }
}

#[test]
fn a_device_without_a_host_tier_says_so() {
    let device = MockDevice::new(MockConfig::new(regions(4)).link(None)).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(regions(4)).region_size(REGION)).unwrap();
    let joined = pool.join(JobConfig::new("job").interruptible(), device.add_stream());
    assert!(matches!(joined, Err(JoinError::NotPreemptible)));
}

/// A job that gives up its allocation may end its iteration where it is, and comes back for the
/// next.
#[test]
fn who_gives_up_while_on_the_host_goes_on() {
    let (device, pool) = setup(4);
    let mut jobs: Vec<_> =
        (1..3).map(|owner| Tenant::join(&device, &pool, owner, &[3, 3])).collect();
    for _ in 0..8 {
        jobs.iter_mut().for_each(Tenant::step);
    }
    device.run_until_idle();
    pool.poll().unwrap();
    let away = jobs.iter().position(|job| job.job.held().total() == Bytes::ZERO).unwrap();
    let gone = &mut jobs[away];
    for block in std::mem::take(&mut gone.blocks) {
        gone.job.free(block).unwrap();
    }
    gone.job.end().unwrap();
    assert!(gone.job.end().is_err());
    (gone.is_inside, gone.iterations) = (false, 1);
    run(&device, &pool, &mut jobs);
    assert!(jobs.iter().all(|job| !job.told));
    drop(jobs);
    all_leave(&device, pool);
}
