//! Jobs that are held to a rate.

use super::*;
use crate::types::error::Shortage;
use crate::types::pace::Pace;
use crate::types::report::Activity;
use crate::types::units::Progress;
use crate::types::waits::Awaited;

/// An operation in so many ticks, and none saved up.
fn one_in(ticks: u64) -> Pace {
    Pace::new(1, Ticks::new(ticks)).burst(1)
}

impl Books {
    fn set_pace(&mut self, job: JobKey, pace: impl Into<Option<Pace>>) {
        assert!(self.ledger.set_pace(job, pace.into(), self.now));
    }

    fn pass(&mut self, ticks: u64) {
        self.now = self.now.saturating_add(Ticks::new(ticks));
    }

    /// How long a job has to rest before it gets this page.
    fn rest(&mut self, job: JobKey, page: u64) -> Option<Ticks> {
        match self.ask(job, Zone::Iteration, &[page]) {
            Err(Denied::Busy(Shortage { rest, .. })) => rest,
            _ => None,
        }
    }

    fn look(&mut self) -> bool {
        self.woken();
        self.ledger.look(self.now);
        self.woken()
    }

    fn paces(&self) -> Vec<(JobKey, Awaited)> {
        self.ledger.waits().iter().map(|waiting| (waiting.id.0, waiting.awaited)).collect()
    }
}

#[test]
fn a_start_waits_for_a_token_and_says_how_long() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    books.set_pace(one, one_in(100));
    books.start(one);
    books.end(one);
    // Two operations, of which one was saved up; at the tick of the first one the bucket was full.
    let Ok(Begin::Wait(Some(rest))) = books.begin(one) else { panic!("there is no token") };
    assert_eq!(rest, Ticks::new(198));
    let until = books.now.saturating_add(rest);
    assert_eq!(books.paces(), [(one, Awaited::Pace(Some(until)))]);
    assert_eq!(books.ledger.accounts[&one].activity(), Activity::Idle, "it has not asked");
    assert!(books.ledger.waiting.is_empty() && books.ledger.has_waiting());
    assert_eq!(books.ledger.rests_until(), Some(until));
    // Nobody has to wait for it meanwhile.
    books.iterate(two, 8);
    books.look();
    books.pass(until.value() - books.now.value() - 1);
    assert!(!books.look());
    assert_eq!(books.begin(one), Ok(Begin::Wait(Some(Ticks::new(1)))));
    books.pass(1);
    assert!(books.look() && !books.look(), "it is told once");
    assert_eq!((books.ledger.rests_until(), books.ledger.has_waiting()), (None, true));
    books.start(one);
    assert_eq!((books.paces(), books.ledger.has_waiting()), (Vec::new(), false));
}

#[test]
fn a_start_is_waited_for_still_when_another_thread_of_the_job_frees_something() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.set_pace(job, one_in(100));
    books.start(job);
    books.end(job);
    let Ok(Begin::Wait(Some(rest))) = books.begin(job) else { panic!("there is no token") };
    books.tick(job);
    assert!(books.ledger.rests_until().is_some(), "somebody has to look then");
    books.pass(rest.value());
    assert!(books.look(), "it is told to ask again");
    assert!(!books.look() && books.ledger.rests_until().is_none(), "once");
}

#[test]
fn a_lease_waits_for_a_token_and_the_wait_is_not_the_iterations() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.start(job);
    books.set_pace(job, one_in(100));
    books.lease(job, Zone::Iteration, &[0]);
    let epoch = books.ledger.epoch;
    assert_eq!(books.rest(job, 1), Some(Ticks::new(99)));
    books.pass(51);
    assert_eq!(books.rest(job, 1), Some(Ticks::new(48)));
    assert_eq!(books.ledger.accounts[&job].activity(), Activity::Running, "no memory is missing");
    assert_eq!((books.ledger.counts.denied, books.ledger.epoch), (0, epoch));
    books.pass(48);
    books.lease(job, Zone::Iteration, &[1]);
    books.end(job);
    // The ticks of its own operations and not the 99 between them.
    let profile = books.ledger.profile(job).unwrap();
    assert_eq!(profile.length(), Ticks::new(4));
}

/// The device may pass what it has given up meanwhile, which is noted.
#[test]
fn what_is_noted_while_an_iteration_rests_is_no_later_than_its_end() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.start(job);
    books.set_pace(job, one_in(100));
    books.lease(job, Zone::Iteration, &[0, 1]);
    books.give(job, Zone::Iteration, &[0]);
    let batch = books.fence(job).unwrap();
    books.tick(job);
    let rest = books.rest(job, 2).unwrap();
    books.pass(rest.value() - 10);
    assert_eq!(books.ledger.completed(job, batch, books.now), Some(true));
    books.pass(10);
    books.lease(job, Zone::Iteration, &[2]);
    books.end(job);
    let profile = books.ledger.profile(job).unwrap();
    assert_eq!(profile.length(), Ticks::new(6), "its own operations");
    let steps: Vec<u64> = profile.steps().iter().map(|step| step.at.value()).collect();
    assert!(steps.is_sorted() && steps.last() < Some(&6), "{steps:?}");
}

