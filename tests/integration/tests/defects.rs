//! What hostile use has broken once: each defect in the shortest program that shows it.
//!
//! The numbers are those of the table in docs/verification.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use zico_core::policy::{Exclusive, Policy, TimeShift};
use zico_core::{
    Activity, AllocError, Awaited, Begin, BeginError, Block, Bytes, Device, FreeError, Job,
    JobConfig, Lifetime, Pool, PoolConfig, Request, Ticks,
};
use zico_mock::{MockConfig, MockDevice, MockStream, Operation, Utilisation};
use zico_tests::hook::{Hook, HookError, When};
use zico_tests::waves::{REGION, Reckless, regions};

const LOOK: Duration = Duration::from_millis(1);

struct Setup {
    device: MockDevice,
    pool: Pool<MockDevice>,
}

impl Setup {
    fn new(budget: u64) -> Self {
        Self::under(budget, TimeShift::default())
    }

    fn under(budget: u64, policy: impl Policy + 'static) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(4))).unwrap();
        let config = PoolConfig::new(regions(budget)).region_size(REGION).policy(Box::new(policy));
        Self { pool: Pool::new(device.clone(), config).unwrap(), device }
    }

    fn join(&self, terms: impl Into<JobConfig>) -> Job<MockDevice> {
        self.pool.join(terms, self.device.add_stream()).unwrap()
    }

    /// The device passes all that is enqueued.
    fn settle(&self) {
        self.device.run_until_idle();
        self.pool.poll().unwrap();
    }

    /// Iterations alone that hold so many regions at their peak.
    fn learn(&self, job: &Job<MockDevice>, peak: u64, times: usize) {
        for _ in 0..times {
            assert_eq!(job.begin(), Ok(Begin::Started));
            job.free(job.alloc(own(peak)).unwrap()).unwrap();
            job.end().unwrap();
            self.settle();
        }
    }
}

fn own(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Iteration)
}

fn stays(count: u64) -> Request {
    Request::new(regions(count), Lifetime::Persistent)
}

fn learned(count: u64) -> Request {
    Request::learned(regions(count))
}

fn busy<T: std::fmt::Debug, E: std::fmt::Debug>(result: &Result<T, AllocError<E>>) {
    assert!(matches!(result, Err(AllocError::Busy(_))), "{result:?}");
}

fn out_of_memory<T: std::fmt::Debug, E: std::fmt::Debug>(
    result: Result<T, AllocError<E>>,
) -> String {
    let Err(AllocError::OutOfMemory(why)) = result else { panic!("{result:?}") };
    why.to_string()
}

/// D0, 1 to 3: what a job has left over from its last iteration it can free only by running on. An
/// iteration of which nothing is known gets what is there beside it, and the other its turn.
#[test]
fn a_leftover_does_not_stop_an_iteration_of_which_nothing_is_known() {
    for request in [learned(1), own(1)] {
        for frees in [true, false] {
            let setup = Setup::new(8);
            let (a, b) = (setup.join("a"), setup.join("b"));
            assert_eq!(a.begin(), Ok(Begin::Started));
            let left = a.alloc(request).unwrap();
            a.end().unwrap();
            let second = thread::scope(|scope| {
                assert_eq!(b.begin(), Ok(Begin::Started));
                let waiting = scope.spawn(|| a.begin_blocking(LOOK));
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

/// D0, 4: two jobs wait to start. The first needs what the second keeps and frees in its iteration: the
/// second starts, whoever asked first.
#[test]
fn a_job_that_waits_to_start_lets_the_one_start_that_keeps_what_it_needs() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 3, 2);
    setup.learn(&b, 7, 2);
    assert_eq!(a.begin(), Ok(Begin::Started));
    let left = a.alloc(own(2)).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(), Ok(Begin::Wait(None)));
    assert_eq!(a.begin(), Ok(Begin::Started), "what the other waits for is kept here");
    a.free(left).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(), Ok(Begin::Started));
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
        a.begin(),
        Ok(Begin::Wait(None)),
        "the other one is idle, and may free what it keeps"
    );
    assert!(matches!(b.begin(), Ok(Begin::Started | Begin::Wait(_))));
    let (runs, its) = if a.begin() == Ok(Begin::Started) { (&a, left[0]) } else { (&b, left[1]) };
    assert_eq!(runs.held().iteration, regions(3), "it runs");
    runs.free(its).unwrap();
    let all = runs.alloc(own(5)).unwrap();
    runs.free(all).unwrap();
    runs.end().unwrap();
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
    assert_eq!(c.begin(), Ok(Begin::Started));
    assert_eq!((a.begin(), b.begin()), (Ok(Begin::Wait(None)), Ok(Begin::Wait(None))));
    c.end().unwrap();
    assert_eq!(b.begin(), Ok(Begin::Wait(None)), "it could not go on");
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.free(left).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started));
}

