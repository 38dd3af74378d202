//! Jobs that go to the host and come back: every byte, at the same addresses, whatever fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{
    AllocError, Begin, BeginError, Bytes, Class, Device, HandOver, Lifetime, Pool, PoolConfig,
    Request, Resume, SuspendError, Ticks,
};
use zico_mock::{
    Access, FaultPlan, Faulty, FaultyError, MockConfig, MockDevice, Operation, Operations,
    Utilisation, bundled,
};
use zico_tests::cases;
use zico_tests::owned::{Tenant, comes_back, nothing_is_left, play, takes_all_room};
use zico_tests::waves::{REGION, regions};

fn setup(budget: Bytes, region: Bytes, hand_over: HandOver) -> (MockDevice, Pool<MockDevice>) {
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = PoolConfig::new(budget).region_size(region).hand_over(hand_over);
    (device.clone(), Pool::new(device, config).unwrap())
}

/// A recorded job goes to the host and comes back at so many points of its set-up and between its
/// iterations, while an iteration of another job uses all the room that there is.
fn at_points(name: &str, hand_over: HandOver, count: u32) {
    let trace = bundled::open(name).unwrap();
    let total: u64 = trace.blocks().iter().map(|block| block.bytes.value()).sum();
    let budget = Bytes::new(total.next_multiple_of(1 << 30) + (1 << 30));
    let (device, pool) = setup(budget, Bytes::mib(2), hand_over);
    let mut job = Tenant::join(&device, &pool, 1);
    let mut other = Tenant::join(&device, &pool, 2);
    let (mut points, mut moved) = (0, Bytes::ZERO);
    let link = device.host().unwrap().link().unwrap();
    let mut go = |job: &mut Tenant<MockDevice>, points: &mut u32| {
        *points += 1;
        device.run_until_idle();
        let began = device.now();
        let bytes = job.suspend().unwrap();
        device.run_until_idle();
        pool.poll().unwrap();
        assert_eq!(job.job.held().total(), Bytes::ZERO);
        let took = device.now().saturating_sub(began);
        assert!(is_full(took, link.time_out(bytes)), "{took} for {bytes}");
        if points.is_multiple_of(4) {
            takes_all_room(&mut other, &pool);
            device.run_until_idle();
            pool.poll().unwrap();
        }
        let began = device.now();
        assert_eq!(job.resume().unwrap(), Resume::Done);
        device.run_until_idle();
        let took = device.now().saturating_sub(began);
        assert!(is_full(took, link.time_back(bytes)), "{took} for {bytes}");
        pool.poll().unwrap();
        assert_eq!(device.host_usage().0, Bytes::ZERO);
        assert_eq!(device.violations(), []);
        moved = moved.saturating_add(bytes);
    };
    let each = trace.setup().len() / (count as usize * 4 / 5) + 1;
    for (i, step) in trace.setup().iter().enumerate() {
        play(&mut job, step);
        if i % each == 0 && !job.blocks.is_empty() {
            go(&mut job, &mut points);
        }
    }
    for iteration in trace.iterations() {
        assert_eq!(job.job.begin(None).unwrap(), Begin::Started);
        iteration.steps().iter().for_each(|step| play(&mut job, step));
        job.job.end().unwrap();
        if points < count && !job.blocks.is_empty() {
            go(&mut job, &mut points);
        }
    }
    while points < count {
        go(&mut job, &mut points);
    }
    assert!(!moved.is_zero());
    job.leave();
    other.leave();
    pool.poll().unwrap();
    device.run_until_idle();
    pool.poll().unwrap();
    drop(pool);
    nothing_is_left(&device);
}

/// Whether the link has been busy all the time, but for the rounding of each copy.
fn is_full(took: Ticks, least: Ticks) -> bool {
    took >= least && took.value() <= least.value() + least.value() / 1000 + 1000
}

/// At three points each; at fifty with `PROPTEST_CASES=50`, which takes minutes.
#[test]
fn recorded_jobs_go_and_come_back_bit_for_bit() {
    for (i, name) in bundled::names().enumerate() {
        let hand_over = if i % 2 == 0 { HandOver::Fenced } else { HandOver::Isolated };
        at_points(name, hand_over, cases(3).max(2));
    }
}