/// One of its threads waits for memory, and another one, which has gone on, rests.
#[test]
fn time_for_which_an_iteration_stood_still_counts_once() {
    let mut books = Books::new(4);
    let (job, other) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(job, 3);
        books.iterate(other, 2);
    }
    books.start(other);
    books.lease(other, Zone::Iteration, &[0, 1]);
    books.start(job);
    books.lease(job, Zone::Iteration, &[0]);
    assert!(books.is_denied(job, Zone::Iteration, &[1, 2]));
    books.pass(100);
    books.tick(job);
    books.set_pace(job, Pace::HALT);
    books.end(other);
    assert!(books.rest(job, 1).is_some());
    books.pass(100);
    books.look();
    books.pass(100);
    books.set_pace(job, None);
    books.pass(100);
    books.end(job);
    let length = books.ledger.profile(job).unwrap().length().value();
    assert!((100..110).contains(&length), "{length}");
}

#[test]
fn one_that_goes_on_otherwise_does_not_rest() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.start(job);
    books.set_pace(job, one_in(100));
    books.lease(job, Zone::Iteration, &[0]);
    assert!(books.rest(job, 1).is_some());
    books.give(job, Zone::Iteration, &[0]);
    assert!(books.paces().is_empty() && !books.ledger.has_waiting());
    books.pass(1000);
    assert!(books.look() && !books.look(), "another of its threads may have asked");
    books.lease(job, Zone::Iteration, &[1]);
    books.end(job);
    assert!(books.ledger.profile(job).unwrap().length() > Ticks::new(1000));
}

#[test]
fn an_iteration_for_whose_memory_another_waits_goes_on_at_full_speed_and_pays_later() {
    let mut books = Books::new(4);
    let (slow, other) = (books.join("slow"), books.join("other"));
    for _ in 0..3 {
        books.iterate(slow, 3);
        books.iterate(other, 2);
    }
    books.start(slow);
    books.lease(slow, Zone::Iteration, &[0, 1]);
    books.set_pace(slow, Pace::HALT);
    assert_eq!(books.rest(slow, 2), Some(Ticks::MAX));
    assert_eq!(books.paces(), [(slow, Awaited::Pace(None))]);
    assert!(!books.look() && books.ledger.rests_until().is_none());
    books.start(other);
    books.woken();
    assert!(books.is_denied(other, Zone::Iteration, &[0, 1, 2]));
    assert!(books.woken(), "it is called upon");
    books.lease(slow, Zone::Iteration, &[2]);
    books.give_for_good(slow, Zone::Iteration, &[0, 1, 2]);
    books.end(slow);
    books.lease(other, Zone::Iteration, &[0, 1]);
    books.set_pace(slow, one_in(100));
    let Ok(Begin::Wait(Some(rest))) = books.begin(slow) else { panic!("it owes") };
    assert!(rest > Ticks::new(200), "{rest:?}");
}

#[test]
fn an_iteration_beside_which_another_may_not_start_goes_on() {
    let mut books = Books::shifting(8);
    let (slow, other) = (books.join("slow"), books.join("other"));
    for _ in 0..3 {
        books.iterate(slow, 7);
        books.iterate(other, 7);
    }
    books.start(slow);
    books.set_pace(slow, Pace::HALT);
    assert_eq!(books.rest(slow, 0), Some(Ticks::MAX));
    books.woken();
    assert!(matches!(books.begin(other), Ok(Begin::Wait(_))));
    assert!(books.woken());
    books.lease(slow, Zone::Iteration, &[0]);
    // It no longer wants to start: then nobody waits.
    books.ledger.withdraw(other);
    assert_eq!(books.rest(slow, 1), Some(Ticks::MAX));
}

#[test]
fn what_a_job_leaves_behind_it_comes_back_for_whatever_its_pace() {
    let mut books = Books::new(4);
    let (slow, other) = (books.join("slow"), books.join("other"));
    for _ in 0..3 {
        books.iterate(slow, 2);
        books.iterate(other, 3);
    }
    books.start(slow);
    books.lease(slow, Zone::Iteration, &[0, 1]);
    books.end(slow);
    books.set_pace(slow, Pace::HALT);
    assert_eq!(books.begin(slow), Ok(Begin::Wait(None)));
    books.woken();
    assert_eq!(books.begin(other), Ok(Begin::Wait(None)), "two are kept, and it needs three");
    assert!(books.woken());
    books.start(slow);
    books.give_for_good(slow, Zone::Iteration, &[0, 1]);
    books.end(slow);
    books.start(other);
    assert_eq!(books.begin(slow), Ok(Begin::Wait(None)), "nobody waits for it now");
}

