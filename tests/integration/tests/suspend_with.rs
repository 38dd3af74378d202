//! Jobs that go to the host in part: some blocks stay, and of some nothing is needed any more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use zico_core::{
    Begin, Bytes, Class, Device, JobConfig, Lifetime, OnSuspend, Pool, PoolConfig, Request, Resume,
    SuspendError, Ticks,
};
use zico_mock::{
    FaultPlan, Faulty, FaultyError, MockBroker, MockClient, MockConfig, MockDevice, Operations,
};
use zico_tests::cases;
use zico_tests::owned::{Tenant, at_random, comes_back, nothing_is_left, takes_all_room};
use zico_tests::waves::{REGION, regions};

/// What is to become of each of these blocks, which are numbered from 1 on.
fn choices(blocks: &[(u64, Lifetime, OnSuspend)]) -> impl Fn(u64) -> OnSuspend {
    let by_number: BTreeMap<_, _> = (1..).zip(blocks.iter().map(|&(.., choice)| choice)).collect();
    move |id| by_number[&id]
}

const BUDGET: u64 = 24;

/// A device with so many regions, and how its pool is to be.
fn setup(count: u64) -> (MockDevice, PoolConfig) {
    let budget = regions(count);
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    (device, PoolConfig::new(budget).region_size(REGION))
}

/// Pages in which a block lies that is to stay, and those that are copied.
fn pages<D: Device<Stream = zico_mock::MockStream>>(
    job: &Tenant<D>,
    choose: impl Fn(u64) -> OnSuspend,
) -> (u64, u64) {
    let mut needs: BTreeMap<u64, OnSuspend> = BTreeMap::new();
    for (id, (block, _)) in &job.blocks {
        let (start, len) = (block.address().value(), block.bytes().value().max(1));
        for page in start / REGION.value()..=(start + len - 1) / REGION.value() {
            let need = needs.entry(page).or_insert(OnSuspend::Discard);
            *need = choose(*id).max(*need);
        }
    }
    let count = |of| needs.values().filter(|&&need| need == of).count() as u64;
    (count(OnSuspend::Keep), count(OnSuspend::Copy))
}

/// A job with blocks of these sizes, in KiB, and with these choices goes and comes back, while an
/// iteration of another one uses all the room that there is.
fn goes_and_comes_back(
    job: &mut Tenant<MockDevice>,
    other: &mut Tenant<MockDevice>,
    blocks: &[(u64, Lifetime, OnSuspend)],
    pool: &Pool<MockDevice>,
    settle: impl Fn(),
) {
    for (id, &(kib, lifetime, _)) in (1..).zip(blocks) {
        job.alloc(id, Request::new(Bytes::kib(kib), lifetime)).unwrap();
    }
    let choose = choices(blocks);
    let (kept, copied) = pages(job, &choose);
    let held = job.job.held().total();
    let device = job.device.clone();
    let gone = job.suspend_with(choose).unwrap();
    assert_eq!(gone, held.saturating_sub(regions(kept)));
    assert_eq!(device.host_usage().0, regions(copied));
    settle();
    assert_eq!(job.job.held().total(), regions(kept));
    if !gone.is_zero() {
        assert!(matches!(job.job.suspend(), Err(SuspendError::Suspended)));
        takes_all_room(other, pool);
    }
    // Those that stay can be freed as well as the others.
    job.free(1);
    settle();
    assert_eq!(job.resume().unwrap(), Resume::Done);
    settle();
    assert_eq!(device.host_usage().0, Bytes::ZERO);
    assert_eq!(device.violations(), []);
    assert_eq!(job.job.begin(None).unwrap(), Begin::Started);
    job.job.end().unwrap();
}

