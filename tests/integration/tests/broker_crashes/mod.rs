//! A broker, its clients and the kernel as a simulation: processes come, work, and die between any
//! two of their messages, and what they had on the device goes on for a while. So does the broker,
//! and another one comes in its place.
//!
//! Checked over thousands of seeds: no byte with two owners in device order, none reused before its
//! fence (the oracle sees the work of the dead as well), never more physical memory than the
//! budget; nobody waits for ever for one that has died; no memory goes from one user to another as
//! it is; a correct client never breaks the protocol, and finds its way to the broker that comes
//! next; and when all are gone, everything is back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

mod ending;
mod tenant;

use fastrand::Rng;
use tenant::{Tenant, free};
use zico_core::{
    AllocError, BrokerError, BudgetError, Bytes, Device, JobConfig, JoinError, Lifetime, Passed,
    PoolConfig, Request, Ticks,
};
use zico_mock::{MockBroker, MockClient, MockConfig, MockDevice, MockStream, Utilisation};

const REGION: Bytes = Bytes::mib(2);
const BUDGET: u64 = 16;
const STEPS: u32 = 800;
const MOST_PROCESSES: usize = 4;

fn pool() -> PoolConfig {
    PoolConfig::new(Bytes::mib(2 * BUDGET)).region_size(REGION)
}

struct Process {
    client: MockClient,
    tenants: Vec<Tenant>,
    /// All that it has had, those included of jobs that have left.
    streams: Vec<MockStream>,
}

