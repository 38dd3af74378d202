//! A pool and a small model of it, for sequences of calls of every kind.
//!
//! A sequence of calls by several jobs, with faults injected into the device and time advanced at
//! will. After every step: the physical memory is within the budget (I1; where that was lowered,
//! within what was pending), the oracle has seen no
//! byte with two owners, in device order and on physical bytes, and none reused before its fence (I2,
//! I3), the books add up, and every misuse is a typed error (I7). A refused call leaves the books as
//! they were, and at the end everything comes back, failures or not (I6, I8).
//!
//! The property test and the fuzz target share this: the one draws [`Call`]s, the other makes them of
//! bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{
    AllocError, Begin, Block, BudgetError, Bytes, Class, Device, Features, FreeError, HandOver,
    Job, JobConfig, Lifetime, Planning, Pool, PoolConfig, Request, Ticks, UseError,
};
use zico_mock::{
    Access, Claim, FaultPlan, Faulty, FaultyError, MockConfig, MockDevice, MockStream, Operations,
    Utilisation,
};

/// How many jobs there are at most.
pub const JOBS: usize = 3;
const REGION: Bytes = Bytes::mib(2);
const BUDGET: Bytes = Bytes::mib(32);
/// What is always there for the second job.
const FLOOR: Bytes = Bytes::mib(6);
/// The most that the third one may hold.
const CAP: Bytes = Bytes::mib(12);

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Call {
    /// Join if not there, else leave with whatever is live.
    JoinOrLeave(usize),
    /// Begin an iteration if idle, else end it.
    BeginOrEnd(usize),
    /// Allocate.
    Alloc {
        /// Who.
        job: usize,
        /// How much.
        kib: u64,
        /// At a multiple of two to this power.
        align: u32,
        /// For how long; none if that is to be learned.
        lifetime: Option<Lifetime>,
    },
    /// Free one of the live blocks, then try to free it again.
    Free {
        /// Who.
        job: usize,
        /// Which, modulo the number of live blocks.
        which: usize,
    },
    /// Enqueue work on a stream of its own that uses one of the live blocks.
    UseElsewhere {
        /// Who.
        job: usize,
        /// Which, modulo the number of live blocks.
        which: usize,
        /// How long the work runs.
        micros: u64,
    },
    /// Enqueue work.
    Launch {
        /// Whose.
        job: usize,
        /// How long it runs.
        micros: u64,
    },
    /// Let the device run for so long.
    Advance {
        /// How long.
        micros: u64,
    },
    /// Go on with the iterations that a job does again and again, alike unless something else comes
    /// between.
    Routine {
        /// Who.
        job: usize,
        /// So many steps, or until one cannot be done now.
        steps: usize,
    },
    /// Poll the pool.
    Poll,
    /// Give memory back to the device until no more than so much is held.
    Trim {
        /// How much.
        mib: u64,
    },
    /// Change the budget.
    SetBudget {
        /// To so much.
        mib: u64,
    },
    /// From now on calls of these operations fail so often.
    Fail {
        /// Which.
        operations: Operations,
        /// Of 1000 calls.
        permille: u16,
    },
}

/// A step of a routine iteration.
#[derive(Clone, Copy)]
enum Step {
    Begin,
    Alloc(u64, Option<Lifetime>),
    /// Frees what the step with this number has allocated last.
    Free(usize),
    End,
}

/// An iteration with temporaries, what lives from its beginning to its end, what outlives it, and what
/// comes in the place of something else.
const ROUTINE: [Step; 16] = {
    use Step::{Alloc, Begin, End, Free};
    const IN: Option<Lifetime> = Some(Lifetime::Iteration);
    [
        Begin,
        Alloc(1500, IN),
        Alloc(40, Some(Lifetime::Transient)),
        Free(2),
        Alloc(2500, None),
        // The one of the last iteration: it outlives its own.
        Free(11),
        Alloc(300, IN),
        Alloc(5, IN),
        Free(4),
        Alloc(2048, IN),
        Free(6),
        Alloc(700, None),
        Free(1),
        Free(9),
        Free(7),
        End,
    ]
};

struct Tenant {
    job: Job<Faulty<MockDevice>>,
    stream: MockStream,
    running: bool,
    /// Another stream, for some of its work.
    side: MockStream,
    live: Vec<Live>,
    /// The next step of its routine, and what those before have allocated.
    step: usize,
    routine: [Option<Block>; ROUTINE.len()],
}