/// One run of a job that goes and comes back, where the `n`th call of the device fails. Whether it
/// came to that call.
fn one_call_fails(n: u64, class: Class) -> bool {
    let budget = regions(8);
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let faulty = Faulty::new(device.clone(), FaultPlan::none());
    let pool = Pool::new(faulty, PoolConfig::new(budget).region_size(REGION)).unwrap();
    let mut job = Tenant::join(&device, &pool, 1);
    let mut other = Tenant::join(&device, &pool, 2);
    let side = device.add_stream();
    for (id, kib, lifetime) in [
        (1, 3000, Lifetime::Persistent),
        (2, 100, Lifetime::Persistent),
        (3, 5000, Lifetime::Iteration),
    ] {
        job.alloc(id, Request::new(Bytes::kib(kib), lifetime)).unwrap();
    }
    job.job.record_use(job.blocks[&2].0, side).unwrap();
    device.launch(side, Ticks::millis(1), Utilisation::FULL).unwrap();
    pool.device().set_plan(FaultPlan::none().nth(Operations::all(), n, class));
    let mut failed = 0;
    loop {
        match job.suspend() {
            Ok(bytes) => break assert!(bytes >= Bytes::kib(8100), "{bytes}"),
            Err(SuspendError::Device(FaultyError::Injected { .. })) => {
                failed += 1;
                assert!(failed < 2, "it fails once");
                // It is as it was.
                job.alloc(4, Request::new(Bytes::kib(1), Lifetime::Persistent)).unwrap();
                job.free(4);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(matches!(job.job.suspend(), Err(SuspendError::Suspended)));
    let small = Request::new(Bytes::kib(1), Lifetime::Persistent);
    assert!(matches!(job.alloc(9, small), Err(AllocError::Suspended)));
    assert!(matches!(job.job.begin(None), Err(BeginError::Suspended)));
    let settle = || {
        device.run_until_idle();
        let _ = pool.poll();
        let _ = pool.poll();
    };
    settle();
    takes_all_room(&mut other, &pool);
    // What is freed on the host is gone when the rest is back.
    job.free(3);
    comes_back(&mut job, settle);
    settle();
    assert_eq!(job.job.held().iteration, Bytes::ZERO, "what was freed there is given back");
    job.alloc(5, Request::new(Bytes::mib(4), Lifetime::Iteration)).unwrap();
    let injected = pool.device().injected() > 0;
    pool.device().set_plan(FaultPlan::none());
    // Once more, and it leaves from there.
    assert!(!job.suspend().unwrap().is_zero());
    job.leave();
    other.leave();
    settle();
    let snapshot = pool.snapshot();
    assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
    drop(pool);
    nothing_is_left(&device);
    injected
}

#[test]
fn every_call_of_the_device_may_fail() {
    for class in [Class::Transient, Class::OutOfMemory] {
        let calls = (1..).take_while(|&n| one_call_fails(n, class)).count();
        assert!(calls > 25, "{calls} calls");
    }
}

/// A job whose host has no room for it stays where it is.
#[test]
fn a_host_that_is_full_changes_nothing() {
    let budget = regions(8);
    let config = MockConfig::new(budget).budget(budget).host(REGION);
    let device = MockDevice::new(config).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(budget).region_size(REGION)).unwrap();
    let mut job = Tenant::join(&device, &pool, 1);
    job.alloc(1, Request::new(REGION, Lifetime::Persistent)).unwrap();
    job.alloc(2, Request::new(REGION, Lifetime::Iteration)).unwrap();
    assert!(matches!(job.suspend(), Err(SuspendError::Device(_))));
    device.run_until_idle();
    pool.poll().unwrap();
    assert_eq!(job.job.held().total(), regions(2));
    assert_eq!(device.host_usage().0, Bytes::ZERO);
    job.free(2);
    device.run_until_idle();
    pool.poll().unwrap();
    assert_eq!(job.suspend().unwrap(), REGION);
    assert_eq!(device.violations(), []);
}

/// Memory of the host is kept for the next time where that is wanted, and no more than is wanted.
#[test]
fn host_memory_is_kept_as_wanted() {
    let budget = regions(8);
    let device = MockDevice::new(MockConfig::new(budget).budget(budget)).unwrap();
    let config = PoolConfig::new(budget).region_size(REGION).host_spare(regions(3));
    let pool = Pool::new(device.clone(), config).unwrap();
    let settle = || {
        device.run_until_idle();
        pool.poll().unwrap();
        device.host_usage().0
    };
    let mut job = Tenant::join(&device, &pool, 1);
    job.alloc(1, Request::new(regions(3), Lifetime::Persistent)).unwrap();
    job.alloc(2, Request::new(regions(2), Lifetime::Iteration)).unwrap();
    for _ in 0..3 {
        assert_eq!(job.suspend().unwrap(), regions(5));
        assert_eq!(settle(), regions(5));
        assert_eq!(job.resume().unwrap(), Resume::Done);
        let kept = settle();
        assert!(kept == regions(3) || kept == regions(2), "{kept}");
    }
    assert!(device.calls().of(Operation::Allocate) < 6, "what was kept is used");
    pool.trim(Bytes::mib(100)).unwrap();
    assert_eq!(settle(), Bytes::ZERO);
    job.suspend().unwrap();
    settle();
    let _ = job.resume().unwrap();
    job.leave();
    settle();
    drop(pool);
    nothing_is_left(&device);
}

#[test]
fn a_device_without_a_host_tier_says_so() {
    let device = MockDevice::new(MockConfig::new(regions(4)).link(None)).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(regions(4)).region_size(REGION)).unwrap();
    let job = pool.join("job", device.add_stream()).unwrap();
    assert!(matches!(job.suspend(), Err(SuspendError::Unsupported)));
    assert_eq!(job.resume().unwrap(), Resume::Done, "it is here");
}

#[test]
fn who_has_nothing_goes_nowhere() {
    let (device, pool) = setup(regions(4), REGION, HandOver::Fenced);
    let job = pool.join("job", device.add_stream()).unwrap();
    assert_eq!(job.suspend().unwrap(), Bytes::ZERO);
    assert_eq!(job.begin(None).unwrap(), Begin::Started);
    assert!(matches!(job.suspend(), Err(SuspendError::InIteration)));
}

/// A third job that grows never keeps one from coming back: it is refused instead, and told why.
#[test]
fn who_grows_meanwhile_is_refused() {
    let (device, pool) = setup(regions(10), REGION, HandOver::Fenced);
    let mut job = Tenant::join(&device, &pool, 1);
    for id in 0..6 {
        job.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    job.suspend().unwrap();
    device.run_until_idle();
    pool.poll().unwrap();
    let mut other = Tenant::join(&device, &pool, 2);
    for id in 0..4 {
        other.alloc(id, Request::new(REGION, Lifetime::Persistent)).unwrap();
    }
    match other.alloc(4, Request::new(REGION, Lifetime::Persistent)) {
        Err(AllocError::OutOfMemory(why)) => {
            assert_eq!(why.shortage.suspended, regions(6));
            assert!(why.to_string().contains("12 MiB to come back from the host"), "{why}");
        }
        done => panic!("{done:?}"),
    }
    assert_eq!(job.resume().unwrap(), Resume::Done);
    device.run_until_idle();
    assert_eq!(device.violations(), []);
}

/// What another stream of the job still writes is on the host as it has been written.
#[test]
fn what_another_stream_writes_goes_to_the_host_after_it() {
    let (device, pool) = setup(regions(4), REGION, HandOver::Fenced);
    let (stream, side) = (device.add_stream(), device.add_stream());
    let job = pool.join("job", stream).unwrap();
    let block = job.alloc(Request::new(REGION, Lifetime::Persistent)).unwrap();
    let access = Access { owner: 1, addr: block.address(), len: REGION };
    let claim = device.own(stream, 1, block.address(), REGION).unwrap();
    job.record_use(block, side).unwrap();
    device.order_after(side, &device.record(stream).unwrap()).unwrap();
    // It takes longer than the copy would.
    device.launch(side, Ticks::millis(50), Utilisation::FULL).unwrap();
    device.write(side, access, 7).unwrap();
    device.disown(side, claim).map_err(|refused| refused.error).unwrap();
    job.suspend().unwrap();
    device.run_until_idle();
    pool.poll().unwrap();
    assert_eq!(job.resume().unwrap(), Resume::Done);
    let claim = device.own(stream, 1, block.address(), REGION).unwrap();
    device.expect(stream, access, 7).unwrap();
    device.disown(stream, claim).map_err(|refused| refused.error).unwrap();
    device.run_until_idle();
    assert_eq!(device.violations(), []);
}
