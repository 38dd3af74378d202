//! Model-based testing: a pool and a small model of it, for sequences of calls of every kind.
//!
//! A sequence of calls by several jobs, with faults injected into the device and time advanced at
//! will. After every step: the physical memory is within the budget (I1; where that was lowered,
//! within what was pending), the oracle has seen no byte with two owners, in device order and on
//! physical bytes, and none reused before its fence (I2, I3), the sums of the pool's snapshot are
//! right, and every misuse is a typed error (I7). A refused call changes nothing, and at the end
//! all memory comes back, also after failures (I6, I8). Before that each job in turn has an
//! iteration while the others are idle and keep their memory: it completes or is refused, but does
//! not wait for ever (I4).
//!
//! Any call may happen in the middle of another one, at one of its calls of the device: as a thread
//! of the same job or of another would make it.
//!
//! The property test draws the [`Call`]s, the fuzz target makes them from bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod call;
mod end;
mod routine;
mod step;
mod suspend;

pub use call::Call;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zico_core::{
    Awaited, BudgetError, Bytes, Class, HandOver, Job, JobConfig, Pace, Planning, Pool, PoolConfig,
    Ticks, Waiting,
};
use zico_mock::{
    FaultPlan, Faulty, FaultyError, MockConfig, MockDevice, MockError, MockStream, Utilisation,
};

use crate::between::{Between, BetweenError};
use crate::hook::When;
use step::Tenant;

/// How many jobs there are at most.
pub const JOBS: usize = 8;
const REGION: Bytes = Bytes::mib(2);
const BUDGET: Bytes = Bytes::mib(32);
/// What is always there for the second job, and half of it for the sixth.
const FLOOR: Bytes = Bytes::mib(8);
/// The most that the third and the seventh may hold.
const CAP: Bytes = Bytes::mib(12);
/// The nesting depth of calls within calls.
const DEPTH: u32 = 2;

type Dev = Between<Faulty<MockDevice>>;
type DevError = BetweenError<FaultyError<MockError>>;

/// A pool on a device that may fail, its jobs, and what the model knows of them.
pub struct World(Arc<Inner>);

struct Inner {
    device: MockDevice,
    pool: Pool<Dev>,
    jobs: usize,
    state: Mutex<State>,
    /// In how many calls we are.
    depth: AtomicU32,
    /// How many have happened in the middle of others.
    fired: AtomicU32,
}

struct State {
    tenants: Vec<Option<Tenant>>,
    /// The most that the pool may hold: never more than when this was checked last, unless the
    /// budget has been changed since.
    most: Bytes,
    /// To happen in the middle of something else.
    during: Vec<(u8, When, Call)>,
    /// How many jobs have joined.
    joined: u64,
}

