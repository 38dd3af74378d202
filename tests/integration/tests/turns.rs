//! Jobs that take turns on the device: what they keep is more than the budget in all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{
    AllocError, Begin, Bytes, Class, Device, JobConfig, JoinError, Lifetime, Pool, PoolConfig,
    Request,
};
use zico_mock::{FaultPlan, Faulty, MockConfig, MockDevice, Operations};
use zico_tests::owned::all_leave;
use zico_tests::taker::{SLICE, Step, Tenant, WORK};
use zico_tests::waves::{REGION, regions};

type Dev = Faulty<MockDevice>;

/// The jobs go on in turn, in virtual time, until each has done so many iterations.
fn run(device: &MockDevice, pool: &Pool<Dev>, jobs: &mut [Tenant<Dev>], iterations: u64) {
    let mut vain = 0;
    while jobs.iter().any(|job| job.iterations < iterations) {
        let moved = jobs.iter_mut().filter(|job| job.iterations < iterations * 4);
        let moved = moved.map(|job| matches!(job.step(), Step::On)).fold(false, |any, on| any | on);
        // One iteration is enqueued at a time.
        let at = device.next_completion().or_else(|| pool.poll_at());
        at.into_iter().for_each(|at| device.advance_to(at.at_least(device.now())));
        let _ = pool.poll();
        vain = if moved { 0 } else { vain + 1 };
        assert!(vain < 10_000, "{}\n{:?}", pool.snapshot(), pool.waits());
    }
    assert_eq!(device.violations(), []);
}

fn setup(budget: u64) -> (MockDevice, Pool<Dev>) {
    let device = MockDevice::new(MockConfig::new(regions(budget)).budget(regions(budget))).unwrap();
    let faulty = Faulty::new(device.clone(), FaultPlan::none());
    let config = PoolConfig::new(regions(budget)).region_size(REGION);
    (device, Pool::new(faulty, config).unwrap())
}

/// Eight that keep twice as much as there is.
#[test]
fn jobs_that_keep_twice_the_budget_all_go_on() {
    let (device, pool) = setup(20);
    let kept = [2, 5, 8, 3, 7, 5, 4, 6];
    let mut jobs: Vec<_> =
        (1..).zip(kept).map(|(n, kept)| Tenant::join(&device, &pool, n, (kept, 3))).collect();
    run(&device, &pool, &mut jobs, 20);
    drop(jobs);
    all_leave(&device, pool);
}

/// A trainer and its rollout, of which each keeps most of the device, and one that grows meanwhile.
#[test]
fn a_trainer_and_its_rollout_change_places_at_the_speed_of_the_link() {
    let (device, pool) = setup(1000);
    let mut both: Vec<_> = (1..=2).map(|n| Tenant::join(&device, &pool, n, (750, 50))).collect();
    run(&device, &pool, &mut both, 1);
    let firm = pool.join("grows", device.add_stream()).unwrap();
    let (mut grown, mut refused) = (Vec::new(), 0);
    let link = device.host().unwrap().link().unwrap();
    let one_way = link.time_out(regions(750)).at_least(link.time_back(regions(750)));
    for turn in 0..10 {
        let job = &mut both[turn % 2];
        let (began, done) = (device.now(), job.iterations);
        while job.iterations == done {
            if matches!(job.step(), Step::Waits) {
                let at = device.next_completion().or_else(|| pool.poll_at()).unwrap();
                device.advance_to(at.at_least(device.now()));
                pool.poll().unwrap();
            }
        }
        device.run_until_idle();
        // The slice of the other one is over: it came before. One comes while the other goes.
        let took = device.now().saturating_sub(began).saturating_sub(WORK);
        let most = one_way.value() + one_way.value() / 50;
        assert!(took.value() <= most, "{took} where a copy one way takes {one_way}");
        match firm.alloc(Request::new(regions(40), Lifetime::Persistent)) {
            Ok(block) => grown.push(block),
            Err(AllocError::OutOfMemory(_)) => refused += 1,
            Err(AllocError::Busy(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(!grown.is_empty() && refused > 0, "{} and {refused}", grown.len());
    assert!(grown.len() <= 5, "both come back beside it");
    drop(firm);
    drop(both);
    all_leave(&device, pool);
}

/// Whatever call of the device fails, once, all go on, and nothing is lost.
#[test]
fn each_call_of_the_device_may_fail() {
    let mut n = 1;
    loop {
        let (device, pool) = setup(10);
        let mut jobs: Vec<_> =
            (1..=2).map(|owner| Tenant::join(&device, &pool, owner, (6, 2))).collect();
        let nth = FaultPlan::none().nth(Operations::all(), n, Class::Transient);
        pool.device().set_plan(nth);
        run(&device, &pool, &mut jobs, 3);
        let came_to_it = pool.device().injected() > 0;
        pool.device().set_plan(FaultPlan::none());
        drop(jobs);
        all_leave(&device, pool);
        if !came_to_it {
            break;
        }
        n += 1;
    }
    assert!(n > 50, "{n} calls");
}

/// Its blocks may be used between its iterations, whoever looks at the pool meanwhile.
#[test]
fn a_cooperative_job_goes_within_its_own_calls_only() {
    let (device, pool) = setup(10);
    let config = JobConfig::new("a").cooperative(SLICE);
    let job = pool.join(config, device.add_stream()).unwrap();
    let six = Request::new(regions(6), Lifetime::Persistent);
    let kept = job.alloc(six).unwrap();
    assert_eq!(job.begin(None).unwrap(), Begin::Started);
    job.end().unwrap();
    let other = pool.join("b", device.add_stream()).unwrap();
    assert_eq!(other.begin(None).unwrap(), Begin::Started);
    let asks = || {
        let at = device.now().saturating_add(SLICE);
        device.advance_to(at);
        pool.poll().unwrap();
        other.alloc(Request::new(regions(6), Lifetime::Iteration))
    };
    for _ in 0..4 {
        assert!(matches!(asks(), Err(AllocError::Busy(_))));
        assert_eq!(job.held().total(), regions(6), "it makes no call");
    }
    assert!(matches!(job.begin(None).unwrap(), Begin::Wait(_)));
    device.run_until_idle();
    let block = asks().unwrap();
    assert_eq!(job.held().total(), Bytes::ZERO);
    other.free(block).unwrap();
    other.end().unwrap();
    drop(other);
    while job.begin(None).unwrap() != Begin::Started {
        device.run_until_idle();
        pool.poll().unwrap();
    }
    assert_eq!(job.held().total(), regions(6), "it is back before the call says so");
    job.free(kept).unwrap();
    job.end().unwrap();
}

#[test]
fn a_device_without_a_host_tier_preempts_nobody() {
    let device = MockDevice::new(MockConfig::new(regions(4)).link(None)).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(regions(4)).region_size(REGION)).unwrap();
    let config = JobConfig::new("a").preemptible(SLICE);
    let refused = pool.join(config, device.add_stream()).err().unwrap();
    assert_eq!(refused, JoinError::NotPreemptible);
    assert!(refused.to_string().contains("cannot be taken to the host"), "{refused}");
    pool.join("a", device.add_stream()).unwrap();
}
