//! The terms on which jobs join, and the order in which those who wait are asked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use proptest::prelude::*;
use zico_core::policy::{Policy, TimeShift, Verdict, View};
use zico_core::{
    AllocError, Begin, BeginError, Bytes, JobConfig, JoinError, Lifetime, Pool, PoolConfig,
    Request, Ticks,
};
use zico_mock::policy::{AlwaysStart, Exclusive, Lanes, Order};
use zico_mock::{MockBroker, MockConfig, MockDevice, Utilisation};
use zico_tests::waves::{REGION, Waves, regions, run_all};

fn pool(budget: u64, policy: impl Policy + 'static) -> (MockDevice, Pool<MockDevice>) {
    let device = MockConfig::new(Bytes::gib(4)).budget(regions(budget));
    let device = MockDevice::new(device).unwrap();
    let config = PoolConfig::new(regions(budget)).region_size(REGION).policy(Box::new(policy));
    (device.clone(), Pool::new(device, config).unwrap())
}

fn job() -> JobConfig {
    JobConfig::new("job")
}

fn of(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

#[test]
fn a_floor_is_there_for_its_job_alone() {
    let (device, pool) = pool(10, TimeShift::default());
    let reserved = pool.join(job().floor(regions(4)), device.add_stream()).unwrap();
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(None), Ok(Begin::Started));
    let six = other.alloc(of(6)).unwrap();
    assert!(matches!(other.alloc(of(1)), Err(AllocError::OutOfMemory(_))), "never: it is reserved");
    // There at once, in whatever lifetime and whoever runs.
    let kept = reserved.alloc(Request::new(regions(4), Lifetime::Persistent)).unwrap();
    reserved.free(kept).unwrap();
    drop(reserved);
    pool.poll().unwrap();
    other.alloc(of(4)).unwrap();
    other.free(six).unwrap();
}

/// A broker that comes in the place of another one lets in who had a floor, though somebody is
/// there by then who would never fit beside that.
#[test]
fn a_floor_is_there_at_the_next_broker_too() {
    let device = MockDevice::new(MockConfig::new(regions(10)).budget(regions(10))).unwrap();
    let config = || PoolConfig::new(regions(10)).region_size(REGION);
    let broker = MockBroker::new(device.clone(), config()).unwrap();
    let (one, another) = (broker.connect().unwrap(), broker.connect().unwrap());
    let reserved = one.pool().join(job().floor(regions(4)), device.add_stream()).unwrap();
    let large = job().declare(regions(8));
    let large = another.pool().join(large, device.add_stream()).unwrap();
    let never_fits = || assert!(matches!(large.begin(None), Err(BeginError::NeverFits { .. })));
    never_fits();
    broker.restart(config()).unwrap();
    assert!(another.reconnect() && one.reconnect());
    never_fits();
    let kept = reserved.alloc(Request::new(regions(4), Lifetime::Persistent)).unwrap();
    reserved.free(kept).unwrap();
    assert_eq!((device.violations(), broker.violations()), (Vec::new(), Vec::new()));
}

/// What the others have given up and the device has yet to pass must not eat into a floor.
#[test]
fn a_floor_is_there_at_once() {
    let (device, pool) = pool(10, TimeShift::default());
    let reserved = pool.join(job().floor(regions(4)), device.add_stream()).unwrap();
    let stream = device.add_stream();
    let other = pool.join("other", stream).unwrap();
    assert_eq!(other.begin(None), Ok(Begin::Started));
    let block = other.alloc(of(3)).unwrap();
    let above = other.alloc(of(3)).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    other.free(block).unwrap();
    // Three are its own, three drain: a larger block has to wait for the device.
    assert!(matches!(other.alloc(of(5)), Err(AllocError::Busy(_) | AllocError::OutOfMemory(_))));
    // What drains it may have back at once, since its work runs in order: not what is reserved.
    let transient = |count| other.alloc(Request::new(regions(count), Lifetime::Iteration));
    assert!(matches!(transient(4), Err(AllocError::Busy(_) | AllocError::OutOfMemory(_))));
    transient(2).unwrap();
    assert!(device.outstanding(stream) > 0, "the device has not passed it");
    assert_eq!(other.held().total(), regions(6));
    reserved.alloc(of(4)).unwrap();
    device.run_until_idle();
    transient(1).unwrap();
    other.free(above).unwrap();
}

/// What was reserved for a job that has left is nobody's at once, but for what the device still
/// uses.
#[test]
fn a_floor_ends_when_its_job_leaves() {
    let (device, pool) = pool(10, TimeShift::default());
    let stream = device.add_stream();
    let reserved = pool.join(job().floor(regions(4)), stream).unwrap();
    let other = pool.join("other", device.add_stream()).unwrap();
    reserved.alloc(of(1)).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    drop(reserved);
    assert_eq!(other.begin(None), Ok(Begin::Started));
    other.alloc(of(9)).unwrap();
    assert!(device.outstanding(stream) > 0, "the device has not passed it");
}