struct World {
    device: MockDevice,
    broker: MockBroker,
    processes: Vec<Process>,
    rng: Rng,
    /// 1 if there are two of them.
    users: u32,
    /// Jobs go to the host when they are told to.
    goes: bool,
    /// They take turns.
    takes_turns: bool,
    /// The broker dies now and then.
    restarts: bool,
    owners: u32,
    died: u32,
    handed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let config = MockConfig::new(Bytes::gib(1)).budget(Bytes::mib(2 * BUDGET));
        let device = MockDevice::new(config).unwrap();
        let broker = MockBroker::new(device.clone(), pool()).unwrap();
        let rng = Rng::with_seed(seed);
        let (processes, users) = (Vec::new(), u32::from(seed % 2 == 1));
        let takes_turns = seed % 5 == 4;
        let goes = seed % 3 == 2 && !takes_turns;
        let restarts = seed / 2 % 2 == 1;
        let (owners, died, handed) = (0, 0, 0);
        Self {
            device,
            broker,
            processes,
            rng,
            users,
            goes,
            takes_turns,
            restarts,
            owners,
            died,
            handed,
        }
    }

    fn step(&mut self) {
        if self.rng.u8(..8) == 0 {
            let now = self.device.now();
            self.device.advance_to(now.saturating_add(Ticks::micros(self.rng.u64(1..2000))));
        }
        if self.broker.is_down() && self.rng.u8(..4) == 0 {
            self.broker.restart(pool()).unwrap();
        }
        if self.processes.len() < MOST_PROCESSES && self.rng.u8(..20) == 0 {
            self.connect();
        }
        if self.processes.is_empty() {
            return;
        }
        let at = self.rng.usize(..self.processes.len());
        if self.processes[at].client.is_dead() {
            return self.bury_if_quiet(at);
        }
        match self.rng.u8(..100) {
            0 if self.rng.bool() => self.kill(at),
            1 => self.processes[at].client.die_after(self.rng.u64(..120)),
            2..6 => self.join(at),
            6..10 => self.processes[at].client.serve(),
            10..14 => {
                let _ = self.processes[at].client.reconnect();
            }
            14..20 => self.processes[at].client.pool().poll().unwrap(),
            20..24 if self.broker.is_down() => {}
            20 if self.restarts && self.rng.bool() => self.broker.die_after(self.rng.u64(..40)),
            20 => self.hold_some(),
            21 => self.broker.look(),
            22 => self.broker.trim(Bytes::mib(2 * self.rng.u64(..BUDGET))),
            23 => {
                // Refused where the jobs keep more.
                let regions = self.rng.u64(BUDGET / 2..=BUDGET);
                let _ = self.broker.set_budget(Bytes::mib(2 * regions));
            }
            _ => self.work(at),
        }
    }

    fn connect(&mut self) {
        if self.broker.is_down() {
            return;
        }
        // Every other seed has processes of two users.
        let user = self.rng.u32(..2) * self.users;
        let client = self.broker.connect_as(user).unwrap();
        let mut rng = Rng::with_seed(self.rng.u64(..));
        let (broker, restarts) = (self.broker.clone(), self.restarts);
        client.hear_while_asking(move || {
            if restarts && rng.u8(..50) == 0 {
                broker.die();
            }
            if broker.is_down() && rng.bool() {
                broker.restart(pool()).unwrap();
            }
            rng.u8(..3) == 0
        });
        self.processes.push(Process { client, tenants: Vec::new(), streams: Vec::new() });
    }

    /// Somebody has a job stay on the host, or come back. Refused if it takes no turns.
    fn hold_some(&mut self) {
        let jobs = self.broker.snapshot().jobs;
        if !jobs.is_empty() {
            let job = jobs[self.rng.usize(..jobs.len())].id;
            let _ = self.broker.hold(job, self.rng.bool());
        }
    }

    fn kill(&mut self, at: usize) {
        self.processes[at].client.die();
    }

    fn join(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.tenants.len() >= 2 {
            return;
        }
        let stream = self.device.add_stream();
        process.streams.push(stream);
        let floor = Bytes::mib(2 * self.rng.u64(..3));
        let takes_turns = self.takes_turns;
        let mut config = JobConfig::new("").floor(floor);
        if takes_turns {
            config = config.preemptible(Ticks::millis(2));
        }
        match process.client.pool().join(config, stream) {
            Ok(job) => process.tenants.push(Tenant {
                job,
                stream,
                blocks: Vec::new(),
                takes_turns,
                running: false,
                is_away: false,
                iterations: 0,
            }),
            Err(JoinError::FloorNotFree { .. } | JoinError::Broker(BrokerError::Unreachable)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn work(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.tenants.is_empty() {
            return;
        }
        let which = self.rng.usize(..process.tenants.len());
        let tenant = &mut process.tenants[which];
        match self.rng.u8(..100) {
            // Of every third seed jobs go to the host and come back.
            0..20 if tenant.is_away => {
                tenant.resume(&self.device, &mut self.owners);
            }
            97..100 if self.goes && !tenant.running => {
                tenant.suspend(&self.device, &mut self.owners);
            }
            20..60 if tenant.is_away => {}
            0..20 if !tenant.running => tenant.begins(&self.device, &mut self.owners),
            20..28 => {
                let work = Ticks::micros(self.rng.u64(1..1500));
                self.device.launch(tenant.stream, work, Utilisation::FULL).unwrap();
            }
            28..60 => {
                let bytes = Bytes::new(self.rng.u64(1..6 << 20));
                let lifetime = match self.rng.u8(..6) {
                    0 if bytes < Bytes::mib(1) => Lifetime::Persistent,
                    _ => Lifetime::Iteration,
                };
                match tenant.job.alloc(Request::new(bytes, lifetime)) {
                    Ok(block) => {
                        self.owners += 1;
                        let (at, len) = (block.address(), block.bytes());
                        let claim = self.device.own(tenant.stream, self.owners, at, len).unwrap();
                        tenant.blocks.push((block, Some(claim)));
                        if tenant.takes_turns && !tenant.running {
                            tenant.let_go(&self.device);
                        }
                    }
                    Err(
                        AllocError::Busy(_) | AllocError::OutOfMemory(_) | AllocError::Broker(_),
                    ) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            60..90 if !tenant.blocks.is_empty() => {
                let block = self.rng.usize(..tenant.blocks.len());
                free(&self.device, tenant, block);
            }
            90..94 if tenant.running => {
                tenant.ends(&self.device);
                self.handed += 1;
            }
            94..97 if tenant.running => {
                tenant.ends_with_next(&self.device, &mut self.owners);
                self.handed += 1;
            }
            97..98 => {
                let mut tenant = process.tenants.swap_remove(which);
                while !tenant.blocks.is_empty() {
                    free(&self.device, &mut tenant, 0);
                }
            }
            _ => {}
        }
    }

    /// The driver has torn a dead process down, once its work has ended.
    fn bury_if_quiet(&mut self, at: usize) {
        let streams = &self.processes[at].streams;
        // Copies to and from the host are work too.
        let is_busy = |&stream: &MockStream| {
            let event = self.device.record(stream).unwrap();
            self.device.query(&event).unwrap() == Passed::NotYet
        };
        if streams.iter().any(is_busy) {
            return;
        }
        let Process { client, tenants, .. } = self.processes.swap_remove(at);
        for mut tenant in tenants {
            tenant.let_go(&self.device);
        }
        client.bury().unwrap();
        self.died += 1;
    }

    fn check(&self) {
        assert_eq!(self.device.violations(), []);
        assert_eq!(self.broker.violations(), [], "a correct client has broken the protocol");
        assert_eq!(self.broker.leaks(), 0, "memory of one user has come to another");
        assert!(self.device.usage().peak_physical <= Bytes::mib(2 * BUDGET));
    }
}

/// How many have died, brokers and others, how many iterations have ended, and whether some job
/// gave way to another.
fn simulate(seed: u64) -> (u64, u32, u64, bool) {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.check();
    // Those that are dead are buried, the others live.
    while let Some(at) = world.processes.iter().position(|process| process.client.is_dead()) {
        world.device.run_until_idle();
        world.bury_if_quiet(at);
    }
    world.processes.iter().for_each(|process| process.client.die_after(u64::MAX));
    world.broker.die_after(u64::MAX);
    if world.broker.is_down() {
        world.broker.restart(pool()).unwrap();
    }
    for process in &world.processes {
        let mut rng = Rng::with_seed(seed);
        process.client.hear_while_asking(move || rng.u8(..3) == 0);
    }
    for process in &world.processes {
        assert!(process.client.reconnect(), "a process has lost its broker for good");
    }
    world.broker.set_budget(Bytes::mib(2 * BUDGET)).unwrap();
    world.everyone_can_go_on();
    world.check();
    let gave_way = world.takes_turns && !world.device.host_traffic().0.is_zero();
    let counts = (world.broker.restarts(), world.died, world.handed, gave_way);
    world.all_comes_back();
    counts
}

#[test]
fn processes_that_die_at_any_step_harm_nobody() {
    let (mut restarts, mut died, mut iterations, mut turns) = (0, 0, 0, 0);
    let seeds = if zico_tests::is_long() { 200_000 } else { 3000 };
    // With 12671 jobs are expected to keep more than the budget in all, and it is raised. With 79042
    // a page drains whose region is in use elsewhere, and the broker dies; with 133475 it dies, and
    // iterations run beside what is reserved for others.
    for seed in (0..seeds).chain([12671, 79042, 133_475]) {
        let result = std::panic::catch_unwind(|| simulate(seed));
        let Ok((brokers, deaths, ended, gave_way)) = result else { panic!("with seed {seed}") };
        (restarts, died, iterations) = (restarts + brokers, died + deaths, iterations + ended);
        turns += u32::from(gave_way);
    }
    let all = format!("{restarts} brokers, {died} deaths, {iterations} iterations, {turns} turns");
    println!("{all}");
    assert!(restarts > 3000 && died > 3000 && iterations > 10_000 && turns > 100, "{all}");
}

/// What others keep and have yet to tell is neither reserved for a new job nor taken from the
/// budget.
#[test]
fn a_new_broker_promises_nothing_before_all_have_told_what_they_keep() {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let broker = MockBroker::new(device.clone(), pool()).unwrap();
    let (keeps, comes) = (broker.connect().unwrap(), broker.connect().unwrap());
    let job = keeps.pool().join("keeps", device.add_stream()).unwrap();
    let kept = job.alloc(Request::new(Bytes::mib(24), Lifetime::Persistent)).unwrap();
    broker.restart(pool()).unwrap();
    assert!(comes.reconnect());
    let stream = device.add_stream();
    let join = |mib| comes.pool().join(JobConfig::new("comes").floor(Bytes::mib(mib)), stream);
    assert!(matches!(join(16), Err(JoinError::FloorNotFree { .. })));
    assert_eq!(broker.set_budget(Bytes::mib(16)), Err(BudgetError::Recovering));
    broker.trim(Bytes::ZERO);
    assert!(keeps.reconnect());
    // It keeps 12 of 16 regions.
    let lower = broker.set_budget(Bytes::mib(16));
    assert!(matches!(lower, Err(BudgetError::BelowPersistent { .. })));
    assert!(matches!(join(16), Err(JoinError::FloorNotFree { .. })));
    let comes = join(8).unwrap();
    job.free(kept).unwrap();
    drop((job, comes));
}
