//! Memory carried over from one iteration to the next, and jobs that wait for it (D0).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zico_core::{
    Activity, AllocError, Awaited, Begin, Bytes, Device as _, Job, JobConfig, Lifetime, Request,
    Ticks,
};
use zico_mock::MockDevice;
use zico_mock::policy::Exclusive;
use zico_tests::waves::{Reckless, regions};

use super::{LOOK, Setup, busy, learned, out_of_memory, own, stays};

/// D0, 1 to 3: what a job has left over from its last iteration it can free only by running on. An
/// iteration of which nothing is known gets what is there beside it, and the other its turn.
#[test]
fn a_leftover_does_not_stop_an_iteration_of_which_nothing_is_known() {
    for request in [learned(1), own(1)] {
        for frees in [true, false] {
            let setup = Setup::new(8);
            let (a, b) = (setup.join("a"), setup.join("b"));
            assert_eq!(a.begin(None), Ok(Begin::Started));
            let left = a.alloc(request).unwrap();
            a.end().unwrap();
            let second = thread::scope(|scope| {
                assert_eq!(b.begin(None), Ok(Begin::Started));
                let waiting = scope.spawn(|| a.begin_blocking(None, LOOK));
                while setup.pool.waits().is_empty() {
                    thread::sleep(LOOK);
                }
                let blocks = [2, 5].map(|count| b.alloc_blocking(own(count), LOOK).unwrap());
                blocks.into_iter().for_each(|block| b.free(block).unwrap());
                b.end().unwrap();
                waiting.join().unwrap()
            });
            assert_eq!(second, Ok(()));
            if frees {
                a.free(left).unwrap();
            }
            a.end().unwrap();
        }
    }
}

/// D0, 4: two jobs wait to start. The first needs what the second keeps and frees in its iteration:
/// the second starts, whoever asked first.
#[test]
fn a_job_that_waits_to_start_lets_the_one_start_that_keeps_what_it_needs() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 3, 2);
    setup.learn(&b, 7, 2);
    assert_eq!(a.begin(None), Ok(Begin::Started));
    let left = a.alloc(own(2)).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(None), Ok(Begin::Wait(None)));
    assert_eq!(a.begin(None), Ok(Begin::Started), "what the other waits for is kept here");
    a.free(left).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    let block = b.alloc(own(7)).unwrap();
    b.free(block).unwrap();
}

/// The same where two keep what each other needs: one starts, and frees it or is told.
#[test]
fn two_jobs_that_keep_what_each_other_needs_do_not_wait_for_ever() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 7, 2);
    setup.learn(&b, 7, 2);
    let left = [&a, &b].map(|job| job.alloc(own(3)).unwrap());
    assert_eq!(
        a.begin(None),
        Ok(Begin::Wait(None)),
        "the other one is idle, and may free what it keeps"
    );
    assert!(matches!(b.begin(None), Ok(Begin::Started | Begin::Wait(_))));
    let (mut runs, mut waits) = ((&a, left[0]), (&b, left[1]));
    if a.begin(None) != Ok(Begin::Started) {
        core::mem::swap(&mut runs, &mut waits);
    }
    assert_eq!(runs.0.held().iteration, regions(3), "it runs");
    runs.0.free(runs.1).unwrap();
    let all = runs.0.alloc(own(5)).or_else(|_| {
        // It is like none of its iterations, so the other one is to be able to finish before it.
        assert_eq!(waits.0.begin(None), Ok(Begin::Started));
        waits.0.free(waits.1).unwrap();
        waits.0.end().unwrap();
        runs.0.alloc(own(5))
    });
    runs.0.free(all.unwrap()).unwrap();
    runs.0.end().unwrap();
}