/// What a job begins with stays, as far as is known, until it has been freed: no iteration starts beside it
/// that would need it.
#[test]
fn what_an_iteration_has_begun_with_is_not_expected_back() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&b, 6, 2);
    let left = a.alloc(own(3)).unwrap();
    assert_eq!(a.begin(), Ok(Begin::Started));
    assert_eq!(b.begin(), Ok(Begin::Wait(None)));
    a.free(left).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started), "it has been freed");
}

/// What one of the last iterations has left may be left again, whatever the newest has begun with.
#[test]
fn what_iterations_have_left_is_expected_to_be_left_again() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&b, 6, 2);
    assert_eq!(a.begin(), Ok(Begin::Started));
    let left = a.alloc(own(3)).unwrap();
    a.end().unwrap();
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.free(left).unwrap();
    a.free(a.alloc(own(3)).unwrap()).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(a.begin(), Ok(Begin::Started));
    assert_eq!(b.begin(), Ok(Begin::Wait(None)), "there may not be room for it");
    a.end().unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started), "nothing was left");
}

/// D0, 5: a persistent allocation outside iterations, by a job that keeps something, beside an iteration
/// of which nothing is known.
#[test]
fn a_persistent_allocation_and_an_unknown_iteration_do_not_wait_for_each_other() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.alloc(own(1)).unwrap();
    a.end().unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started));
    busy(&a.alloc(stays(1)));
    let block = b.alloc(own(7)).unwrap();
    b.free(block).unwrap();
    b.end().unwrap();
    setup.settle();
    a.alloc(stays(1)).unwrap();
}

/// D0, 6: a job that idles for ever keeps what it holds, and stops nobody else.
#[test]
fn an_idle_job_keeps_what_it_holds_and_stops_nobody() {
    let setup = Setup::new(8);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.alloc(own(1)).unwrap();
    a.end().unwrap();
    for _ in 0..3 {
        assert_eq!(b.begin(), Ok(Begin::Started));
        let block = b.alloc(own(7)).unwrap();
        b.free(block).unwrap();
        b.end().unwrap();
        setup.settle();
    }
    // What it keeps can be waited for, and it is known who that is.
    assert_eq!(b.begin(), Ok(Begin::Started));
    b.alloc(own(7)).unwrap();
    busy(&b.alloc(own(1)));
    let waits = setup.pool.waits();
    assert_eq!(
        (waits.len(), waits[0].id, waits[0].awaited),
        (1, b.id(), Awaited::Memory(regions(1)))
    );
    let blocker = &waits[0].blockers[0];
    assert_eq!((blocker.id, blocker.activity, blocker.held), (a.id(), Activity::Idle, regions(1)));
    assert_eq!(waits[0].to_string(), "b waits for 2 MiB: a (Idle) holds 2 MiB");
}

/// D0, 7: jobs that mark no iterations and all wait for memory: one of them is told, with the numbers.
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

/// R1: the leftover of a job that waits in `begin` is looked at anew when it goes there: who was told to
/// wait for it is not left waiting.
#[test]
fn a_denial_is_looked_at_again_when_the_job_it_rests_on_waits_to_start() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 2, 2);
    assert_eq!(a.begin(), Ok(Begin::Started));
    let left = a.alloc(own(2)).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(), Ok(Begin::Started));
    b.alloc(own(6)).unwrap();
    busy(&b.alloc(own(1)));
    let generation = setup.pool.generation();
    if a.begin() != Ok(Begin::Started) {
        assert_ne!(setup.pool.generation(), generation, "the one that waits is woken");
        busy(&b.alloc(own(1)));
        assert_eq!(a.begin(), Ok(Begin::Started), "nothing else can go on");
    }
    a.free(left).unwrap();
    setup.settle();
    a.end().unwrap();
    setup.settle();
    b.alloc(own(1)).unwrap();
}

