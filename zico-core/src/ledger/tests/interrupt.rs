//! Iterations that give way in the middle, where nothing else is left.

use super::*;
use crate::types::report::Activity;
use crate::types::tuning::{MOST_BYPASSES, MOST_INTERRUPTIONS};

const ITERATION: Zone = Zone::Iteration;

fn interruptible(books: &mut Books, name: &str) -> JobKey {
    books.try_join(JobConfig::new(name).interruptible()).unwrap()
}

fn last(books: &mut Books, job: JobKey, pages: &[u64]) -> Result<WorkOrder, Denied> {
    books.ask_told(job, ITERATION, pages, Told::ByTheJob, true)
}

/// Waits for pages: more can be had when somebody else has gone on.
fn waits(books: &mut Books, job: JobKey, pages: &[u64]) {
    assert!(matches!(last(books, job, pages), Err(Denied::Busy(_))));
}

/// Both of two that run hold half of the pool, and each asks for more.
fn stuck(books: &mut Books, [older, younger]: [JobKey; 2]) {
    books.lease(older, ITERATION, &[0, 1]);
    books.lease(younger, ITERATION, &[0, 1]);
    books.start(older);
    books.tick(older);
    books.start(younger);
    waits(books, older, &[2]);
    waits(books, younger, &[2]);
}

#[test]
fn the_younger_of_two_that_wait_for_each_other_goes_and_comes_back() {
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    let [one, two] = jobs;
    stuck(&mut books, jobs);
    assert_eq!(books.ledger.called(), [two]);
    // Until it has gone the other one waits, and is not told that there is no memory.
    waits(&mut books, one, &[2]);
    assert_eq!(books.go(two), 2);
    assert_eq!(books.activity(two), Activity::Suspended);
    assert!(books.ledger.called().is_empty() && !books.may_return(two));
    books.lease(one, ITERATION, &[2]);
    books.give_for_good(one, ITERATION, &[0, 1, 2]);
    books.end(one);
    assert!(books.may_return(two));
    assert!(books.come_back(two, ITERATION, &[0, 1]));
    books.ledger.is_back(two, books.now);
    // What it needs is not known: nothing starts beside it.
    assert!(matches!(books.begin(one), Ok(Begin::Wait(_))));
    books.lease(two, ITERATION, &[2]);
    books.give_for_good(two, ITERATION, &[0, 1, 2]);
    books.end(two);
    books.start(one);
    assert_eq!(books.ledger.job(two).unwrap().iterations, 1);
}

#[test]
fn nothing_starts_beside_one_that_has_come_back_though_all_that_was_expected_would_fit() {
    let mut books = Books::new(5);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    let ([one, two], small) = (jobs, books.join("c"));
    for _ in 0..3 {
        jobs.iter().for_each(|&job| books.iterate(job, 2));
        books.iterate(small, 1);
    }
    for job in jobs {
        books.start(job);
        books.lease(job, ITERATION, &[0]);
        books.lease(job, ITERATION, &[1]);
    }
    // Each was expected to need no more than it has.
    jobs.iter().for_each(|&job| waits(&mut books, job, &[2, 3]));
    assert_eq!(books.ledger.called(), [two]);
    books.go(two);
    books.lease(one, ITERATION, &[2, 3]);
    books.give_for_good(one, ITERATION, &[0, 1, 2, 3]);
    books.end(one);
    assert!(books.may_return(two) && books.come_back(two, ITERATION, &[0, 1]));
    books.ledger.is_back(two, books.now);
    assert!(matches!(books.begin(small), Ok(Begin::Wait(_))));
    books.lease(two, ITERATION, &[2, 3]);
    books.give_for_good(two, ITERATION, &[0, 1, 2, 3]);
    books.end(two);
    assert!(matches!(books.begin(small), Ok(Begin::Started)));
}

#[test]
fn only_those_that_may_be_are_interrupted() {
    let mut books = Books::new(4);
    let jobs = [interruptible(&mut books, "a"), books.join("b")];
    stuck(&mut books, jobs);
    // The younger one may not be.
    assert_eq!(books.ledger.called(), [jobs[0]]);
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| books.join(name));
    books.lease(jobs[0], ITERATION, &[0, 1]);
    books.lease(jobs[1], ITERATION, &[0, 1]);
    jobs.iter().for_each(|&job| books.start(job));
    waits(&mut books, jobs[0], &[2]);
    assert!(matches!(last(&mut books, jobs[1], &[2]), Err(Denied::Never(_))));
}

#[test]
fn who_has_the_higher_priority_goes_on_and_who_helps_nobody() {
    let mut books = Books::new(4);
    let important = JobConfig::new("b").priority(1).interruptible();
    let jobs = [interruptible(&mut books, "a"), books.try_join(important).unwrap()];
    stuck(&mut books, jobs);
    assert_eq!(books.ledger.called(), [jobs[0]]);
    // All that it has is not enough for the other one.
    let mut books = Books::new(4);
    let [one, two] = ["a", "b"].map(|name| interruptible(&mut books, name));
    books.lease(one, ITERATION, &[0, 1, 2]);
    books.lease(two, ITERATION, &[0]);
    books.start(one);
    books.tick(one);
    books.start(two);
    waits(&mut books, two, &[1, 2, 3]);
    waits(&mut books, one, &[3]);
    assert_eq!(books.ledger.called(), [two], "the one that began first has enough then");
}

