//! Batches, fences, completion.

use super::*;
use crate::ledger::AT_A_TIME;

#[test]
fn what_is_given_back_drains_until_its_fence_completes() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.give(one, Zone::Iteration, &[0, 1, 9]);
    assert_eq!(books.state(), (2, 0, 2));
    assert!(books.is_denied(two, Zone::Iteration, &[0, 1, 2]), "two of four drain");
    assert_eq!(books.fence(one), Some(1));
    assert_eq!(books.fence(one), None, "nothing is left to be fenced");
    books.woken();
    assert_eq!(books.ledger.completed(one, 1, books.now), Some(true));
    assert!(books.woken());
    assert_eq!(books.ledger.completed(one, 1, books.now), None, "another thread was faster");
    assert_eq!(books.state(), (4, 0, 0));
    books.lease(two, Zone::Iteration, &[0, 1, 2]);
    assert_eq!(books.ledger.completed(99, 1, books.now), None);
}

#[test]
fn a_job_has_its_own_back_before_the_fence() {
    let mut books = Books::new(2);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1]);
    books.give(job, Zone::Iteration, &[0, 1]);
    let batch = books.fence(job).unwrap();
    assert_eq!(books.lease(job, Zone::Iteration, &[0]), (0, 0, 0));
    // What it has again is not free when the fence completes.
    books.ledger.completed(job, batch, books.now);
    assert_eq!(books.state(), (1, 1, 0));
}

#[test]
fn a_batch_that_cannot_be_fenced_joins_the_next() {
    let mut books = Books::new(3);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1, 2]);
    books.give(job, Zone::Iteration, &[0, 1]);
    let closed = books.ledger.close_batch(job).unwrap();
    // Meanwhile one has come back and gone again.
    books.lease(job, Zone::Iteration, &[0]);
    books.give(job, Zone::Iteration, &[0]);
    books.ledger.reopen(job, closed);
    assert_eq!(books.ledger.accounts[&job].pending.len(), 2, "none stands there twice");
    let batch = books.fence(job).unwrap();
    books.ledger.completed(job, batch, books.now);
    assert_eq!(books.state(), (2, 1, 0));
    // Of a job that is not there.
    let closed = books.ledger.close_batch(job);
    assert!(closed.is_none());
}

#[test]
fn fences_complete_in_order_whoever_books_them_first() {
    let mut books = Books::new(2);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1]);
    books.give(job, Zone::Iteration, &[0]);
    let first = books.ledger.close_batch(job).unwrap();
    books.give(job, Zone::Iteration, &[1]);
    let second = books.ledger.close_batch(job).unwrap();
    books.ledger.fenced(job, second);
    books.ledger.fenced(job, first);
    assert_eq!(books.ledger.completed(job, 2, books.now), None, "it is not the oldest");
    assert_eq!(books.ledger.completed(job, 1, books.now), Some(true));
    assert_eq!(books.ledger.completed(job, 2, books.now), Some(true));
}

#[test]
fn a_large_batch_is_freed_some_at_a_time() {
    let regions = u32::try_from(AT_A_TIME + 10).unwrap();
    let mut books = Books::new(regions);
    let job = books.join("a");
    let all: Vec<u64> = (0..regions.into()).collect();
    books.lease(job, Zone::Iteration, &all);
    assert!(books.give(job, Zone::Iteration, &all), "it is time to fence so much");
    let batch = books.fence(job).unwrap();
    assert_eq!(books.ledger.completed(job, batch, books.now), Some(false));
    assert_eq!(books.state(), (AT_A_TIME, 0, 10));
    assert_eq!(books.ledger.completed(job, batch, books.now), Some(true));
    assert_eq!(books.state(), (AT_A_TIME + 10, 0, 0));
}

#[test]
fn a_batch_is_due_when_it_is_full_or_somebody_waits_or_its_job_rests() {
    let mut books = Books::new(20);
    let one = books.try_join(JobConfig::new("a").declare(Bytes::mib(18))).unwrap();
    let two = books.join("b");
    let all: Vec<u64> = (0..20).collect();
    books.start(one);
    books.lease(one, Zone::Iteration, &all[..18]);
    assert!(!books.give(one, Zone::Iteration, &all[..7]), "seven of a mebibyte");
    assert!(books.ledger.due().is_empty());
    assert!(books.give(one, Zone::Iteration, &[7]), "eight are full");
    assert_eq!(books.ledger.due(), [one]);
    books.fence(one);
    books.give(one, Zone::Iteration, &[8]);
    assert!(books.ledger.due().is_empty());
    assert!(books.is_denied(two, Zone::Iteration, &all[..4]));
    assert_eq!(books.ledger.due(), [one], "somebody waits");
    books.fence(one);
    books.ledger.completed(one, 1, books.now);
    books.lease(two, Zone::Iteration, &all[..1]);
    books.give(one, Zone::Iteration, &[9]);
    assert!(books.ledger.due().is_empty());
    books.end(one);
    assert_eq!(books.ledger.due(), [one], "it runs no more");
}

#[test]
fn a_job_that_leaves_stays_until_all_it_had_has_completed() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.lease(one, Zone::Persistent, &[3]);
    assert!(books.ledger.leave(one, books.now) && !books.ledger.leave(one, books.now));
    assert!(!books.ledger.has(one) && books.ledger.has(two));
    let mut from = Some((0, 0));
    while let Some(next) = from {
        from = books.ledger.leave_pages(one, next);
    }
    books.ledger.left(one);
    assert_eq!((books.state(), books.woken()), ((1, 0, 3), true));
    assert!(books.ledger.take_departed().is_empty(), "work may still use it");
    let batch = books.fence(one).unwrap();
    books.ledger.completed(one, batch, books.now);
    assert_eq!((books.state(), books.ledger.jobs()), ((4, 0, 0), [two].into()));
    // Its addresses are cleared up; one arena cannot be, and comes again.
    let mut departed = books.ledger.take_departed();
    assert_eq!((departed.len(), books.ledger.pinned), (Zone::COUNT, 2));
    for arena in &mut departed {
        let mapped = arena.mapped();
        books.ledger.clear(arena, &mapped);
        assert!(arena.mapped().is_empty());
    }
    let last = departed.pop();
    books.ledger.cleared(Zone::COUNT, last.into_iter().collect());
    assert_eq!((books.ledger.pinned, books.ledger.take_departed().len()), (0, 1));
    books.ledger.cleared(1, Vec::new());
    books.ledger.cleared(0, Vec::new());
    // What was mapped nowhere else has lost its mapping, and what is created stays the pool's.
    assert_eq!((books.ledger.created(), books.ledger.unmapped_regions().len()), (3, 3));
}

#[test]
fn pins_of_a_departed_job_keep_its_account() {
    let mut books = Books::new(2);
    let job = books.join("a");
    let order = books.ask(job, Zone::Iteration, &[0]).ok().unwrap();
    books.ledger.leave(job, books.now);
    let mut from = Some((0, 0));
    while let Some(next) = from {
        from = books.ledger.leave_pages(job, next);
    }
    books.ledger.left(job);
    assert_eq!(books.ledger.jobs(), [job], "a lease of it is under way");
    books.ledger.settle(job, Zone::Iteration, &order, &Done::default(), books.now);
    assert_eq!(books.ledger.jobs(), []);
}