struct Live {
    block: Block,
    claim: Claim,
    /// The other stream's work uses it.
    elsewhere: bool,
}

/// A pool on a device that may fail, its jobs, and what the model knows of them.
pub struct World {
    device: MockDevice,
    pool: Pool<Faulty<MockDevice>>,
    tenants: [Option<Tenant>; JOBS],
    /// The most that the pool may hold: never more than when this was checked last, unless the budget
    /// has been changed since.
    most: Bytes,
}

impl World {
    /// All jobs have joined; nothing else has happened.
    #[must_use]
    pub fn new(hand_over: HandOver, features: Features) -> Self {
        let device = MockConfig::new(Bytes::gib(1)).features(features);
        let device = MockDevice::new(device).unwrap();
        let config = PoolConfig::new(BUDGET).region_size(REGION).hand_over(hand_over);
        let faulty = Faulty::new(device.clone(), FaultPlan::none());
        let pool = Pool::new(faulty, config).unwrap();
        let mut world = Self { device, pool, tenants: [const { None }; JOBS], most: BUDGET };
        (0..JOBS).for_each(|i| world.join_or_leave(i));
        world
    }

    /// Does one thing. Panics if an answer is none that the contract allows.
    pub fn call(&mut self, call: &Call) {
        match *call {
            Call::JoinOrLeave(job) => self.join_or_leave(job),
            Call::BeginOrEnd(job) => self.begin_or_end(job),
            Call::Alloc { job, kib, align, lifetime } => self.alloc(job, kib, align, lifetime),
            Call::Free { job, which } => self.free(job, which),
            Call::UseElsewhere { job, which, micros } => self.use_elsewhere(job, which, micros),
            Call::Launch { job, micros } => {
                if let Some(tenant) = &self.tenants[job] {
                    self.device
                        .launch(tenant.stream, Ticks::micros(micros), Utilisation::FULL)
                        .unwrap();
                }
            }
            Call::Advance { micros } => {
                self.device.advance_to(self.device.now().saturating_add(Ticks::micros(micros)));
            }
            Call::Routine { job, steps } => {
                let _ = (0..steps).find(|_| !self.routine(job));
            }
            Call::Poll => drop(self.pool.poll()),
            Call::Trim { mib } => self.trim(Bytes::mib(mib)),
            Call::SetBudget { mib } => self.set_budget(Bytes::mib(mib)),
            Call::Fail { operations, permille } => {
                let plan = FaultPlan::none().random(operations, permille, 1, Class::Transient);
                self.pool.device().set_plan(plan);
            }
        }
    }

    /// How a job's iterations are planned.
    #[must_use]
    pub fn planning(&self, job: usize) -> Planning {
        self.tenants[job].as_ref().map(|tenant| tenant.job.planning()).unwrap_or_default()
    }

    fn set_budget(&mut self, budget: Bytes) {
        let before = self.pool.budget_status();
        match self.pool.set_budget(budget) {
            Ok(status) => {
                assert!(status.target <= budget && budget < status.target.saturating_add(REGION));
                let most = before.target.saturating_add(before.pending).at_least(status.target);
                assert!(status.target.saturating_add(status.pending) <= most);
                self.most = most;
            }
            Err(BudgetError::BelowPersistent { kept, .. }) => assert!(kept > budget),
            Err(BudgetError::TooSmall { .. }) => assert!(budget < REGION),
            Err(error) => panic!("{error}"),
        }
    }

    fn trim(&self, target: Bytes) {
        if let Ok(held) = self.pool.trim(target) {
            assert_eq!(held, self.device.usage().physical);
            assert!(held <= target || self.pool.snapshot().free == Bytes::ZERO, "{held}");
        }
    }