/// The same where the policy would not let it start beside the one that is denied: nobody else can free
/// what that one waits for.
#[test]
fn who_keeps_what_all_wait_for_starts_whatever_the_policy_says() {
    let setup = Setup::under(8, Exclusive);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 2, 2);
    let left = a.alloc(own(2)).unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started));
    b.alloc(own(6)).unwrap();
    busy(&b.alloc(own(1)));
    let generation = setup.pool.generation();
    assert_eq!(a.begin(), Ok(Begin::Wait(None)));
    assert_ne!(
        setup.pool.generation(),
        generation,
        "the one that waits for memory is to ask again"
    );
    busy(&b.alloc(own(1)));
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.free(left).unwrap();
    setup.settle();
    a.end().unwrap();
    setup.settle();
    b.alloc(own(1)).unwrap();
}

/// R2: a job that begins before its model is built has parameters and optimizer state among the blocks of
/// its iterations, for ever. Its claims and what it keeps are right after a few iterations, and it hangs
/// nobody meanwhile.
#[test]
fn a_job_that_begins_before_its_model_is_built_ends_up_with_the_right_claims() {
    let setup = Setup::new(12);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(), Ok(Begin::Started));
    a.alloc(learned(3)).unwrap();
    for round in 0..4 {
        if round > 0 {
            setup.settle();
            assert_eq!(a.begin(), Ok(Begin::Started));
        }
        let wave = a.alloc(learned(4)).unwrap();
        a.free(wave).unwrap();
        a.end().unwrap();
        // The other one gets all that is not kept, each time.
        setup.settle();
        assert_eq!(b.begin(), Ok(Begin::Started));
        let block = b.alloc(own(9)).unwrap();
        b.free(block).unwrap();
        b.end().unwrap();
    }
    setup.settle();
    // What it always begins with is kept for good: more than the rest can never be had.
    assert_eq!(b.begin(), Ok(Begin::Started));
    let text = out_of_memory(b.alloc(own(10)));
    assert!(text.contains("a holds 6 MiB") && text.contains("larger by 2 MiB"), "{text}");
}

