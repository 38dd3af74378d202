//! Jobs that ask for too much, leave, or use wrong handles do not harm others (I6, I7).

use zico_core::policy::TimeShift;
use zico_core::{
    AllocError, Begin, Bytes, Class, FreeError, JoinError, Lifetime, Pool, PoolConfig, Request,
};
use zico_mock::{FaultPlan, Faulty, MockConfig, MockDevice, Operation};
use zico_tests::waves::{REGION, Waves, regions, run_all};

use super::pool;

/// I6: a job that needs more than the budget leaves is refused alone; the other goes on.
#[test]
fn a_job_that_asks_too_much_fails_alone() {
    for (budget, fits) in [(10, false), (11, true)] {
        let (device, pool) = pool(budget, TimeShift::default());
        let mut good = Waves::join(&device, &pool, 2, &[1, 1, 1], 5);
        let greedy = pool.join("greedy", device.add_stream()).unwrap();
        match greedy.alloc(Request::new(regions(9), Lifetime::Persistent)) {
            Ok(_) if fits => continue,
            Err(AllocError::OutOfMemory(why)) if !fits => {
                let shortage = &why.shortage;
                assert_eq!((shortage.asked, shortage.held_by_others), (regions(9), regions(2)));
                assert_eq!((&*why.holders[0].job, why.holders.len()), ("waves", 1));
                assert_eq!(why.missing, regions(1), "with one region more it is granted");
            }
            other => panic!("{other:?}"),
        }
        run_all(&device, &pool, std::slice::from_mut(&mut good), &[0]);
    }
}

/// I6: what stays must leave room for the known peaks of the others.
#[test]
fn persistent_growth_cannot_shut_out_another_job() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut first = Waves::join(&device, &pool, 1, &[3, 3], 1);
    run_all(&device, &pool, std::slice::from_mut(&mut first), &[0]);
    device.run_until_idle();
    pool.poll().unwrap();
    let second = pool.join("second", device.add_stream()).unwrap();
    second.alloc(Request::new(regions(3), Lifetime::Persistent)).unwrap();
    let error = second.alloc(Request::new(regions(1), Lifetime::Persistent)).unwrap_err();
    assert!(matches!(error, AllocError::OutOfMemory(_)), "{error}");
    first.left = 3;
    run_all(&device, &pool, std::slice::from_mut(&mut first), &[0]);
}

/// I6: a job that leaves in mid-iteration gives everything back, once the device has passed it.
#[test]
fn a_job_that_leaves_returns_what_it_held() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut leaver = Waves::join(&device, &pool, 2, &[4, 3], 5);
    (0..3).for_each(|_| assert!(leaver.step(&device)));
    let (other, stream) = (device.add_stream(), leaver.stream);
    let other = pool.join("other", other).unwrap();
    drop(leaver);
    let all = Request::new(regions(10), Lifetime::Iteration);
    assert_eq!(other.begin(None), Ok(Begin::Started));
    assert!(matches!(other.alloc(all), Err(AllocError::Busy(_))), "the device still uses it");
    assert!(device.outstanding(stream) > 0);
    device.run_until_idle();
    other.alloc(all).unwrap();
}

/// I7: a handle that is not this job's, or not live any more, is a typed error and changes nothing.
#[test]
fn stale_and_foreign_handles_are_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    let (one, two) = (
        pool.join("one", device.add_stream()).unwrap(),
        pool.join("two", device.add_stream()).unwrap(),
    );
    let request = Request::new(Bytes::kib(1), Lifetime::Persistent);
    let first = one.alloc(request).unwrap();
    assert_eq!(two.free(first), Err(FreeError::NotLive(first.address())));
    one.free(first).unwrap();
    let second = one.alloc(request).unwrap();
    assert_eq!(second.address(), first.address());
    assert_eq!(one.free(first), Err(FreeError::Stale(first.address())));
    one.free(second).unwrap();
}

/// A job whose iterations cannot fit beside what the others keep is told so, with the numbers.
#[test]
fn an_iteration_that_can_never_fit_is_refused() {
    let (device, pool) = pool(10, TimeShift::default());
    // Both in their first iterations: nothing is known yet that could refuse the growth of either.
    let mut job = Waves::join(&device, &pool, 1, &[7], 1);
    let other = pool.join("other", device.add_stream()).unwrap();
    assert_eq!(other.begin(None), Ok(Begin::Started));
    other.alloc(Request::new(regions(3), Lifetime::Persistent)).unwrap();
    other.end().unwrap();
    assert!(job.step(&device), "its first iteration starts");
    let error = job.job.alloc(Request::new(regions(7), Lifetime::Iteration)).unwrap_err();
    assert!(matches!(error, AllocError::OutOfMemory(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("budget 20 MiB") && text.contains("6 MiB by 1 other job"), "{text}");
}

/// What is still live when a job leaves is said by name, and comes back all the same.
#[test]
fn what_a_job_leaks_is_said_by_name() {
    let (_, pool) = pool(10, TimeShift::default());
    let job = pool.join("leaky", pool.device().add_stream()).unwrap();
    let request = |kib| Request::new(Bytes::kib(kib), Lifetime::Iteration);
    let freed = job.alloc(request(8).named("workspace")).unwrap();
    for _ in 0..2 {
        job.alloc(request(100).named("embedding")).unwrap();
    }
    job.alloc(request(3)).unwrap();
    job.free(freed).unwrap();
    let leaks = job.leave();
    assert_eq!((leaks.blocks.len(), leaks.total()), (3, Bytes::kib(203)));
    let text = leaks.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "leaky: 3 live blocks, 203 KiB");
    assert!(lines[1].starts_with("200 KiB") && lines[1].ends_with("2 iteration embedding"));
    assert!(lines[2].ends_with("1 iteration (no name)") && lines.len() == 3, "{text}");
    pool.poll().unwrap();
    assert_eq!(pool.snapshot().free, pool.snapshot().held);
}

/// I8: a job that cannot have all its address ranges gives back those that it got, whichever is
/// refused, and even if giving back is refused once.
#[test]
fn a_job_that_cannot_join_leaves_no_addresses_behind() {
    for refused in 1..=2 {
        for release in [0, 1] {
            let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
            let plan = FaultPlan::none().nth(Operation::Reserve, refused, Class::Transient);
            let plan = match release {
                0 => plan,
                n => plan.nth(Operation::Release, n, Class::Transient),
            };
            let faulty = Faulty::new(device.clone(), plan);
            let pool = Pool::new(faulty, PoolConfig::new(regions(8)).region_size(REGION)).unwrap();
            let joined = pool.join("job", device.add_stream());
            assert!(matches!(joined, Err(JoinError::Device(_))));
            pool.poll().unwrap();
            let (reserved, released) =
                (device.calls().of(Operation::Reserve), device.calls().of(Operation::Release));
            assert_eq!((reserved, released), (refused - 1, refused - 1), "{refused} {release}");
        }
    }
}