/// The same where both wait for a third: the one that is asked first needs what the second keeps.
#[test]
fn what_a_waiting_job_keeps_is_not_there_for_one_with_a_higher_priority() {
    let setup = Setup::under(8, Exclusive);
    let [a, c] = ["a", "c"].map(|name| setup.join(name));
    let b = setup.join(JobConfig::new("b").priority(1));
    setup.learn(&a, 3, 2);
    setup.learn(&b, 7, 2);
    let left = a.alloc(own(2)).unwrap();
    assert_eq!(c.begin(None), Ok(Begin::Started));
    assert_eq!((a.begin(None), b.begin(None)), (Ok(Begin::Wait(None)), Ok(Begin::Wait(None))));
    c.end().unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Wait(None)), "it could not go on");
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.free(left).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
}

/// What a job begins with stays, as far as is known, until it has been freed: no iteration starts
/// beside it that would need it.
#[test]
fn what_an_iteration_has_begun_with_is_not_expected_back() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&b, 6, 2);
    let left = a.alloc(own(3)).unwrap();
    assert_eq!(a.begin(None), Ok(Begin::Started));
    assert_eq!(b.begin(None), Ok(Begin::Wait(None)));
    a.free(left).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started), "it has been freed");
}

/// What one of the last iterations has left may be left again, whatever the newest has begun with.
#[test]
fn what_iterations_have_left_is_expected_to_be_left_again() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&b, 6, 2);
    assert_eq!(a.begin(None), Ok(Begin::Started));
    let left = a.alloc(own(3)).unwrap();
    a.end().unwrap();
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.free(left).unwrap();
    a.free(a.alloc(own(3)).unwrap()).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(a.begin(None), Ok(Begin::Started));
    assert_eq!(b.begin(None), Ok(Begin::Wait(None)), "there may not be room for it");
    a.end().unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started), "nothing was left");
}

/// D0, 5: a persistent allocation outside iterations, by a job that keeps something, beside an
/// iteration of which nothing is known.
#[test]
fn a_persistent_allocation_and_an_unknown_iteration_do_not_wait_for_each_other() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.alloc(own(1)).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    busy(&a.alloc(stays(1)));
    let block = b.alloc(own(7)).unwrap();
    b.free(block).unwrap();
    b.end().unwrap();
    setup.settle();
    a.alloc(stays(1)).unwrap();
}

/// D0, 6: a job that idles for ever keeps what it holds, and does not block others.
#[test]
fn an_idle_job_keeps_what_it_holds_and_stops_nobody() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.alloc(own(1)).unwrap();
    a.end().unwrap();
    for _ in 0..3 {
        assert_eq!(b.begin(None), Ok(Begin::Started));
        let block = b.alloc(own(7)).unwrap();
        b.free(block).unwrap();
        b.end().unwrap();
        setup.settle();
    }
    // What it keeps can be waited for, and it is known who that is.
    assert_eq!(b.begin(None), Ok(Begin::Started));
    b.alloc(own(7)).unwrap();
    busy(&b.alloc(own(1)));
    let waits = setup.pool.waits();
    assert_eq!(
        (waits.len(), waits[0].id, waits[0].awaited),
        (1, b.id(), Awaited::Memory(regions(1)))
    );
    let blocker = &waits[0].blockers[0];
    assert_eq!(
        (blocker.id, blocker.activity, blocker.held.total()),
        (a.id(), Activity::Idle, regions(1))
    );
    assert_eq!(waits[0].to_string(), "b waits for 2 MiB: a (Idle) holds 2 MiB");
}