/// R3: two jobs whose first step comes before their first mark, each with a peak of more than half the
/// budget: the second waits for the first, and none is refused.
#[test]
fn first_steps_before_the_first_mark_fit_below_the_sum_of_the_peaks() {
    let setup = Setup::new(10);
    let jobs = [setup.join("a"), setup.join("b")];
    // The models, and what building them has thrown away.
    let models = jobs.each_ref().map(|job| {
        let model = job.alloc(learned(1)).unwrap();
        job.free(job.alloc(learned(1)).unwrap()).unwrap();
        setup.settle();
        model
    });
    let mut waves: [Vec<Block>; 2] = Default::default();
    let mut done = [false; 2];
    for _ in 0..100 {
        for (i, job) in jobs.iter().enumerate() {
            if done[i] {
                continue;
            }
            if waves[i].len() < 6 {
                match job.alloc(learned(1)) {
                    Ok(block) => waves[i].push(block),
                    Err(AllocError::Busy(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                continue;
            }
            waves[i].drain(..).for_each(|block| job.free(block).unwrap());
            setup.settle();
            // The first mark.
            if job.begin() == Ok(Begin::Started) {
                job.end().unwrap();
                done[i] = true;
            } else {
                panic!("{}", setup.pool.snapshot());
            }
        }
    }
    assert_eq!(done, [true; 2], "{}", setup.pool.snapshot());
    jobs.iter().zip(models).for_each(|(job, model)| job.free(model).unwrap());
}

/// R3: what a job has allocated before its first mark it may free yet: who needs it waits, and is not refused.
#[test]
fn what_is_guessed_to_persist_is_waited_for() {
    let setup = Setup::new(10);
    let (a, b) = (setup.join("a"), setup.join("b"));
    let model = a.alloc(learned(6)).unwrap();
    assert_eq!(b.begin(), Ok(Begin::Started));
    busy(&b.alloc(own(6)));
    a.free(model).unwrap();
    setup.settle();
    b.alloc(own(6)).unwrap();
}

/// R3: a job that never marks anything, or stops in its first step, holds up nobody for ever.
#[test]
fn a_first_step_that_never_ends_is_waited_for_a_while() {
    let setup = Setup::new(10);
    let (a, b) = (setup.join("a"), setup.join("b"));
    for job in [&a, &b] {
        job.free(job.alloc(learned(1)).unwrap()).unwrap();
    }
    setup.settle();
    a.alloc(learned(2)).unwrap();
    busy(&b.alloc(learned(2)));
    let generation = setup.pool.generation();
    setup.pool.poll().unwrap();
    setup.device.advance_to(setup.device.now().saturating_add(Ticks::millis(60_000)));
    setup.pool.poll().unwrap();
    assert_ne!(setup.pool.generation(), generation, "who waits is told");
    b.alloc(learned(2)).unwrap();
}

/// R4: a job whose thread has died in an iteration is made to leave by somebody else.
#[test]
fn a_job_is_ended_from_outside() {
    let setup = Setup::new(8);
    let (dead, b) = (setup.join("dead"), setup.join("b"));
    assert_eq!(dead.begin(), Ok(Begin::Started));
    let block = dead.alloc(own(5)).unwrap();
    assert_eq!(b.begin(), Ok(Begin::Wait(None)));
    let waits = setup.pool.waits();
    assert_eq!(waits[0].to_string(), "b waits to start an iteration: dead (Running) holds 10 MiB");
    let generation = setup.pool.generation();
    let left = setup.pool.evict(waits[0].blockers[0].id).unwrap();
    assert_eq!((&*left.job, left.blocks.len()), ("dead", 1));
    assert_ne!(setup.pool.generation(), generation);
    assert_eq!(setup.pool.evict(dead.id()), None, "once");
    setup.settle();
    assert_eq!(b.begin(), Ok(Begin::Started));
    b.alloc(own(8)).unwrap();
    // The handle of the one that was made to leave is of no use, and does no harm.
    assert_eq!(dead.free(block), Err(FreeError::NotLive(block.address())));
    assert_eq!(dead.begin(), Err(BeginError::Left));
    assert!(matches!(dead.alloc(own(1)), Err(AllocError::Left)));
    assert!(dead.end().is_err() && dead.held().total().is_zero());
    drop(dead);
    assert_eq!(setup.pool.snapshot().jobs.len(), 1);
}

struct Hooked {
    device: MockDevice,
    hook: Hook,
    pool: Pool<Hook>,
}

impl Hooked {
    fn new(budget: u64) -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let hook = Hook::new(device.clone());
        let config = PoolConfig::new(regions(budget)).region_size(REGION);
        Self { pool: Pool::new(hook.clone(), config).unwrap(), device, hook }
    }

    fn join(&self, name: &str) -> (Arc<Job<Hook>>, MockStream) {
        let stream = self.device.add_stream();
        (Arc::new(self.pool.join(name, stream).unwrap()), stream)
    }

    /// A job leaves or is made to at a moment at which a parked block is looked at.
    fn leave_at(
        &self,
        operation: Operation,
        leave: impl FnOnce(Arc<Job<Hook>>, &Pool<Hook>) + Send + 'static,
    ) {
        let (a, _) = self.join("a");
        let side = self.device.add_stream();
        let block = a.alloc(own(1)).unwrap();
        a.record_use(block, side).unwrap();
        self.device.launch(side, Ticks::millis(5), Utilisation::FULL).unwrap();
        // The block stays parked.
        self.hook.on(Operation::OrderAfter, When::Before, || true);
        a.free(block).unwrap();
        let pool = self.pool.clone();
        self.hook.on(operation, When::Before, move || {
            leave(a, &pool);
            false
        });
        self.pool.poll().unwrap();
        self.pool.poll().unwrap();
        assert_eq!(self.pool.snapshot().free, Bytes::ZERO, "the other stream still uses it");
        self.device.run_until_idle();
        self.pool.poll().unwrap();
        assert_eq!(self.pool.snapshot().free, REGION);
        assert!(self.pool.snapshot().jobs.is_empty());
    }
}

/// D1: a job that leaves while another thread looks at its parked blocks waits for the streams that use
/// them.
#[test]
fn a_job_that_leaves_while_another_thread_polls_waits_for_its_other_streams() {
    for operation in [Operation::Query, Operation::OrderAfter] {
        Hooked::new(4).leave_at(operation, |job, _| drop(job));
        Hooked::new(4).leave_at(operation, |job, pool| {
            pool.evict(job.id()).unwrap();
        });
    }
}

/// D1: the same between a free and the moment at which the block is parked.
#[test]
fn a_job_that_is_made_to_leave_within_a_free_waits_for_its_other_streams() {
    let setup = Hooked::new(4);
    let (a, _) = setup.join("a");
    let side = setup.device.add_stream();
    let block = a.alloc(own(1)).unwrap();
    a.record_use(block, side).unwrap();
    setup.device.launch(side, Ticks::millis(5), Utilisation::FULL).unwrap();
    let (pool, id) = (setup.pool.clone(), a.id());
    setup.hook.on(Operation::Record, When::Before, move || {
        pool.evict(id).unwrap();
        true
    });
    a.free(block).unwrap();
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.snapshot().free, Bytes::ZERO, "the other stream still uses it");
    setup.device.run_until_idle();
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.snapshot().free, REGION);
}