#[test]
fn a_floor_that_cannot_be_kept_is_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    let join =
        |floor, cap| pool.join(job().floor(regions(floor)).cap(regions(cap)), device.add_stream());
    let refused = JoinError::FloorBeyondCap { floor: regions(3), cap: regions(2) };
    assert_eq!(join(3, 2).unwrap_err(), refused);
    let refused = JoinError::FloorNotFree { floor: regions(11), budget: regions(10) };
    assert_eq!(join(11, 11).unwrap_err(), refused);
    let mut other = Waves::join(&device, &pool, 2, &[5], 1);
    run_all(&device, &pool, std::slice::from_mut(&mut other), &[0]);
    assert!(join(4, 4).is_err(), "the other one's peak of 7 has to fit beside it");
    let kept = join(3, 3).unwrap();
    assert!(join(1, 1).is_err(), "the floors add up");
    drop(kept);
    device.run_until_idle();
    // In an iteration the other one holds five: with four reserved it might never finish.
    other.left = 1;
    assert!(other.step(&device) && other.step(&device));
    assert!(join(3, 3).is_ok(), "it needs no more than it has");
    drop(other);
    device.run_until_idle();
    pool.poll().unwrap();
    assert!(join(10, 10).is_ok());
    let usage = device.usage();
    drop(pool);
    assert!(usage.ranges > 0 && device.usage().ranges == 0, "ranges of those refused went too");
}

#[test]
fn a_cap_is_never_exceeded() {
    let (device, pool) = pool(10, TimeShift::default());
    let stream = device.add_stream();
    let capped = pool.join(job().cap(regions(4)), stream).unwrap();
    assert_eq!(capped.begin(None), Ok(Begin::Started));
    let error = capped.alloc(of(5)).unwrap_err();
    let AllocError::BeyondCap { cap, shortage } = error else { panic!("{error}") };
    assert_eq!((cap, shortage.asked), (regions(4), regions(5)));
    let block = capped.alloc(of(3)).unwrap();
    device.launch(stream, Ticks::millis(1), Utilisation::FULL).unwrap();
    capped.free(block).unwrap();
    // What drains is charged until the device has passed it, and the job may have it back before.
    let transient = Request::new(regions(2), Lifetime::Iteration);
    capped.alloc(transient).unwrap();
    assert_eq!(capped.held().total(), regions(3));
    capped.alloc(transient).unwrap();
    assert!(device.outstanding(stream) > 0, "the device has not passed it");
    assert_eq!(capped.held().total(), regions(4));
    assert!(capped.held().peak <= regions(4));
}

#[test]
fn iterations_beyond_the_cap_are_refused_when_they_ask() {
    let (device, pool) = pool(10, TimeShift::default());
    let terms = job().cap(regions(4)).declare(regions(5));
    let capped = pool.join(terms, device.add_stream()).unwrap();
    let error = capped.begin(None).unwrap_err();
    let expected = BeginError::BeyondCap { job: "job".into(), peak: regions(5), cap: regions(4) };
    assert_eq!(error, expected);
}

#[test]
fn static_shares_are_caps_and_start_at_once() {
    let (device, pool) = pool(10, AlwaysStart);
    let [one, two] =
        [(); 2].map(|()| pool.join(job().cap(regions(5)), device.add_stream()).unwrap());
    assert_eq!((one.begin(None), two.begin(None)), (Ok(Begin::Started), Ok(Begin::Started)));
    one.alloc(of(4)).unwrap();
    assert!(matches!(one.alloc(of(2)), Err(AllocError::BeyondCap { .. })), "five are its share");
    two.alloc(of(5)).unwrap();
    drop(two);
    device.run_until_idle();
    pool.poll().unwrap();
    assert!(matches!(one.alloc(of(2)), Err(AllocError::BeyondCap { .. })), "whoever is there");
    one.alloc(of(1)).unwrap();
}

/// First iterations run alone, unless it is known how much they take.
#[test]
fn a_declared_maximum_lets_first_iterations_run_together() {
    for (declared, together) in [(None, false), (Some(5), true), (Some(6), false)] {
        let (device, pool) = pool(10, TimeShift::default());
        let [one, two] = [(); 2].map(|()| {
            let terms = match declared {
                Some(most) => job().declare(regions(most)),
                None => job(),
            };
            pool.join(terms, device.add_stream()).unwrap()
        });
        assert_eq!(one.begin(None), Ok(Begin::Started));
        assert_eq!(two.begin(None) == Ok(Begin::Started), together, "{declared:?}");
    }
}

#[test]
fn those_with_priority_go_first() {
    let (device, pool) = pool(10, Exclusive);
    let join = |priority| pool.join(job().priority(priority), device.add_stream()).unwrap();
    let (low, high, first) = (join(-1), join(1), join(0));
    assert_eq!(first.begin(None), Ok(Begin::Started));
    assert_eq!((low.begin(None), high.begin(None)), (Ok(Begin::Wait(None)), Ok(Begin::Wait(None))));
    first.end().unwrap();
    assert_eq!((low.begin(None), high.begin(None)), (Ok(Begin::Wait(None)), Ok(Begin::Started)));
}