/// D63: nothing starts before a job goes on that has been passed over often enough and waits for
/// memory; but one that rests has not asked.
#[test]
fn nobody_makes_way_for_one_that_rests() {
    let mut books = Books::new(6);
    let (slow, other) = (books.join("slow"), books.join("other"));
    (0..3).for_each(|_| books.iterate(other, 5));
    let mut passed = 0;
    while books.begin(other) == Ok(Begin::Started) {
        books.lease(other, Zone::Iteration, &[0, 1, 2, 3, 4]);
        assert!(books.is_denied(slow, Zone::Iteration, &[0, 1]));
        books.give_for_good(other, Zone::Iteration, &[0, 1, 2, 3, 4]);
        books.end(other);
        passed += 1;
        assert!(passed < 40, "nobody makes way");
    }
    books.set_pace(slow, Pace::HALT);
    books.woken();
    assert_eq!(books.rest(slow, 0), Some(Ticks::MAX));
    assert!(books.woken(), "the other one may start");
    books.start(other);
}

#[test]
fn a_lowered_budget_is_not_held_up() {
    let mut books = Books::new(8);
    let job = books.join("slow");
    for _ in 0..3 {
        books.iterate(job, 6);
    }
    books.start(job);
    books.lease(job, Zone::Iteration, &[0, 1, 2]);
    books.set_pace(job, Pace::HALT);
    assert!(books.rest(job, 3).is_some());
    books.ledger.set_target(Bytes::mib(4), Bytes::mib(8)).unwrap();
    assert!(books.look());
    books.lease(job, Zone::Iteration, &[3]);
}

#[test]
fn another_pace_counts_at_once() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.start(job);
    books.set_pace(job, Pace::HALT);
    books.end(job);
    assert_eq!(books.begin(job), Ok(Begin::Wait(None)));
    books.woken();
    books.set_pace(job, one_in(10));
    assert!(books.woken(), "it is to ask again");
    assert!(books.ledger.rests_until().is_some());
    let Ok(Begin::Wait(Some(rest))) = books.begin(job) else { panic!("it owes") };
    assert!(rest <= Ticks::new(20));
    books.ledger.withdraw(job);
    assert_eq!((books.paces(), books.ledger.rests_until()), (Vec::new(), None));
    assert!(matches!(books.begin(job), Ok(Begin::Wait(Some(_)))));
    books.woken();
    books.set_pace(job, None);
    assert!(books.woken());
    books.start(job);
    assert!(!books.ledger.has_paces && !books.ledger.set_pace(99, None, books.now));
}

/// A job that goes on as soon as it may, with iterations of so many operations.
fn operations_in(pace: Pace, each: u32, time: u64) -> u64 {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.set_pace(job, pace);
    let mut made = 0;
    while books.now < Ticks::new(time) {
        match books.begin(job) {
            Ok(Begin::Started) => {}
            Ok(Begin::Wait(Some(rest))) => {
                books.pass(rest.value());
                continue;
            }
            other => panic!("{other:?}"),
        }
        // `begin` has made one of them.
        (1..each).for_each(|_| books.tick(job));
        books.ledger.end(job, books.now, Signature::default(), false).unwrap();
        let most = u128::from(books.now.value()) * u128::from(pace.operations());
        let most = most / u128::from(pace.every().value()) + u128::from(pace.most_saved());
        assert!(u128::from(made) <= most, "{made} where {most} may be when one began");
        made += u64::from(each);
    }
    made
}

#[test]
fn the_rate_is_kept_to_however_long_iterations_are() {
    for (operations, every, burst) in [(1, 7, 1), (3, 10, 5), (50, 1000, 200), (9, 10, 3)] {
        let pace = Pace::new(operations, Ticks::new(every)).burst(burst);
        for each in [1, 2, 17, 400] {
            let time = 100_000;
            let due = time * u64::from(operations) / every;
            let made = operations_in(pace, each, time);
            let off = u64::from(burst + each) + 1;
            assert!(made.abs_diff(due) <= off, "{pace:?} {each}: {made} in place of {due}");
        }
    }
}

#[test]
fn a_client_that_says_less_than_before_is_not_ahead() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.start(job);
    books.set_pace(job, one_in(100));
    books.lease(job, Zone::Iteration, &[0]);
    let rest = books.rest(job, 1).unwrap();
    let read = books.ledger.pulse(job).unwrap().read();
    let less = crate::types::pulse::Reading { progress: Progress::ZERO, ..read };
    books.ledger.pulse(job).unwrap().take(less);
    assert_eq!(books.rest(job, 1), Some(rest));
}