/// A job that is made to leave in the middle of a lease: what it gets goes with the rest.
#[test]
fn a_job_that_is_made_to_leave_within_a_lease_gives_that_back_as_well() {
    for operation in [Operation::Create, Operation::Map] {
        let setup = Hooked::new(4);
        let (a, _) = setup.join("a");
        a.alloc(own(1)).unwrap();
        let (pool, id) = (setup.pool.clone(), a.id());
        setup.hook.on(operation, When::Before, move || {
            pool.evict(id).unwrap();
            false
        });
        assert!(matches!(a.alloc(own(2)), Err(AllocError::Left)));
        setup.device.run_until_idle();
        setup.pool.poll().unwrap();
        let books = setup.pool.snapshot();
        assert!(books.jobs.is_empty() && books.free == books.held, "{books}");
        assert_eq!((setup.device.usage().mappings, setup.device.violation_count()), (0, 0));
    }
}

/// D2: another job's stream takes no event for a while. That ends nobody else's wait.
#[test]
fn another_jobs_stream_that_takes_no_event_is_waited_out() {
    let setup = Hooked::new(4);
    let ((a, _), (b, stream)) = (setup.join("a"), setup.join("b"));
    assert_eq!(b.begin(), Ok(Begin::Started));
    b.free(b.alloc(own(3)).unwrap()).unwrap();
    let captured = Arc::new(AtomicBool::new(true));
    // Each try to record on the stream of `b` fails until the capture is over.
    fn refuse(hook: &Hook, stream: MockStream, captured: &Arc<AtomicBool>) {
        let (next, still) = (hook.clone(), captured.clone());
        hook.on_stream(stream, move || {
            let fails = still.load(Ordering::SeqCst);
            if fails {
                refuse(&next, stream, &still);
            }
            fails
        });
    }
    refuse(&setup.hook, stream, &captured);
    b.end().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.alloc_blocking(own(3), LOOK));
        thread::sleep(Duration::from_millis(30));
        let (finished, polled) = (waiting.is_finished(), setup.pool.poll().is_ok());
        captured.store(false, Ordering::SeqCst);
        waiting.join().unwrap().unwrap();
        assert!(!finished && polled, "that is not its business, nor that of whoever polls");
    });
}

/// D2: what the device refuses of the job's own stream does end its wait.
#[test]
fn a_jobs_own_stream_that_takes_no_event_ends_its_wait() {
    let setup = Hooked::new(4);
    let ((a, stream), (b, _)) = (setup.join("a"), setup.join("b"));
    b.alloc(own(2)).unwrap();
    a.free(a.alloc(own(2)).unwrap()).unwrap();
    fn refuse(hook: &Hook, stream: MockStream) {
        let next = hook.clone();
        hook.on_stream(stream, move || {
            refuse(&next, stream);
            true
        });
    }
    refuse(&setup.hook, stream);
    let result = a.alloc_blocking(own(3), LOOK);
    assert!(matches!(result, Err(AllocError::Device(HookError::Made))), "{result:?}");
}