#[test]
fn one_whose_room_is_enough_for_nobody_stays() {
    let mut books = Books::new(6);
    let [older, younger] = ["a", "b"].map(|name| interruptible(&mut books, name));
    let other = books.join("c");
    books.lease(older, ITERATION, &[0, 1]);
    books.lease(other, ITERATION, &[0, 1, 2]);
    books.lease(younger, ITERATION, &[0]);
    for job in [older, other, younger] {
        books.start(job);
        books.tick(job);
    }
    waits(&mut books, other, &[3, 4]);
    waits(&mut books, older, &[2, 3]);
    waits(&mut books, younger, &[1]);
    assert_eq!(books.ledger.called(), [older]);
}

#[test]
fn one_that_goes_on_otherwise_is_not_interrupted() {
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    stuck(&mut books, jobs);
    books.tick(jobs[1]);
    assert!(books.ledger.called().is_empty());
    assert!(books.ledger.suspend(jobs[1]).is_err());
    // Nor is one that cannot go, again: the other one is then.
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    stuck(&mut books, jobs);
    books.ledger.spare(jobs[1], books.now);
    assert!(books.ledger.called().is_empty());
    waits(&mut books, jobs[1], &[2]);
    waits(&mut books, jobs[0], &[2]);
    assert_eq!(books.ledger.called(), [jobs[0]]);
}

#[test]
fn what_cannot_be_copied_goes_on_where_it_is() {
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    stuck(&mut books, jobs);
    for _ in 0..MOST_INTERRUPTIONS {
        assert_eq!(books.ledger.called(), [jobs[1]]);
        assert_eq!(books.set_off(jobs[1]).len(), 2);
        assert_eq!(books.activity(jobs[1]), Activity::Suspended);
        books.ledger.stay(jobs[1]);
        assert_eq!(books.activity(jobs[1]), Activity::Running);
        waits(&mut books, jobs[0], &[2]);
        waits(&mut books, jobs[1], &[2]);
    }
    // It has been tried often enough.
    assert_eq!(books.ledger.called(), [jobs[0]]);
}

#[test]
fn an_iteration_on_the_host_may_end_there() {
    let mut books = Books::new(4);
    let jobs = ["a", "b"].map(|name| interruptible(&mut books, name));
    stuck(&mut books, jobs);
    books.go(jobs[1]);
    assert!(!books.may_return(jobs[1]));
    assert_eq!(books.begin(jobs[1]), Err(BeginError::AlreadyRunning));
    let busy = alloc::format!("{}", books.ledger.shortage(jobs[1], Bytes::new(1), 0));
    assert!(busy.contains("or it is on the host") && busy.contains("2 MiB to come back"), "{busy}");
    books.end(jobs[1]);
    assert_eq!(books.begin(jobs[1]), Err(BeginError::Suspended));
    // Nothing is learned from it, and it is a job on the host like any other.
    assert_eq!(books.ledger.job(jobs[1]).unwrap().iterations, 0);
    books.lease(jobs[0], ITERATION, &[2]);
    books.give_for_good(jobs[0], ITERATION, &[0, 1, 2]);
    books.end(jobs[0]);
    assert!(books.may_return(jobs[1]) && books.come_back(jobs[1], ITERATION, &[0, 1]));
    books.ledger.is_back(jobs[1], books.now);
    books.start(jobs[1]);
}

#[test]
fn what_others_leave_behind_keeps_nobody_on_the_host_for_ever() {
    let mut books = Books::new(8);
    let [one, two] = ["a", "b"].map(|name| interruptible(&mut books, name));
    let third = books.join("c");
    books.lease(one, ITERATION, &[0, 1, 2, 3]);
    books.lease(two, ITERATION, &[0, 1, 2, 3]);
    books.start(one);
    books.tick(one);
    books.start(two);
    waits(&mut books, one, &[4]);
    waits(&mut books, two, &[4]);
    books.go(two);
    books.give_for_good(one, ITERATION, &[0, 1, 2, 3]);
    // Between its iterations this one holds more than there is beside the one on the host.
    books.end(one);
    books.lease(third, ITERATION, &[0, 1, 2, 3, 4]);
    assert!(!books.may_return(two));
    let mut rounds = 0;
    loop {
        books.start(third);
        books.give_for_good(third, ITERATION, &[1, 2, 3, 4]);
        if books.may_return(two) {
            break;
        }
        books.lease(third, ITERATION, &[1, 2, 3, 4]);
        books.end(third);
        rounds += 1;
        assert!(rounds <= MOST_BYPASSES, "it stays there");
    }
    assert!(books.come_back(two, ITERATION, &[0, 1, 2, 3]));
}

#[test]
fn a_broker_that_comes_next_knows_of_it() {
    let mut books = Books::new(4);
    let [one, two] = ["a", "b"].map(|name| interruptible(&mut books, name));
    books.ledger.adopt_away(two, ITERATION, 2, false);
    books.ledger.resume(two, true, None, books.now);
    assert_eq!(books.activity(two), Activity::Suspended);
    books.start(one);
    assert!(!books.may_return(two), "another iteration runs");
    books.end(one);
    assert!(books.may_return(two) && books.come_back(two, ITERATION, &[0, 1]));
    books.ledger.is_back(two, books.now);
    assert_eq!(books.activity(two), Activity::Running);
    books.end(two);
}
