//! Jobs that are far ahead of the device: what they give up, and others wait for.

use super::*;

const ARENA: Zone = Zone::Iteration;
const PAGES: [u64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Two jobs whose iterations are known to take so many pages.
fn two_jobs(regions: u32, first: u64, second: u64) -> (Books, [JobKey; 2]) {
    let mut books = Books::new(regions);
    let jobs = [books.join("a"), books.join("b")];
    for _ in 0..3 {
        books.iterate(jobs[0], first);
        books.iterate(jobs[1], second);
    }
    (books, jobs)
}

fn waits(books: &mut Books, job: JobKey) -> bool {
    matches!(books.begin(job), Ok(Begin::Wait(_)))
}

/// The second job's iteration takes six pages, and the first one, which has four, waits for more.
fn one_waits(books: &mut Books, [one, two]: [JobKey; 2], asked: &[u64]) {
    books.start(one);
    books.lease(one, ARENA, &PAGES[..4]);
    books.start(two);
    books.lease(two, ARENA, &PAGES[..6]);
    assert!(books.is_denied(one, ARENA, asked));
}

/// The second job's iteration ends, and the device has yet to pass what it has given up.
fn two_ends(books: &mut Books, two: JobKey, pages: u64) -> u64 {
    let pages: Vec<u64> = (0..pages).collect();
    books.give(two, ARENA, &pages);
    let batch = books.fence(two).unwrap();
    books.end(two);
    batch
}

/// What the first job waits for is there, and it has yet to ask again.
fn about_to_get() -> (Books, [JobKey; 2]) {
    let (mut books, [one, two]) = two_jobs(11, 6, 6);
    one_waits(&mut books, [one, two], &[4, 5]);
    let batch = two_ends(&mut books, two, 6);
    books.ledger.completed(two, batch, books.now);
    (books, [one, two])
}

#[test]
fn what_one_waits_for_the_next_iteration_of_another_does_not_take() {
    // One may have all of it back before the device has passed it: then it is never free.
    let (mut books, [one, two]) = two_jobs(11, 6, 6);
    one_waits(&mut books, [one, two], &[4, 5]);
    let batch = two_ends(&mut books, two, 6);
    assert!(waits(&mut books, two));
    // It has passed it, and the other one has yet to ask again.
    books.ledger.completed(two, batch, books.now);
    assert!(waits(&mut books, two));
    books.lease(one, ARENA, &[4, 5]);
    books.start(two);
}

#[test]
fn where_there_is_enough_for_both_an_iteration_starts_beside_one_that_waits() {
    for (need, starts) in [(4, true), (5, false)] {
        let (mut books, [one, two]) = two_jobs(11, 8, 6);
        let third = books.join("c");
        for _ in 0..3 {
            books.iterate(third, need);
        }
        one_waits(&mut books, [one, two], &[4, 5, 6]);
        two_ends(&mut books, two, 6);
        assert!(books.is_denied(one, ARENA, &[4, 5, 6]), "the device has yet to pass it");
        assert_eq!(waits(&mut books, third), !starts, "{need} of 7, of which 3 are waited for");
    }
}

/// A third one has to finish first: what the first one asks for would keep it from that.
#[test]
fn an_iteration_starts_beside_one_that_may_not_have_what_it_waits_for() {
    let (mut books, [one, two]) = two_jobs(12, 6, 2);
    let third = books.join("c");
    for _ in 0..3 {
        books.iterate(third, 7);
    }
    books.start(third);
    books.lease(third, ARENA, &PAGES[..7]);
    books.give(third, ARENA, &PAGES[6..7]);
    books.start(one);
    books.lease(one, ARENA, &PAGES[..4]);
    assert!(books.is_denied(one, ARENA, &[4]));
    books.start(two);
}

/// It has made an allocation or a free since.
#[test]
fn an_iteration_starts_beside_one_that_has_gone_on_without() {
    let (mut books, [one, two]) = about_to_get();
    books.tick(one);
    books.start(two);
}

#[test]
fn nobody_has_patience_for_ever_with_one_that_does_not_ask_again() {
    let (mut books, [_, two]) = about_to_get();
    assert!(waits(&mut books, two));
    books.ledger.look(books.now);
    books.now = books.now.saturating_add(Ticks::new(1000));
    books.ledger.look(books.now);
    books.start(two);
}

#[test]
fn where_jobs_do_not_fit_an_iteration_starts_when_the_device_has_passed_most_of_the_last() {
    // Told of jobs that fit, of ones that do not, and of how much the device has yet to pass.
    for (regions, behind, starts) in [(12, 6, true), (11, 6, false), (11, 2, false), (11, 1, true)]
    {
        let (mut books, [one, two]) = two_jobs(regions, 6, 6);
        books.start(two);
        books.lease(two, ARENA, &PAGES[..6]);
        books.give(two, ARENA, &PAGES[..6 - behind]);
        let first = books.fence(two);
        books.give(two, ARENA, &PAGES[6 - behind..6]);
        let last = books.fence(two).unwrap();
        first.map(|first| books.ledger.completed(two, first, books.now));
        books.end(two);
        books.start(one);
        assert_eq!(waits(&mut books, two), !starts, "{regions} regions, {behind} behind");
        if !starts {
            assert!(!books.ledger.is_stuck());
            books.ledger.completed(two, last, books.now);
            books.start(two);
        }
    }
}

/// Its host is through with an iteration at once, and waits for memory in the next one meanwhile.
#[test]
fn a_job_has_the_time_that_the_device_takes() {
    let (mut books, [one, two]) = two_jobs(11, 6, 6);
    let served = |books: &Books, job: JobKey| books.ledger.accounts[&job].time.served().value();
    let before = [one, two].map(|job| served(&books, job));
    one_waits(&mut books, [one, two], &[4, 5]);
    let batch = two_ends(&mut books, two, 6);
    books.now = books.now.saturating_add(Ticks::new(100));
    books.ledger.completed(two, batch, books.now);
    books.now = books.now.saturating_add(Ticks::new(100));
    books.lease(one, ARENA, &[4, 5]);
    books.end(one);
    let had = [one, two].map(|job| served(&books, job));
    let had = [had[0] - before[0], had[1] - before[1]];
    assert!(had[0] < 20 && (100..120).contains(&had[1]), "{had:?}");
}

#[test]
fn one_that_is_ahead_of_the_device_starts_where_nothing_else_runs() {
    let (mut books, [_, two]) = two_jobs(8, 6, 6);
    books.start(two);
    books.lease(two, ARENA, &PAGES[..6]);
    two_ends(&mut books, two, 6);
    books.start(two);
}

#[test]
fn others_start_while_one_waits_for_the_device() {
    let (mut books, [one, two]) = two_jobs(11, 6, 6);
    let third = books.join("c");
    for _ in 0..3 {
        books.iterate(third, 2);
    }
    books.start(two);
    books.lease(two, ARENA, &PAGES[..6]);
    two_ends(&mut books, two, 6);
    books.start(third);
    assert!(waits(&mut books, two));
    books.start(one);
}