/// D6: of the streams that have used a job's blocks only the last few are remembered. One that is not is asked
/// for an event again.
#[test]
fn few_streams_are_remembered() {
    let setup = Setup::new(8);
    let job = setup.join("job");
    let block = job.alloc(own(1)).unwrap();
    let streams: Vec<MockStream> = (0..65).map(|_| setup.device.add_stream()).collect();
    let events = |stream| {
        let before = setup.device.calls().of(Operation::Record);
        job.record_use(block, stream).unwrap();
        setup.device.calls().of(Operation::Record) - before
    };
    assert!(streams.iter().all(|&stream| events(stream) == 1), "each is new");
    assert_eq!(events(streams[64]), 0, "known");
    assert_eq!(events(streams[1]), 0, "the 64th but last");
    assert_eq!(events(streams[0]), 1, "forgotten");
}

/// Regions that come and go while no event can be recorded are tried again in batches, not one by one: the
/// batch that stays open does not grow.
#[test]
fn a_batch_does_not_grow_with_each_event_that_is_refused() {
    let setup = Hooked::new(4);
    let (job, stream) = setup.join("job");
    let tries = Arc::new(AtomicU32::new(0));
    fn refuse(hook: &Hook, stream: MockStream, tries: &Arc<AtomicU32>) {
        let (next, count) = (hook.clone(), tries.clone());
        hook.on_stream(stream, move || {
            count.fetch_add(1, Ordering::SeqCst);
            refuse(&next, stream, &count);
            true
        });
    }
    refuse(&setup.hook, stream, &tries);
    assert_eq!(job.begin(), Ok(Begin::Started));
    for _ in 0..300 {
        job.free(job.alloc(own(1)).unwrap()).unwrap();
    }
    // Four regions of 2 MiB are a batch.
    let tries = tries.load(Ordering::SeqCst);
    assert!((50..=101).contains(&tries), "{tries}");
}

/// D7: a request of an absurd size is refused before anything is listed for it.
#[test]
fn absurd_sizes_are_refused() {
    let device = MockConfig::new(Bytes::new(1 << 50)).granularity(Bytes::kib(4));
    let device = MockDevice::new(device).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::gib(1))).unwrap();
    let job = pool.join("job", device.add_stream()).unwrap();
    let text = out_of_memory(job.alloc(Request::learned(Bytes::new(1 << 50))));
    assert!(text.contains("asked 1.00 PiB") || text.contains("asked 1 PiB"), "{text}");
    let capped =
        pool.join(JobConfig::new("capped").cap(Bytes::mib(1)), device.add_stream()).unwrap();
    let result = capped.alloc(Request::learned(Bytes::gib(2)));
    assert!(matches!(result, Err(AllocError::BeyondCap { .. })), "{result:?}");
}

/// D8: errors say what is wrong.
#[test]
fn errors_say_what_is_wrong() {
    let setup = Setup::new(8);
    let job = setup.join("job");
    let error = job.alloc(Request::learned(Bytes::MAX)).unwrap_err().to_string();
    assert_eq!(error, "cannot allocate 16.00 EiB: no address space is that large");
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let refused = |budget: u64| {
        let config = PoolConfig::new(Bytes::new(budget)).region_size(REGION);
        Pool::new(device.clone(), config).err().unwrap().to_string()
    };
    assert_eq!(refused(REGION.value() - 1), "a budget of 2097151 B holds no region of 2 MiB");
    assert_eq!(refused((1 << 30) + 1), "a budget of 1073741825 B is more than the device's 1 GiB");
    let declared = setup.join(JobConfig::new("large").declare(Bytes::MAX));
    let error = declared.begin().unwrap_err().to_string();
    assert!(error.starts_with("large needs 16.00 EiB at its peak"), "{error}");
}

/// D9: a page that one thread has leased and that stays empty, since another thread has made room
/// elsewhere meanwhile, goes back.
#[test]
fn a_page_that_is_leased_and_left_empty_goes_back() {
    let setup = Hooked::new(8);
    let (job, _) = setup.join("job");
    let half = Request::new(Bytes::mib(1), Lifetime::Iteration);
    let (a, b, e) =
        (job.alloc(half).unwrap(), job.alloc(half).unwrap(), job.alloc(own(1)).unwrap());
    let other = job.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        other.free(e).unwrap();
        other.free(a).unwrap();
        false
    });
    let last = job.alloc(half).unwrap();
    assert_eq!(job.held().iteration, REGION, "one page is enough for both halves");
    job.free(b).unwrap();
    job.free(last).unwrap();
    setup.device.run_until_idle();
    setup.pool.poll().unwrap();
    assert_eq!((job.held().total(), job.live_blocks().blocks.len()), (Bytes::ZERO, 0));
}

