//! Jobs whose iterations end as the next ones begin, and that never fit beside each other.

use super::*;

const ARENA: Zone = Zone::Iteration;
const PAGES: [u64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Two jobs of known iterations, of which one runs and the other one waits.
fn alternating(first: JobConfig, second: JobConfig) -> (Books, [JobKey; 2]) {
    let mut books = Books::under(10, Alone, HandOver::Fenced);
    let jobs = [first, second].map(|config| books.try_join(config).unwrap());
    for _ in 0..3 {
        jobs.into_iter().for_each(|job| books.iterate(job, 8));
    }
    books.start(jobs[0]);
    assert!(waits(&mut books, jobs[1]));
    (books, jobs)
}

fn pair() -> (Books, [JobKey; 2]) {
    alternating(JobConfig::new("one"), JobConfig::new("other"))
}

fn waits(books: &mut Books, job: JobKey) -> bool {
    matches!(books.begin(job), Ok(Begin::Wait(_)))
}

/// The rest of an iteration that takes so long, which ends as the next one begins.
fn run(books: &mut Books, job: JobKey, length: u64) {
    books.lease(job, ARENA, &PAGES);
    books.now = books.now.saturating_add(Ticks::new(length));
    books.give_for_good(job, ARENA, &PAGES);
    books.end_with(job, true);
}

/// The second job has had an iteration of a hundred ticks, and waits; the first one has had one
/// tenth of that, and is about to go on.
fn about_to_go_on(first: JobConfig, second: JobConfig) -> (Books, [JobKey; 2]) {
    let (mut books, [one, other]) = alternating(first, second);
    run(&mut books, one, 10);
    assert!(waits(&mut books, one), "the other one has had no more time");
    books.start(other);
    run(&mut books, other, 100);
    assert!(waits(&mut books, other));
    books.start(one);
    run(&mut books, one, 10);
    (books, [one, other])
}

#[test]
fn short_iterations_have_as_much_time_as_long_ones() {
    for lengths in [[10, 40], [40, 10], [30, 30], [7, 90]] {
        let (mut books, jobs) = pair();
        let (mut had, mut runs, mut since) = ([0, 0], 0, books.now);
        for _ in 0..200 {
            run(&mut books, jobs[runs], lengths[runs]);
            had[runs] += books.now.saturating_sub(since).value();
            since = books.now;
            if waits(&mut books, jobs[runs]) {
                runs = 1 - runs;
                books.start(jobs[runs]);
            }
        }
        // What was long ago counts less, so that a part of what is owed is forgotten.
        let (least, most) = (had[0].min(had[1]), had[0].max(had[1]));
        assert!(8 * (most - least) <= most, "{lengths:?} {had:?}");
    }
}

#[test]
fn nothing_starts_before_one_that_goes_on() {
    let (mut books, [one, other]) = about_to_go_on("one".into(), "other".into());
    // Who waits for memory is not told that nothing goes on.
    assert!(!books.ledger.is_stuck());
    books.ledger.admit();
    assert!(waits(&mut books, other));
    books.start(one);
}

#[test]
fn one_that_is_passed_over_too_often_goes_first() {
    let (mut books, [one, other]) = pair();
    run(&mut books, one, 1);
    assert!(waits(&mut books, one));
    books.start(other);
    run(&mut books, other, 1000);
    let mut before = 0;
    while waits(&mut books, other) {
        books.start(one);
        run(&mut books, one, 1);
        before += 1;
    }
    assert_eq!(before, 17);
}

#[test]
fn who_has_a_higher_priority_goes_first() {
    let second = JobConfig::new("other").priority(1);
    let (mut books, [one, other]) = about_to_go_on(JobConfig::new("one"), second);
    books.start(other);
    assert!(waits(&mut books, one));
}

#[test]
fn one_that_does_not_go_on_keeps_nobody_waiting() {
    let left = |books: &mut Books, one| assert!(books.ledger.leave(one, books.now));
    let stands_still = |books: &mut Books, _| {
        books.woken();
        books.ledger.look(books.now);
        assert!(!books.woken());
        books.now = books.now.saturating_add(Ticks::new(1000));
        books.ledger.look(books.now);
        assert!(books.woken());
    };
    let withdraws = |books: &mut Books, one| {
        books.start(one);
        books.end(one);
    };
    for ends in [left, stands_still, withdraws] as [fn(&mut Books, JobKey); 3] {
        let (mut books, [one, other]) = about_to_go_on("one".into(), "other".into());
        ends(&mut books, one);
        books.ledger.admit();
        books.start(other);
    }
}

/// Two jobs that take so much each, and may run beside each other. The second one has had an
/// iteration of a hundred ticks. The first one has had some of ten, of which each began as the last
/// one ended, and runs the next one.
fn behind(first: JobConfig, second: JobConfig, pages: usize) -> (Books, [JobKey; 2]) {
    let mut books = Books::new(10);
    let [one, other] = [first, second].map(|config| books.try_join(config).unwrap());
    for job in [one, other] {
        (0..3).for_each(|_| books.iterate(job, pages as u64));
    }
    for (job, length) in [(other, 100), (one, 10), (one, 10)] {
        books.start(job);
        run_some(&mut books, job, length, pages);
    }
    books.start(one);
    (books, [one, other])
}

/// The rest of an iteration of so many pages and ticks, which ends as the next one begins.
fn run_some(books: &mut Books, job: JobKey, length: u64, pages: usize) {
    let pages = &PAGES[..pages];
    books.lease(job, ARENA, pages);
    books.now = books.now.saturating_add(Ticks::new(length));
    books.give_for_good(job, ARENA, pages);
    books.end_with(job, true);
}

#[test]
fn who_has_had_more_time_waits_for_one_that_goes_on() {
    let (mut books, [one, other]) = behind("one".into(), "other".into(), 8);
    assert!(waits(&mut books, other));
    let mut ends = 0;
    while waits(&mut books, other) {
        run_some(&mut books, one, 10, 8);
        books.start(one);
        ends += 1;
    }
    let lately = |job: JobKey| books.ledger.accounts[&job].time.lately().value();
    let (had, due) = (lately(one) * 5, lately(other) * 4);
    assert!(ends > 1 && had <= due && due < had + 5 * 14, "{ends} {had} {due}");
}

#[test]
fn nobody_waits_for_one_beside_which_there_is_room() {
    let (mut books, [_, other]) = behind("one".into(), "other".into(), 4);
    books.start(other);
}

#[test]
fn nobody_waits_for_one_of_lower_priority() {
    let second = JobConfig::new("other").priority(1);
    let (mut books, [_, other]) = behind("one".into(), second, 8);
    books.start(other);
}

#[test]
fn nobody_waits_for_one_that_pauses_between_its_iterations() {
    let (mut books, [one, other]) = behind("one".into(), "other".into(), 8);
    books.end(one);
    books.start(one);
    books.start(other);
}

#[test]
fn nobody_waits_for_one_that_waits_for_memory() {
    let (mut books, [one, other]) = behind("one".into(), "other".into(), 8);
    books.lease(other, ARENA, &PAGES[..1]);
    assert!(waits(&mut books, other));
    books.woken();
    assert!(books.is_denied(one, ARENA, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    assert!(books.woken());
    books.start(other);
}

#[test]
fn nobody_waits_for_one_that_takes_much_longer_than_usual() {
    let (mut books, [_, other]) = behind("one".into(), "other".into(), 8);
    books.now = books.now.saturating_add(Ticks::new(10));
    books.ledger.look(books.now);
    assert!(waits(&mut books, other));
    books.woken();
    books.now = books.now.saturating_add(Ticks::new(30));
    books.ledger.look(books.now);
    assert!(books.woken());
    books.start(other);
}

#[test]
fn one_that_waits_for_another_to_catch_up_is_passed_over_no_more_often() {
    let (mut books, [one, other]) = behind("one".into(), "other".into(), 8);
    books.end(one);
    for (job, length) in [(other, 100), (other, 100), (other, 100), (one, 1)] {
        books.start(job);
        run_some(&mut books, job, length, 8);
    }
    books.start(one);
    let mut before = 0;
    while waits(&mut books, other) {
        run_some(&mut books, one, 1, 8);
        books.start(one);
        before += 1;
    }
    assert_eq!(before, 17);
}

#[test]
fn a_third_job_does_not_wait_for_that() {
    let (mut books, [_, other]) = behind("one".into(), "other".into(), 8);
    assert!(waits(&mut books, other));
    let third = books.join("third");
    books.start(third);
    // All begin anew.
    books.start(other);
}

#[test]
fn what_others_had_before_the_first_iteration_or_long_ago_does_not_count() {
    let (mut books, [one, other]) = behind("one".into(), "other".into(), 8);
    books.end(one);
    for _ in 0..100 {
        books.start(other);
        run_some(&mut books, other, 100, 8);
    }
    let lately = |books: &Books, job: JobKey| books.ledger.accounts[&job].time.lately().value();
    let (least, most) = (8 * 104, 17 * 104);
    assert!((least..most).contains(&lately(&books, other)), "{}", lately(&books, other));
    assert_eq!(lately(&books, one), 0);
    // Neither is that of one that has had an iteration.
    let third = books.join("third");
    books.start(other);
    run_some(&mut books, other, 100, 8);
    books.iterate(third, 1);
    assert_eq!([one, other, third].map(|job| lately(&books, job)), [0; 3]);
    books.start(other);
    run_some(&mut books, other, 100, 8);
    assert_eq!([one, other, third].map(|job| lately(&books, job)), [0, 104, 0]);
}

#[test]
fn nobody_waits_for_ever_for_two_of_which_one_always_runs() {
    let mut books = Books::new(10);
    let [one, two, other] = ["one", "two", "other"].map(|name| books.join(name));
    for (job, pages) in [(one, 3), (two, 3), (other, 8)] {
        (0..3).for_each(|_| books.iterate(job, pages));
    }
    for (job, length, pages) in [(other, 1000, 8), (other, 1000, 8), (one, 1, 3), (two, 1, 3)] {
        books.start(job);
        run_some(&mut books, job, length, pages);
    }
    books.start(one);
    books.start(two);
    let mut before = 0;
    while waits(&mut books, other) {
        let job = [one, two][before % 2];
        run_some(&mut books, job, 1, 3);
        books.start(job);
        before += 1;
        assert!(before <= 20, "as long as the others like");
    }
    assert!(before > 10, "{before}");
}