    fn join_or_leave(&mut self, i: usize) {
        match self.tenants[i].take() {
            Some(tenant) => {
                let count = tenant.live.len();
                for live in tenant.live {
                    disown(&self.device, (tenant.stream, tenant.side), live);
                }
                assert_eq!(tenant.job.leave().blocks.len(), count, "what is live is leaked");
            }
            None => {
                let stream = self.device.add_stream();
                let config = JobConfig::new(format!("job {i}"));
                let config = match i {
                    1 => config.floor(FLOOR),
                    2 => config.cap(CAP),
                    _ => config,
                };
                let job = self.pool.join(config, stream);
                let Ok(job) = job else { return };
                let side = self.device.add_stream();
                let (running, live, step) = (false, Vec::new(), 0);
                let routine = [None; ROUTINE.len()];
                self.tenants[i] = Some(Tenant { job, stream, side, running, live, step, routine });
            }
        }
    }

    /// Does the next step of a job's routine. Whether it could be done.
    fn routine(&mut self, i: usize) -> bool {
        let Some(tenant) = &mut self.tenants[i] else { return false };
        let (step, count, running) = (tenant.step, tenant.live.len(), tenant.running);
        match ROUTINE[step] {
            Step::Begin if !running => self.begin_or_end(i),
            Step::End if running => self.begin_or_end(i),
            Step::Begin | Step::End => {}
            Step::Alloc(kib, lifetime) => self.alloc(i, kib, 9, lifetime),
            Step::Free(which) => {
                // Something else may have freed it.
                let block = tenant.routine[which].take();
                let which = tenant.live.iter().position(|live| Some(live.block) == block);
                which.into_iter().for_each(|which| self.free(i, which));
            }
        }
        let Some(tenant) = &mut self.tenants[i] else { return false };
        let done = match ROUTINE[step] {
            Step::Begin => tenant.running,
            Step::Alloc(..) => tenant.live.len() > count,
            Step::Free(_) | Step::End => true,
        };
        if let (Step::Alloc(..), true) = (ROUTINE[step], done) {
            tenant.routine[step] = tenant.live.last().map(|live| live.block);
        }
        tenant.step = (step + usize::from(done)) % ROUTINE.len();
        done
    }

    fn begin_or_end(&mut self, i: usize) {
        let Some(tenant) = &mut self.tenants[i] else { return };
        if tenant.running {
            tenant.job.end().unwrap();
            assert!(tenant.job.end().is_err(), "an iteration ends once");
            tenant.running = false;
        } else if let Ok(Begin::Started) = tenant.job.begin() {
            assert!(tenant.job.begin().is_err(), "an iteration begins once");
            tenant.running = true;
        }
    }