/// D0, 7: jobs that mark no iterations and all wait for memory: one of them is told, with the
/// numbers.
#[test]
fn jobs_that_mark_nothing_and_all_wait_are_told() {
    let setup = Setup::new(6);
    let jobs = ["a", "b", "c"].map(|name| setup.join(name));
    let blocks = jobs.each_ref().map(|job| job.alloc(own(2)).unwrap());
    let told = thread::scope(|scope| {
        let threads = jobs.each_ref().map(|job| {
            let (done, mine) = (AtomicBool::new(false), blocks[jobs_index(&jobs, job)]);
            scope.spawn(move || {
                let result = job.alloc_blocking(own(1), LOOK);
                // Who is told makes room for the others.
                let _ = done.swap(true, Ordering::SeqCst) || job.free(mine).is_err();
                if let Ok(block) = result {
                    job.free(block).unwrap();
                    return None;
                }
                Some(out_of_memory(result))
            })
        });
        threads.map(|thread| thread.join().unwrap()).into_iter().flatten().collect::<Vec<_>>()
    });
    assert!(!told.is_empty() && told.len() < 3, "{told:?}");
    assert!(
        told[0].contains("budget 12 MiB") && told[0].contains("by 2 other jobs"),
        "{}",
        told[0]
    );
}

fn jobs_index(jobs: &[Job<MockDevice>], job: &Job<MockDevice>) -> usize {
    jobs.iter().position(|other| other.id() == job.id()).unwrap()
}

/// D32: the first round of a job is like no later one, and one of its phases begins as a later one
/// does. A plan leaves a block for the next phase. What begins alike is known all the same.
#[test]
fn a_first_round_that_never_comes_again_leaves_nothing_unknown() {
    let setup = Setup::new(64);
    let job = setup.join("phases");
    let mut left = None;
    let mut phase = |counts: [u64; 4], leaves: bool| {
        assert_eq!(job.begin(None), Ok(Begin::Started));
        let [one, two] = [0, 1].map(|at| job.alloc(own(counts[at])).unwrap());
        left.take().into_iter().for_each(|block| job.free(block).unwrap());
        let claim = setup.pool.snapshot().jobs[0].claim;
        let rest = [2, 3].map(|at| job.alloc(own(counts[at])).unwrap());
        left = leaves.then(|| job.alloc(own(1)).unwrap());
        [one, two].into_iter().chain(rest).for_each(|block| job.free(block).unwrap());
        job.end().unwrap();
        setup.settle();
        claim
    };
    phase([1, 1, 1, 1], false);
    phase([1, 1, 4, 3], false);
    let known = (0..20).map(|_| {
        phase([3, 1, 1, 1], true);
        phase([1, 1, 2, 2], false).is_some()
    });
    let known: Vec<bool> = known.collect();
    assert!(known[4..].iter().all(|&known| known), "{known:?}");
}

/// D39: a loop that keeps a number of each iteration, as `losses.append(loss)` does, is planned all
/// the same: what the first iterations have left lies beside the plan.
#[test]
fn what_is_kept_of_each_iteration_does_not_keep_plans_away() {
    let setup = Setup::new(64);
    let job = setup.join("loop");
    let small = Request::learned(Bytes::new(512));
    let mut losses = Vec::new();
    let mut iteration = || {
        let before = job.snapshot().planning.placed;
        assert_eq!(job.begin(None), Ok(Begin::Started));
        losses.push(job.alloc(small).unwrap());
        let forward = [3, 1, 2, 5, 1, 4].map(|count| job.alloc(learned(count)).unwrap());
        let middle = job.alloc(small).unwrap();
        forward.into_iter().rev().for_each(|block| job.free(block).unwrap());
        job.free(middle).unwrap();
        job.end().unwrap();
        setup.settle();
        (job.snapshot().planning.placed - before, setup.pool.snapshot().counts.maps)
    };
    let iterations: Vec<(u64, u64)> = (0..24).map(|_| iteration()).collect();
    assert!(iterations[8..].iter().all(|&(placed, _)| placed == 8), "{iterations:?}");
    assert_eq!(iterations[8].1, iterations[23].1, "no page is mapped anew: {iterations:?}");
    let most = setup.pool.snapshot().jobs[0].held.peak;
    // 16 regions and two small ones, and one for what persists.
    assert!(most <= regions(19), "{most}");
    losses.into_iter().for_each(|block| job.free(block).unwrap());
}