fn blocks() -> impl Strategy<Value = Vec<(u64, Lifetime, OnSuspend)>> {
    let kib = prop_oneof![1..64u64, 64..3000u64];
    let lifetime = prop_oneof![Just(Lifetime::Persistent), Just(Lifetime::Iteration)];
    let choice =
        prop_oneof![Just(OnSuspend::Keep), Just(OnSuspend::Copy), Just(OnSuspend::Discard)];
    prop::collection::vec((kib, lifetime, choice), 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]

    #[test]
    fn what_stays_is_used_meanwhile_and_the_rest_comes_back(blocks in blocks()) {
        let (device, config) = setup(BUDGET);
        let pool = Pool::new(device.clone(), config).unwrap();
        let mut job = Tenant::join(&device, &pool, 1);
        let mut other = Tenant::join(&device, &pool, 2);
        let settle = || {
            device.run_until_idle();
            pool.poll().unwrap();
        };
        goes_and_comes_back(&mut job, &mut other, &blocks, &pool, settle);
        // Once more, and it leaves from there.
        job.suspend_with(choices(&blocks)).unwrap();
        job.leave();
        other.leave();
        settle();
        let snapshot = pool.snapshot();
        prop_assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
        drop(pool);
        nothing_is_left(&device);
    }

    #[test]
    fn the_same_of_a_job_of_another_process(blocks in blocks()) {
        let (device, config) = setup(BUDGET);
        let broker = MockBroker::new(device.clone(), config).unwrap();
        let clients = [broker.connect().unwrap(), broker.connect().unwrap()];
        let settle = || {
            for _ in 0..2 {
                device.run_until_idle();
                clients.iter().for_each(MockClient::serve);
                clients.iter().for_each(|client| client.pool().poll().unwrap());
            }
        };
        let [one, two] = &clients;
        let mut job = Tenant::join(&device, one.pool(), 1);
        let mut other = Tenant::join(&device, two.pool(), 2);
        goes_and_comes_back(&mut job, &mut other, &blocks, two.pool(), settle);
        job.suspend_with(choices(&blocks)).unwrap();
        job.leave();
        other.leave();
        settle();
        prop_assert_eq!(broker.violations(), []);
        for client in clients {
            client.bury().unwrap();
        }
        broker.trim(Bytes::ZERO);
        nothing_is_left(&device);
    }
}

/// One run of a job that goes in part and comes back, where the `n`th call of the device fails.
/// Whether it came to that call.
fn one_call_fails(n: u64, class: Class) -> bool {
    let (device, config) = setup(8);
    let faulty = Faulty::new(device.clone(), FaultPlan::none());
    let pool = Pool::new(faulty, config).unwrap();
    let mut job = Tenant::join(&device, &pool, 1);
    let mut other = Tenant::join(&device, &pool, 2);
    for id in 1..7 {
        job.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    let choose = |id| match id {
        1 | 4 => OnSuspend::Keep,
        2 | 5 => OnSuspend::Discard,
        _ => OnSuspend::Copy,
    };
    pool.device().set_plan(FaultPlan::none().nth(Operations::all(), n, class));
    let gone = loop {
        match job.suspend_with(choose) {
            Ok(bytes) => break bytes,
            Err(SuspendError::Device(FaultyError::Injected { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(gone, regions(4));
    let settle = || {
        device.run_until_idle();
        let _ = pool.poll();
        let _ = pool.poll();
    };
    settle();
    assert_eq!(job.job.held().total(), regions(2));
    takes_all_room(&mut other, &pool);
    comes_back(&mut job, settle);
    settle();
    let injected = pool.device().injected() > 0;
    job.leave();
    other.leave();
    pool.device().set_plan(FaultPlan::none());
    settle();
    drop(pool);
    nothing_is_left(&device);
    injected
}

#[test]
fn every_call_of_the_device_may_fail() {
    for class in [Class::Transient, Class::OutOfMemory] {
        let calls = (1..).take_while(|&n| one_call_fails(n, class)).count();
        assert!(calls > 20, "{calls} calls");
    }
}

/// Others have been told that a job which takes turns gives way with all that it has.
#[test]
fn a_job_that_takes_turns_keeps_nothing() {
    let (device, config) = setup(8);
    let pool = Pool::new(device.clone(), config).unwrap();
    let turns = JobConfig::new("turns").preemptible(Ticks::millis(1));
    let job = pool.join(turns, device.add_stream()).unwrap();
    job.alloc(Request::new(REGION, Lifetime::Persistent)).unwrap();
    assert!(matches!(job.suspend_with(|_| OnSuspend::Keep), Err(SuspendError::TakesTurns)));
    assert_eq!(job.suspend_with(|_| OnSuspend::Discard).unwrap(), REGION);
    assert_eq!(device.host_usage().0, Bytes::ZERO);
}

/// What becomes of blocks is drawn for other tests by this: all three are.
#[test]
fn all_choices_are_drawn() {
    let drawn: Vec<_> = (0..100).map(|at| at_random(zico_core::Addr::new(at << 20))).collect();
    for choice in [OnSuspend::Keep, OnSuspend::Copy, OnSuspend::Discard] {
        assert!(drawn.iter().filter(|&&one| one == choice).count() > 10);
    }
}