impl World {
    /// With this many jobs that have joined a pool that hands memory over in this way, and makes
    /// fewer calls of the device rather than hold least, or not.
    #[must_use]
    pub fn new(hand_over: HandOver, fewest_calls: bool, jobs: usize) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let config = PoolConfig::new(BUDGET).region_size(REGION).hand_over(hand_over);
        let config = config.fewest_calls(fewest_calls);
        let faulty = Faulty::new(device.clone(), FaultPlan::none());
        let pool = Pool::new(Between::new(faulty), config).unwrap();
        let jobs = jobs.clamp(1, JOBS);
        let tenants = (0..jobs).map(|_| None).collect();
        let state = State { tenants, most: BUDGET, during: Vec::new(), joined: 0 };
        let (state, [depth, fired]) = (Mutex::new(state), [const { AtomicU32::new(0) }; 2]);
        let inner = Arc::new(Inner { device, pool, jobs, state, depth, fired });
        let weak: Weak<Inner> = Arc::downgrade(&inner);
        inner.pool.device().at_each_call(Arc::new(move |_, when| {
            if let Some(inner) = weak.upgrade() {
                inner.meanwhile(when);
            }
        }));
        (0..jobs).for_each(|i| inner.join_or_leave(i));
        Self(inner)
    }

    /// Makes one call. Panics if the contract does not allow the answer.
    pub fn call(&mut self, call: &Call) {
        self.0.call(call);
    }

    /// How a job's iterations are planned.
    #[must_use]
    pub fn planning(&self, job: usize) -> Planning {
        self.0.job(job).map(|job| job.snapshot().planning).unwrap_or_default()
    }

    /// Panics if a promise is broken.
    pub fn check(&mut self) {
        self.0.check();
    }

    /// Each job can go on or is refused, while the others keep their memory. Then all jobs leave,
    /// the device finishes without faults, and all memory comes back.
    pub fn end(self) {
        let device = self.0.device.clone();
        self.0.end();
        drop(self);
        let usage = device.usage();
        assert_eq!((usage.physical, usage.ranges, usage.mappings), (Bytes::ZERO, 0, 0));
        assert_eq!(device.violations(), []);
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn job(&self, i: usize) -> Option<Arc<Job<Dev>>> {
        self.state().tenants.get(i)?.as_ref().map(|tenant| tenant.job.clone())
    }

    /// A call of the device, in the middle of one of ours: something else may happen.
    fn meanwhile(&self, when: When) {
        if self.depth.load(Ordering::SeqCst) > DEPTH {
            return;
        }
        let call = {
            let mut state = self.state();
            let due = |(left, at, _): &(u8, When, Call)| *left == 0 && *at == when;
            let place = state.during.iter().position(due);
            state.during.iter_mut().for_each(|(left, ..)| *left = left.saturating_sub(1));
            place.map(|place| state.during.remove(place).2)
        };
        if let Some(call) = call {
            self.fired.fetch_add(1, Ordering::SeqCst);
            self.call(&call);
        }
    }

    fn call(&self, call: &Call) {
        self.depth.fetch_add(1, Ordering::SeqCst);
        self.one_call(call);
        self.depth.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether nothing has happened in the middle of a call, and it is in the middle of none.
    fn is_alone(&self, fired: u32) -> bool {
        fired == self.fired.load(Ordering::SeqCst) && self.depth.load(Ordering::SeqCst) <= 1
    }

    fn one_call(&self, call: &Call) {
        match *call {
            Call::JoinOrLeave(job) => self.join_or_leave(job),
            Call::BeginOrEnd(job) => self.begin_or_end(job),
            Call::SuspendOrResume(job) => self.suspend_or_resume(job),
            Call::Alloc { job, kib, align, lifetime } => {
                self.alloc(job, kib, align, lifetime);
            }
            Call::Absurd { job, what } => self.absurd(job, what),
            Call::Free { job, which } => self.free(job, which),
            Call::UseElsewhere { job, which, micros } => self.use_elsewhere(job, which, micros),
            Call::Launch { job, micros } => {
                let stream = self.state().tenant(job).map(|tenant| tenant.stream);
                if let Some(stream) = stream {
                    let work = Ticks::micros(micros);
                    self.device.launch(stream, work, Utilisation::FULL).unwrap();
                }
            }
            Call::Advance { micros } => self.advance(micros),
            Call::Routine { job, steps } => {
                let _ = (0..steps).find(|_| !self.routine(job));
            }
            Call::Poll => drop(self.pool.poll()),
            Call::Trim { mib } => self.trim(Bytes::mib(mib)),
            Call::SetBudget { mib } => self.set_budget(Bytes::mib(mib)),
            Call::SetPace { job, operations, micros, burst } => {
                let pace = Pace::new(operations, Ticks::micros(micros)).burst(burst);
                self.set_pace(job, (micros > 0).then_some(pace));
            }
            Call::Fail { operations, permille } => {
                let plan = FaultPlan::none().random(operations, permille, 1, Class::Transient);
                self.pool.device().inner().set_plan(plan);
            }
            Call::Mute { job, side } => {
                let streams = self.state().tenant(job).map(|tenant| (tenant.stream, tenant.side));
                if let Some((own, other)) = streams {
                    self.mute(if side { other } else { own });
                }
            }
            Call::Idle { job, calls } => {
                if let Some(tenant) = self.state().tenant(job) {
                    tenant.idle = calls;
                }
            }
            Call::During { skip, before, ref call } => {
                let when = if before { When::Before } else { When::After };
                let mut state = self.state();
                if state.during.len() < 8 {
                    state.during.push((skip, when, (**call).clone()));
                }
            }
        }
    }

    fn advance(&self, micros: u64) {
        let now = zico_core::Device::now(&self.device);
        self.device.advance_to(now.saturating_add(Ticks::micros(micros)));
    }

    fn mute(&self, stream: MockStream) {
        let device = self.pool.device();
        if device.is_mute(stream) { device.unmute(stream) } else { device.mute(stream) }
    }

    fn set_budget(&self, budget: Bytes) {
        let fired = self.fired.load(Ordering::SeqCst);
        let before = self.pool.budget_status();
        match self.pool.set_budget(budget) {
            Ok(status) => {
                let most = before.target.saturating_add(before.pending);
                if self.is_alone(fired) {
                    assert!(status.target <= budget);
                    assert!(budget < status.target.saturating_add(REGION));
                    let most = most.at_least(status.target);
                    assert!(status.target.saturating_add(status.pending) <= most);
                    self.state().most = most;
                } else {
                    // Two changes at once: either may be the last.
                    let mut state = self.state();
                    state.most = state.most.at_least(most).at_least(budget);
                }
            }
            Err(BudgetError::BelowPersistent { kept, .. }) => assert!(kept > budget),
            Err(BudgetError::TooSmall { .. }) => assert!(budget < REGION),
            Err(error) => panic!("{error}"),
        }
    }

    fn set_pace(&self, job: usize, pace: Option<Pace>) {
        let Some(job) = self.job(job) else { return };
        assert!(self.pool.set_pace(job.id(), pace));
        if pace.is_none() && self.is_alone(self.fired.load(Ordering::SeqCst)) {
            let waits = self.pool.waits();
            let rests = waits.iter().find(|waiting| waiting.id == job.id());
            let is_paced = |waiting: &Waiting| matches!(waiting.awaited, Awaited::Pace(_));
            assert!(!rests.is_some_and(is_paced), "it has no pace: {waits:?}");
        }
    }

    fn trim(&self, target: Bytes) {
        let fired = self.fired.load(Ordering::SeqCst);
        if let Ok(held) = self.pool.trim(target)
            && self.is_alone(fired)
        {
            assert_eq!(held, self.device.usage().physical);
            assert!(held <= target || self.pool.snapshot().free == Bytes::ZERO, "{held}");
        }
    }

    fn check(&self) {
        assert_eq!(self.device.violations(), [], "the oracle");
        let mut state = self.state();
        let usage = self.device.usage();
        let status = self.pool.budget_status();
        let most = status.target.saturating_add(status.pending);
        assert!(most <= state.most, "more is pending than was: {most} against {}", state.most);
        state.most = most;
        assert!(usage.physical <= most, "{} beyond the budget: {status:?}", usage.physical);
        let snapshot = self.pool.snapshot();
        let charged: u64 = snapshot.jobs.iter().map(|job| job.held.total().value()).sum();
        assert_eq!(charged + snapshot.free.value(), snapshot.held.value(), "{snapshot}");
        assert_eq!(snapshot.held, usage.physical, "the snapshot against the device");
        let tenants =
            || state.tenants.iter().enumerate().filter_map(|(i, t)| Some((i, t.as_ref()?)));
        let unused = tenants().map(|(i, tenant)| {
            assert!(tenant.job.held().total() <= cap(i).unwrap_or(Bytes::MAX), "{snapshot}");
            floor(i).saturating_sub(tenant.job.held().total()).value()
        });
        let unused: u64 = unused.sum();
        let draining: u64 = snapshot.jobs.iter().map(|job| job.held.draining.value()).sum();
        let leased = charged - draining;
        assert!(leased + unused <= most.value(), "the floors are there: {snapshot}");
        tenants().for_each(|(_, tenant)| tenant.check());
    }
}

impl State {
    /// The tenant with this number, if there is one.
    fn tenant(&mut self, i: usize) -> Option<&mut Tenant> {
        self.tenants.get_mut(i)?.as_mut()
    }
}

fn floor(i: usize) -> Bytes {
    match i {
        1 => FLOOR,
        5 => Bytes::new(FLOOR.value() / 2),
        _ => Bytes::ZERO,
    }
}

fn cap(i: usize) -> Option<Bytes> {
    (i % 4 == 2).then_some(CAP)
}

fn terms(i: usize) -> JobConfig {
    let config = JobConfig::new(format!("job {i}")).floor(floor(i));
    let config = if i == 3 { config.declare(Bytes::mib(10)) } else { config };
    cap(i).map_or(config.clone(), |cap| config.cap(cap))
}