/// D9: the same where the place was taken meanwhile and there is no more.
#[test]
fn a_page_that_is_leased_in_vain_goes_back() {
    let setup = Hooked::new(3);
    let (job, _) = setup.join("job");
    let part = |mib| Request::new(Bytes::mib(mib), Lifetime::Iteration);
    let small = Request::new(Bytes::kib(1536), Lifetime::Iteration);
    // Half a page is free at the end of the first, where three halves more would begin.
    let first = job.alloc(part(1)).unwrap();
    let (other, taken) = (job.clone(), Arc::new(Mutex::new(None)));
    let slot = taken.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        *slot.lock().unwrap() = other.alloc(Request::new(Bytes::mib(1), Lifetime::Iteration)).ok();
        false
    });
    let large = job.alloc(part(5));
    let held = job.held().iteration;
    let live: Bytes = job
        .live_blocks()
        .blocks
        .iter()
        .fold(Bytes::ZERO, |sum, block| sum.saturating_add(block.bytes));
    assert!(held.value() < live.value() + REGION.value(), "{held} for {live}: {large:?}");
    let _ = (first, small);
}

/// D14: a job whose persistent memory outgrows the room for its own peak is refused that itself, and shuts
/// nobody else out.
#[test]
fn a_job_cannot_outgrow_its_own_peak() {
    let setup = Setup::new(8);
    let (x, f) = (setup.join("x"), setup.join("f"));
    setup.learn(&x, 5, 2);
    let text = out_of_memory(x.alloc(stays(4)));
    assert!(text.contains("larger by 2 MiB"), "{text}");
    x.alloc(stays(3)).unwrap();
    assert_eq!(x.begin(), Ok(Begin::Started), "its own peak still fits");
    x.end().unwrap();
    out_of_memory(f.alloc(stays(1)));
}

/// D14: what never fitted is no reason to refuse others.
#[test]
fn a_peak_that_does_not_fit_any_more_shuts_nobody_out() {
    let setup = Setup::new(8);
    let (x, f) = (setup.join("x"), setup.join("f"));
    setup.learn(&x, 5, 2);
    x.alloc(stays(1)).unwrap();
    setup.pool.set_budget(regions(4)).unwrap();
    setup.settle();
    f.alloc(stays(1)).unwrap();
}

/// D14: what is reserved for a job is there for it.
#[test]
fn within_its_floor_a_job_is_never_refused() {
    let setup = Setup::new(8);
    let x = setup.join("x");
    setup.learn(&x, 5, 2);
    let f = setup.join(JobConfig::new("f").floor(regions(3)));
    out_of_memory(x.alloc(stays(1)));
    for _ in 0..3 {
        f.alloc(stays(1)).unwrap();
    }
    setup.pool.set_budget(regions(6)).unwrap();
    setup.settle();
    f.free(f.alloc(stays(0)).unwrap()).unwrap();
}

/// The same where that leaves no room for its own iterations: what is reserved is its own to use.
#[test]
fn within_its_floor_a_job_may_outgrow_its_own_peak() {
    let setup = Setup::new(8);
    let f = setup.join(JobConfig::new("f").floor(regions(3)));
    setup.learn(&f, 8, 2);
    f.alloc(stays(3)).unwrap();
}

/// An iteration begins while another thread of the job leases for a block: where that goes has been decided
/// before, so the plan of the iteration does not foresee it.
#[test]
fn an_allocation_under_way_when_a_planned_iteration_begins_is_none_of_its_plan() {
    let setup = Hooked::new(16);
    let (job, _) = setup.join("job");
    let iteration = || {
        let blocks = [2, 3].map(|count| job.alloc(own(count)).unwrap());
        blocks.into_iter().for_each(|block| job.free(block).unwrap());
    };
    for _ in 0..3 {
        assert_eq!(job.begin(), Ok(Begin::Started));
        iteration();
        job.end().unwrap();
        setup.device.run_until_idle();
        setup.pool.poll().unwrap();
    }
    assert_eq!(job.planning().plans, 1);
    let other = job.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        assert_eq!(other.begin(), Ok(Begin::Started));
        false
    });
    let block = job.alloc(own(7)).unwrap();
    iteration();
    job.end().unwrap();
    assert_eq!(job.live_blocks().blocks.len(), 1);
    job.free(block).unwrap();
}