/// The same where the job says that what it keeps is of the iteration: it lies there, as it says.
#[test]
fn what_is_kept_and_said_to_be_of_the_iteration_lies_there() {
    let setup = Setup::new(64);
    let job = setup.join("loop");
    let small = Request::new(Bytes::new(512), Lifetime::Iteration);
    let mut losses = Vec::new();
    for _ in 0..24 {
        assert_eq!(job.begin(None), Ok(Begin::Started));
        let forward = [3, 1, 2].map(|count| job.alloc(own(count)).unwrap());
        losses.push(job.alloc(small).unwrap());
        forward.into_iter().rev().for_each(|block| job.free(block).unwrap());
        job.end().unwrap();
        setup.settle();
        assert_eq!(job.held().persistent, Bytes::ZERO);
        assert!(job.held().total() <= regions(3), "{:?}", job.held());
    }
    losses.into_iter().for_each(|block| job.free(block).unwrap());
}

/// D58: two iterations that have outgrown their like cannot both go on; a third job, which makes
/// anew what its iterations begin with, was let start for ever, since it might free that.
#[test]
fn who_makes_its_leftovers_anew_hides_from_nobody_that_nothing_goes_on() {
    let setup = Setup::under(12, Reckless);
    let (a, b, c) = (setup.join("a"), setup.join("b"), setup.join("c"));
    setup.learn(&a, 3, 2);
    setup.learn(&b, 3, 2);
    let mut batch = c.alloc(own(1)).unwrap();
    assert_eq!([&a, &b].map(|job| job.begin(None)), [const { Ok(Begin::Started) }; 2]);
    a.alloc(own(3)).unwrap();
    b.alloc(own(3)).unwrap();
    let mut told = 0;
    for _ in 0..60 {
        if c.begin(None) == Ok(Begin::Started) {
            let next = c.alloc(own(1)).unwrap();
            c.free(std::mem::replace(&mut batch, next)).unwrap();
            c.end().unwrap();
        }
        setup.settle();
        for job in [&a, &b] {
            match job.alloc(own(6)) {
                Err(AllocError::OutOfMemory(_)) => told += 1,
                other => busy(&other),
            }
        }
        if told > 0 {
            return;
        }
    }
    panic!("nobody is told:\n{}", setup.pool.snapshot());
}

/// An iteration that has begun, of five regions, which ends as the next one begins; `meanwhile`
/// happens while it has them.
fn iteration_beside(setup: &Setup, job: &Job<MockDevice>, meanwhile: impl FnOnce()) {
    let wave = job.alloc(own(5)).unwrap();
    meanwhile();
    job.free(wave).unwrap();
    setup.settle();
    job.end_with_next().unwrap();
}

/// D60: a job that waits for its setup's memory, in no iteration, was passed over for ever by one
/// whose iterations end as the next ones begin.
#[test]
fn a_job_that_is_set_up_is_not_passed_over_for_ever() {
    let setup = Setup::under(6, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 5, 2);
    for _ in 0..40 {
        if a.begin(None) != Ok(Begin::Started) {
            b.alloc(learned(2)).unwrap();
            return;
        }
        iteration_beside(&setup, &a, || busy(&b.alloc(learned(2))));
    }
    panic!("it waits still:\n{}", setup.pool.snapshot());
}

/// The same where it has given up: others wait for it to ask again, once, for as long as they have
/// patience.
#[test]
fn a_job_that_has_given_up_its_setup_holds_others_up_once() {
    let setup = Setup::under(6, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 5, 2);
    let mut waited = 0;
    for round in 0..150 {
        while a.begin(None) != Ok(Begin::Started) {
            waited += 1;
            assert!(waited < 4, "round {round}:\n{}", setup.pool.snapshot());
            let later = setup.device.now().saturating_add(Ticks::millis(60_000));
            setup.device.advance_to(later);
            setup.settle();
        }
        iteration_beside(&setup, &a, || {
            if round == 0 {
                busy(&b.alloc(learned(2)));
            }
        });
    }
    assert!(waited > 0, "it is never waited for");
}
