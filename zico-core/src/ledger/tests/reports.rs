//! What the books say of themselves.

use super::*;
use crate::types::report::Activity;
use crate::types::waits::Awaited;

#[test]
fn a_snapshot_has_the_figures_of_pool_and_jobs() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0]);
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.give(one, Zone::Iteration, &[1]);
    let snapshot = books.ledger.snapshot();
    assert_eq!((snapshot.budget, snapshot.held), (Bytes::mib(8), Bytes::mib(3)));
    assert_eq!((snapshot.free, snapshot.jobs.len()), (Bytes::ZERO, 2));
    let job = &snapshot.jobs[0];
    assert_eq!((&*job.name, job.activity, job.iterations), ("a", Activity::Running, 0));
    let held = books.ledger.job(one).unwrap().held;
    assert_eq!((held.persistent, held.iteration, held.draining), (PAGE, PAGE, PAGE));
    assert_eq!((held.peak, held.total(), job.held), (Bytes::mib(3), Bytes::mib(3), held));
    let stats = job.stats;
    assert_eq!((stats.reserved.current, stats.reserved.allocated), (Bytes::mib(3), Bytes::mib(3)));
    assert_eq!(&*books.ledger.job(two).unwrap().name, "b");
    assert_eq!(books.ledger.job(99), None);
    assert!(books.ledger.profile(one).is_none() && books.ledger.profile(99).is_none());
    books.give_for_good(one, Zone::Iteration, &[0]);
    books.end(one);
    assert_eq!(books.ledger.profile(one).map(|profile| profile.peak().value()), Some(2));
    assert_eq!(books.ledger.at_rest(), [one, two]);
}

#[test]
fn who_waits_says_for_whom() {
    let mut books = Books::shifting(4);
    let (one, two, three) = (books.join("a"), books.join("b"), books.join("c"));
    books.lease(three, Zone::Iteration, &[0]);
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1]);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    assert!(books.is_denied(one, Zone::Iteration, &[2, 3]));
    let waits = books.ledger.waits();
    assert_eq!((waits.len(), waits[0].awaited), (2, Awaited::Memory(Bytes::mib(2))));
    assert_eq!(waits[1].awaited, Awaited::Start);
    let blockers: Vec<&str> = waits[1].blockers.iter().map(|blocker| &*blocker.job).collect();
    assert_eq!(blockers, ["a", "c"], "the one that holds most first");
}

#[test]
fn a_detected_iteration_ends_when_next_to_nothing_is_held() {
    let mut books = Books::new(128);
    let job = books.join("a");
    assert!(!books.ledger.may_turn(job), "none runs");
    books.start(job);
    let pages: Vec<u64> = (0..128).collect();
    books.lease(job, Zone::Iteration, &pages);
    assert!(!books.ledger.may_turn(job));
    books.give_for_good(job, Zone::Iteration, &pages[2..]);
    assert!(books.ledger.may_turn(job), "a 64th of its peak is left");
}
