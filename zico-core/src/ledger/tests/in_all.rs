//! Jobs that hold at different times what they hold most of: what is claimed, and kept, in all.

use super::learned::lease;
use super::*;
use crate::learn::signature::Mark;
use crate::types::units::Progress;

/// The three iterations of a round of a job with two regions that persist. The first makes two more
/// persist, as far as is known, which are there until the third begins: gradients.
const OWN: [u64; 3] = [3, 4, 6];

/// Begins one of them and takes what it takes. In all that is seven, eight, eight.
fn begin(books: &mut Books, job: JobKey, which: usize) {
    books.start(job);
    if which == 2 {
        books.give_for_good(job, Zone::Persistent, &[2, 3]);
    }
    books.ledger.recognise(job, Mark { power: 0, hash: which as u64 });
    lease(books, job, Zone::Iteration, &(0..OWN[which]).collect::<Vec<u64>>());
    if which == 0 {
        lease(books, job, Zone::Persistent, &[2, 3]);
    }
}

fn end(books: &mut Books, job: JobKey, which: usize) {
    books.give_for_good(job, Zone::Iteration, &(0..OWN[which]).collect::<Vec<u64>>());
    let mut signature = Signature::default();
    signature.push(which as u64);
    books.end_as(job, signature, false);
}

fn round(books: &mut Books, job: JobKey) {
    for which in 0..3 {
        begin(books, job, which);
        end(books, job, which);
    }
}

/// A pool of so many regions with two such jobs, which are known.
fn two_jobs(regions: u32) -> (Books, [JobKey; 2]) {
    let mut books = Books::new(regions);
    let jobs = ["a", "b"].map(|name| books.join(name));
    for job in jobs {
        lease(&mut books, job, Zone::Persistent, &[0, 1]);
        (0..5).for_each(|_| round(&mut books, job));
    }
    (books, jobs)
}

/// Four persist, two more come to in the first iteration of a round, and four are the iteration's
/// own: that is no claim of ten and a margin.
#[test]
fn what_does_not_come_together_is_not_claimed_together() {
    let (mut books, jobs) = two_jobs(18);
    for which in 0..3 {
        // Both at their peaks: each leaves room for the other's, and for its margin.
        jobs.iter().for_each(|&job| begin(&mut books, job, which));
        jobs.iter().for_each(|&job| end(&mut books, job, which));
    }
}

/// A claim that leaves that out would let two start that cannot both finish.
#[test]
fn what_comes_to_persist_in_one_iteration_of_three_is_expected_in_the_next_round() {
    let (mut books, [one, _]) = two_jobs(32);
    books.start(one);
    assert_eq!(books.ledger.accounts[&one].base(), 2 + 2);
}

/// What persists when it begins, and what may come to persist, do not stay both.
#[test]
fn an_iteration_is_not_expected_to_keep_more_than_those_before_it_have() {
    let (mut books, [one, _]) = two_jobs(32);
    for which in 0..2 {
        begin(&mut books, one, which);
        end(&mut books, one, which);
    }
    books.start(one);
    assert_eq!(books.ledger.accounts[&one].kept(), 4, "that is there");
}

/// Two regions are left beside what persists in one iteration, and persist in the next: they are
/// always there.
#[test]
fn what_is_always_there_is_kept_whatever_it_counts_as() {
    let mut books = Books::new(32);
    let job = books.join("a");
    lease(&mut books, job, Zone::Persistent, &[0, 1]);
    lease(&mut books, job, Zone::Iteration, &[0, 1]);
    let turn = |books: &mut Books, signature: u64, from: Zone, to: Zone| {
        let page = |zone| if zone == Zone::Persistent { [2, 3] } else { [0, 1] };
        books.start(job);
        books.give_for_good(job, from, &page(from));
        lease(books, job, to, &page(to));
        let mut made = Signature::default();
        made.push(signature);
        books.end_as(job, made, false);
    };
    for _ in 0..5 {
        turn(&mut books, 1, Zone::Iteration, Zone::Persistent);
        turn(&mut books, 2, Zone::Persistent, Zone::Iteration);
    }
    books.start(job);
    assert_eq!(books.ledger.accounts[&job].kept_for_good(), 4);
    books.end(job);
    books.give_for_good(job, Zone::Persistent, &[1]);
    assert_eq!(books.ledger.accounts[&job].kept_for_good(), 3, "some has gone");
}

/// One that comes to keep a region more than it has would keep another one from finishing, until
/// that is past its peak. It starts then, and not only when that one has ended.
#[test]
fn who_would_endanger_another_iteration_starts_when_that_is_past_its_peak() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(two, Zone::Persistent, &[0, 1]);
    for _ in 0..5 {
        books.start(one);
        books.lease(one, Zone::Iteration, &[0, 1]);
        books.lease(one, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
        books.give_for_good(one, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
        (0..10).for_each(|_| books.tick(one));
        books.give_for_good(one, Zone::Iteration, &[0, 1]);
        books.end(one);
        books.start(two);
        lease(&mut books, two, Zone::Iteration, &[0]);
        lease(&mut books, two, Zone::Persistent, &[2]);
        books.give_for_good(two, Zone::Iteration, &[0]);
        books.end(two);
        books.give_for_good(two, Zone::Persistent, &[2]);
    }
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1]);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    books.lease(one, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
    books.give_for_good(one, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
    let mut looks = 0;
    while books.begin(two) != Ok(Begin::Started) {
        books.tick(one);
        let account = &books.ledger.accounts[&one];
        assert!(account.progress() < Progress::new(14), "it waits for the end");
        if account.progress() >= account.pulse.watched() {
            looks += 1;
            books.ledger.admit();
        }
    }
    assert!(looks > 0, "nothing else has changed");
}