/// I5: however many with a higher priority ask again and again, a job starts after 16 of them, and
/// two that are passed over start in the order in which they asked.
#[test]
fn priority_does_not_starve() {
    let (device, pool) = pool(10, Exclusive);
    let low = [(); 2].map(|()| pool.join("low", device.add_stream()).unwrap());
    let high = [(); 3].map(|()| pool.join(job().priority(9), device.add_stream()).unwrap());
    high.iter().for_each(|job| drop(job.begin(None)));
    low.iter().for_each(|job| drop(job.begin(None)));
    let mut started = Vec::new();
    while started.len() < 30 {
        // Whoever runs ends; each of the important ones asks again at once.
        let all = low.iter().chain(&high);
        let running = all.enumerate().find_map(|(i, job)| job.end().is_ok().then_some(i));
        started.extend(running);
        high.iter().for_each(|job| drop(job.begin(None)));
        low.iter().take(2).for_each(|job| {
            if !started.contains(&usize::from(!std::ptr::eq(job, &low[0]))) {
                drop(job.begin(None));
            }
        });
    }
    let at = |job| started.iter().position(|&i| i == job).unwrap();
    // Two of the high ones had asked before.
    assert_eq!((at(0), at(1)), (3 + 16, 3 + 17), "{started:?}");
}

/// Lets those start that keep nothing; the others it would rather ask again in a while.
struct Undecided;

impl Policy for Undecided {
    fn name(&self) -> &'static str {
        "undecided"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let kept = !view.own().persistent.is_zero();
        if kept { Verdict::AskAgain(Ticks::new(1)) } else { Verdict::Start }
    }
}

/// I5: where the policy does not know how long the first waiter has to wait, nobody starts before
/// it.
#[test]
fn nobody_starts_before_one_who_was_promised_nothing() {
    let (device, pool) = pool(10, Undecided);
    let [one, two, first] = [(); 3].map(|()| pool.join("job", device.add_stream()).unwrap());
    first.alloc(Request::new(regions(1), Lifetime::Persistent)).unwrap();
    assert_eq!((one.begin(None), two.begin(None)), (Ok(Begin::Started), Ok(Begin::Started)));
    assert_eq!(first.begin(None), Ok(Begin::Wait(None)));
    one.end().unwrap();
    assert_eq!(one.begin(None), Ok(Begin::Wait(Some(Ticks::ZERO))), "it could, and has to wait");
    two.end().unwrap();
    assert_eq!(first.begin(None), Ok(Begin::Started));
    assert_eq!(one.begin(None), Ok(Begin::Started));
}

/// Salus's FAIR and SRTF put those first that have had less, or have less to do.
#[test]
fn salus_orders_those_who_wait() {
    let srtf = Order::Srtf { iterations: 9 };
    for (order, done, first) in [(Order::Pack, 1, 0), (Order::Fair, 1, 1), (srtf, 3, 1)] {
        let (device, pool) = pool(10, Lanes::new(order));
        // Both need more than half: one lane. The first one takes more; the second one may have
        // done more.
        let join = |wave: u64, times| Waves::join(&device, &pool, 0, &[wave], times);
        let mut jobs = [join(9, 1), join(6, done), join(7, 1)];
        let alone = |job: &mut Waves| {
            while job.left > 0 {
                job.step(&device);
                device.run_until_idle();
                pool.poll().unwrap();
            }
        };
        jobs.iter_mut().for_each(alone);
        jobs.iter_mut().for_each(|job| job.left = 1);
        assert!(jobs[2].step(&device));
        assert!(!jobs[0].step(&device) && !jobs[1].step(&device), "one lane");
        alone(&mut jobs[2]);
        let started = [0, 1].map(|i| jobs[i].job.begin(None) == Ok(Begin::Started));
        assert!(started[first] && !started[1 - first], "{order:?}: {started:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(zico_tests::cases(200)) })]

    /// I4 with floors: jobs that fit beside what is reserved for the others always finish.
    #[test]
    fn jobs_with_floors_always_finish(
        jobs in prop::collection::vec((0..3u64, prop::collection::vec(1..5u64, 1..6), 0..8u64), 1..5),
        slack in 0..6u64,
        order in prop::collection::vec(0..4usize, 1..40),
    ) {
        let peak = |wave: &[u64]| wave.iter().sum::<u64>();
        let reserved: u64 = jobs.iter().map(|(kept, _, floor)| kept.max(floor)).sum();
        let most = jobs.iter().map(|(kept, wave, floor)| {
            reserved - kept.max(floor) + (kept + peak(wave)).max(*floor)
        });
        let (device, pool) = pool(most.max().unwrap_or(1) + slack, TimeShift::default());
        let mut all: Vec<Waves> = jobs.iter().map(|(kept, wave, floor)| {
            let terms = job().floor(regions(*floor)).cap(regions((kept + peak(wave)).max(*floor)));
            Waves::join_as(terms, &device, &pool, *kept, wave, 5)
        }).collect();
        run_all(&device, &pool, &mut all, &order);
    }
}
