//! Changing the budget.

use super::*;
use crate::ledger::budget::regions_of;
use crate::types::error::BudgetError;

fn mib(n: u64) -> Bytes {
    Bytes::mib(n)
}

#[test]
fn a_budget_is_whole_regions_within_the_device() {
    let all = mib(100);
    assert_eq!(regions_of(Bytes::new(mib(5).value() + 1), PAGE, all), Ok(5));
    let (asked, region) = (Bytes::new(1), PAGE);
    assert_eq!(regions_of(asked, PAGE, all), Err(BudgetError::TooSmall { asked, region }));
    let asked = mib(101);
    assert_eq!(
        regions_of(asked, PAGE, all),
        Err(BudgetError::BeyondDevice { asked, capacity: all })
    );
    let many = regions_of(mib(1 << 21), PAGE, Bytes::MAX);
    assert!(matches!(many, Err(BudgetError::TooManyRegions { count: 0x20_0000, .. })));
}

#[test]
fn raising_counts_at_once() {
    let mut books = Books::new(2);
    let job = books.join("a");
    books.lease(job, Zone::Persistent, &[0, 1]);
    books.woken();
    books.ledger.set_target(mib(4), mib(8)).unwrap();
    while books.ledger.open_up() {}
    assert!(books.woken());
    assert_eq!((books.ledger.budget(), books.state().0), (mib(4), 2));
    books.lease(job, Zone::Persistent, &[2, 3]);
}

#[test]
fn lowering_waits_for_what_runs_and_closes_what_is_free() {
    let mut books = Books::new(10);
    let job = books.join("a");
    for _ in 0..3 {
        books.iterate(job, 8);
    }
    books.start(job);
    books.lease(job, Zone::Iteration, &[0, 1, 2, 3]);
    books.ledger.set_target(mib(6), mib(16)).unwrap();
    let status = books.ledger.budget_status();
    // It has been promised 8.
    assert_eq!((status.target, status.held), (mib(6), mib(8)));
    assert_eq!(status.pending, mib(3), "10 are open until memory goes, 9 with its margin");
    assert!(!books.ledger.is_shrinking());
    books.lease(job, Zone::Iteration, &[4, 5, 6, 7]);
    books.give_for_good(job, Zone::Iteration, &(0..8).collect::<Vec<u64>>());
    books.end(job);
    assert!(books.ledger.is_shrinking(), "8 have memory, and 6 may");
}

#[test]
fn a_budget_below_what_jobs_keep_is_refused() {
    let mut books = Books::new(8);
    let job = books.join("a");
    books.lease(job, Zone::Persistent, &[0, 1, 2]);
    let (asked, kept) = (mib(2), mib(3));
    let refused = books.ledger.set_target(asked, mib(8));
    assert_eq!(refused, Err(BudgetError::BelowPersistent { asked, kept }));
    assert_eq!(books.ledger.budget(), mib(8));
    let refused = books.ledger.set_target(mib(9), mib(8));
    assert!(matches!(refused, Err(BudgetError::BeyondDevice { .. })));
}

#[test]
fn regions_are_closed_and_opened_some_at_a_time() {
    let mut books = Books::new(4000);
    books.ledger.set_target(mib(10), mib(4000)).unwrap();
    assert_eq!(books.ledger.open, 4000 - 1024);
    while books.ledger.close_more() {}
    assert_eq!((books.ledger.open, books.state().0), (10, 10));
    books.ledger.set_target(mib(3000), mib(4000)).unwrap();
    assert!(books.ledger.open_up());
    while books.ledger.open_up() {}
    assert_eq!((books.ledger.open, books.state().0), (3000, 3000));
}