    fn alloc(&mut self, i: usize, kib: u64, align: u32, lifetime: Option<Lifetime>) {
        let Some(tenant) = &mut self.tenants[i] else { return };
        let align = Bytes::new(1 << align);
        let bytes = Bytes::kib(kib);
        let request = match lifetime {
            Some(lifetime) => Request::new(bytes, lifetime),
            None => Request::learned(bytes).named("learned"),
        };
        match tenant.job.alloc(request.aligned(align)) {
            Ok(block) => {
                assert_eq!(block.address().value() % align.value(), 0);
                let address = block.address();
                let claim = self
                    .device
                    .own(tenant.stream, i.try_into().unwrap(), address, block.bytes())
                    .unwrap();
                tenant.live.push(Live { block, claim, elsewhere: false });
            }
            Err(AllocError::Busy(shortage)) => assert_eq!(shortage.budget, self.pool.budget()),
            Err(AllocError::OutOfMemory(why)) => {
                assert_eq!(why.shortage.budget, self.pool.budget());
                let held = why.holders.iter().map(|holder| holder.held.total().value()).sum();
                let (used, draining) = (why.shortage.held, why.shortage.draining);
                let others = why.shortage.held_by_others.value();
                assert_eq!(used.value() + others + draining.value(), held, "{why}");
            }
            Err(AllocError::BeyondCap { cap, .. }) => assert_eq!((i, cap), (2, CAP)),
            Err(AllocError::Invalid { .. }) => assert!(align > REGION),
            Err(AllocError::Device(FaultyError::Injected { .. })) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn free(&mut self, i: usize, which: usize) {
        let Some(tenant) = &mut self.tenants[i] else { return };
        if tenant.live.is_empty() {
            return;
        }
        let live = tenant.live.swap_remove(which % tenant.live.len());
        let block = live.block;
        disown(&self.device, (tenant.stream, tenant.side), live);
        tenant.job.free(block).unwrap();
        assert_eq!(tenant.job.free(block), Err(FreeError::NotLive(block.address())));
        if let Err(UseError::Block(error)) = tenant.job.record_use(block, tenant.side) {
            assert_eq!(error, FreeError::NotLive(block.address()));
        }
    }

    fn use_elsewhere(&mut self, i: usize, which: usize, micros: u64) {
        let Some(tenant) = &mut self.tenants[i] else { return };
        if tenant.live.is_empty() {
            return;
        }
        let which = which % tenant.live.len();
        let live = &mut tenant.live[which];
        match tenant.job.record_use(live.block, tenant.side) {
            Ok(()) => live.elsewhere = true,
            Err(UseError::Device(FaultyError::Injected { .. })) => return,
            Err(error) => panic!("{error}"),
        }
        // The block's contents come from the job's own stream.
        let ready = self.device.record(tenant.stream).unwrap();
        self.device.order_after(tenant.side, &ready).unwrap();
        let (addr, len) = (live.block.address(), live.block.bytes());
        let access = Access { owner: i.try_into().unwrap(), addr, len };
        let work = Ticks::micros(micros);
        self.device.launch_touching(tenant.side, work, Utilisation::FULL, &[access]).unwrap();
    }

    /// Panics if a promise is broken.
    pub fn check(&mut self) {
        assert_eq!(self.device.violations(), [], "the oracle");
        let usage = self.device.usage();
        let status = self.pool.budget_status();
        let most = status.target.saturating_add(status.pending);
        assert!(most <= self.most, "more is pending than was: {most} against {}", self.most);
        self.most = most;
        assert!(usage.physical <= most, "{} beyond the budget: {status:?}", usage.physical);
        let books = self.pool.snapshot();
        let charged: u64 = books.jobs.iter().map(|job| job.held.total().value()).sum();
        assert_eq!(charged + books.free.value(), books.held.value(), "{books}");
        assert_eq!(books.held, usage.physical, "the books against the device");
        let held = |i: usize| self.tenants[i].as_ref().map(|tenant| tenant.job.held().total());
        assert!(held(2).is_none_or(|held| held <= CAP), "{books}");
        let unused = held(1).map_or(Bytes::ZERO, |held| FLOOR.saturating_sub(held));
        let draining: u64 = books.jobs.iter().map(|job| job.held.draining.value()).sum();
        let leased = charged - draining;
        assert!(leased + unused.value() <= most.value(), "the floor is there: {books}");
        for tenant in self.tenants.iter().flatten() {
            let live: u64 = tenant.live.iter().map(|live| live.block.bytes().value()).sum();
            let held = tenant.job.held();
            let stats = tenant.job.stats();
            assert_eq!(stats.requested.current.value(), live);
            assert!(stats.active.current >= stats.allocated.current);
            assert_eq!(stats.reserved.current, held.total());
            for counter in [stats.requested, stats.allocated, stats.active, stats.reserved] {
                assert_eq!(counter.current.checked_add(counter.freed), Some(counter.allocated));
                assert!(counter.peak >= counter.current);
            }
            assert!(held.total().value() - held.draining.value() >= live, "a live block is leased");
        }
    }

    /// Everybody leaves, the device finishes, nothing fails any more: all comes back.
    pub fn end(mut self) {
        for i in 0..JOBS {
            if self.tenants[i].is_some() {
                self.join_or_leave(i);
            }
        }
        self.check();
        self.pool.device().set_plan(FaultPlan::none());
        self.pool.poll().unwrap();
        self.device.run_until_idle();
        self.pool.poll().unwrap();
        self.check();
        let books = self.pool.snapshot();
        assert!(books.jobs.is_empty() && books.free == books.held, "{books}");
        assert_eq!(self.pool.budget_status().pending, Bytes::ZERO);
        drop(self.pool);
        let usage = self.device.usage();
        assert_eq!((usage.physical, usage.ranges, usage.mappings), (Bytes::ZERO, 0, 0));
        assert_eq!(self.device.violations(), []);
    }
}

/// The claim on a block ends: after the job's own work, and after that of the other stream.
fn disown(device: &MockDevice, (own, side): (MockStream, MockStream), live: Live) {
    if live.elsewhere {
        let passed = device.record(own).unwrap();
        device.order_after(side, &passed).unwrap();
    }
    device.disown(if live.elsewhere { side } else { own }, live.claim).unwrap();
}
