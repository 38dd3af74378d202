//! Books taken over from what the jobs say.

use super::*;
use crate::ledger::Use;
use crate::types::report::Activity;

const ARENA: Zone = Zone::Iteration;

fn at(job: JobKey, page: u64) -> Place {
    Place { job, zone: ARENA, page }
}

/// The memory of these regions has been handed in.
fn hand_in(books: &mut Books, regions: core::ops::Range<usize>) {
    for region in regions {
        assert!(books.ledger.adopt_memory(region, 0));
    }
}

#[test]
fn a_job_keeps_its_key_and_no_other_gets_it() {
    let mut books = Books::new(4);
    assert!(books.ledger.reserve_key(7));
    assert!(books.ledger.reserve_key(3), "an earlier one is no new job's either");
    assert_eq!(books.ledger.new_key(), 8);
    assert!(!books.ledger.reserve_key(0));
    assert!(!books.ledger.reserve_key(JobKey::MAX), "keys go on from there");
    assert_eq!(books.ledger.new_key(), 9);
}

#[test]
fn a_region_has_one_job_and_one_place() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.ledger.set_target(Bytes::mib(3), Bytes::mib(4)).unwrap();
    assert!(!books.ledger.adopt_memory(3, 0), "the budget has been lowered");
    assert!(!books.ledger.adopt_memory(4, 0), "there is none");
    hand_in(&mut books, 0..2);
    let leased = |job, page| (Some(at(job, page)), Use::Leased(at(job, page)));
    let mut adopt = |job, region, (place, used)| books.ledger.adopt(job, region, place, used);
    assert!(adopt(one, 0, leased(one, 0)));
    assert!(!adopt(two, 0, leased(two, 0)), "it is another job's");
    assert!(!adopt(two, 0, (None, Use::Draining)), "it is in use");
    assert!(!adopt(one, 1, leased(one, 0)), "that page has a region");
    assert!(!adopt(99, 1, leased(99, 0)), "nobody's");
    assert!(!adopt(one, 4, leased(one, 1)), "there is none");
    assert!(!adopt(one, 2, leased(one, 1)), "it has no memory");
    assert!(adopt(two, 1, leased(two, 0)));
    assert_eq!(books.state(), (1, 2, 0));
    assert_eq!(books.lease(two, ARENA, &[1]), (0, 1, 1), "what nobody has named was not made");
}

/// A client may have memory of which none of its jobs has anything: what was granted last may not
/// have come to be mapped.
#[test]
fn memory_that_no_job_names_is_nobodys_and_is_not_made_twice() {
    let mut books = Books::new(2);
    let one = books.join("a");
    hand_in(&mut books, 0..2);
    hand_in(&mut books, 0..1);
    assert_eq!(books.ledger.snapshot().held, Bytes::mib(2));
    assert_eq!(books.state(), (2, 0, 0));
    assert_eq!(books.lease(one, ARENA, &[0, 1]), (0, 0, 2), "both are there");
}

#[test]
fn what_was_given_back_drains_until_a_fence_that_comes_later() {
    let mut books = Books::new(3);
    let one = books.join("a");
    hand_in(&mut books, 0..2);
    assert!(books.ledger.adopt(one, 0, Some(at(one, 5)), Use::Draining));
    assert!(books.ledger.adopt(one, 1, None, Use::Draining));
    assert_eq!(books.state(), (1, 0, 2));
    let batch = books.fence(one).unwrap();
    assert_eq!(books.state(), (1, 0, 2));
    assert_eq!(books.ledger.completed(one, batch, books.now), Some(true));
    assert_eq!(books.state(), (3, 0, 0));
    // It is mapped where it was.
    assert_eq!(books.lease(one, ARENA, &[5]), (0, 0, 0));
}

#[test]
fn a_page_passes_though_its_region_is_in_use_elsewhere() {
    let mut books = Books::new(3);
    let one = books.join("a");
    hand_in(&mut books, 0..1);
    assert!(books.ledger.adopt(one, 0, Some(at(one, 0)), Use::Passing));
    assert!(books.ledger.adopt(one, 0, Some(at(one, 1)), Use::Leased(at(one, 1))));
    assert_eq!(books.state(), (2, 1, 0));
    assert!(books.is_denied(one, ARENA, &[0]), "the device may still be at it");
    let batch = books.fence(one).unwrap();
    assert_eq!(books.ledger.completed(one, batch, books.now), Some(true));
    assert_eq!(books.lease(one, ARENA, &[0]), (1, 1, 1));
    assert_eq!(books.state(), (1, 2, 0));
}

#[test]
fn a_running_iteration_goes_on_and_nothing_is_learned_of_its_rest() {
    let mut books = Books::shifting(10);
    let (one, two) = (books.join("a"), books.join("b"));
    hand_in(&mut books, 0..1);
    assert!(books.ledger.adopt(one, 0, Some(at(one, 0)), Use::Leased(at(one, 0))));
    assert_eq!(books.ledger.claim(one), None);
    books.ledger.resume(one, true, Some(8), books.now);
    books.ledger.resume(99, true, Some(8), books.now);
    assert_eq!(books.ledger.accounts[&one].activity(), Activity::Running);
    assert_eq!(books.ledger.claim(one), Some(8));
    assert_eq!(books.begin(one), Err(BeginError::AlreadyRunning));
    for _ in 0..3 {
        books.ledger.resume(two, false, None, books.now);
        assert_eq!(books.ledger.accounts[&two].activity(), Activity::Idle);
    }
    // The rest of it takes one page: the next one is expected to take what it took before.
    books.give_for_good(one, ARENA, &[0]);
    books.end(one);
    assert_eq!(books.ledger.claim(one), Some(8));
    books.iterate(one, 8);
    assert_eq!(books.ledger.claim(one), Some(8));
}

#[test]
fn an_iteration_of_which_nothing_was_told_may_take_whatever_there_is() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join("b"));
    books.ledger.resume(one, true, None, books.now);
    assert_eq!((books.ledger.claim(one), books.ledger.accounts[&one].ahead()), (None, None));
    books.start(two);
    books.lease(two, ARENA, &[0, 1]);
    // Both may need all that there is: one goes on, and the other one waits for it.
    assert!(books.is_denied(one, ARENA, &[0]));
    books.lease(two, ARENA, &[2]);
}
