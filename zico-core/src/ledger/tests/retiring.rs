//! Memory that goes back to the device.

use super::*;
use crate::ledger::retire::Excess;

#[test]
fn free_memory_goes_down_to_the_excess() {
    let mut books = Books::new(6);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1, 2, 3]);
    books.give_for_good(job, Zone::Iteration, &[1, 2, 3]);
    let excess = Excess::Above(2);
    assert!(books.ledger.exceeds(excess));
    let (mut found, from) = (Vec::new(), books.ledger.idle_from(0, &mut Vec::new()));
    assert_eq!((books.ledger.idle_from(0, &mut found), from, found.len()), (None, None, 3));
    let some: Vec<usize> = (0..6).collect();
    let mut retired = books.ledger.retire(&some, excess);
    assert_eq!(retired.len(), 2, "those that are leased or absent are left alone");
    assert_eq!((books.ledger.created(), books.ledger.retiring), (4, 2));
    assert!(!books.ledger.exceeds(excess));
    // Their pages are pinned meanwhile.
    let page = retired[0].mapped()[0].0.page;
    assert!(books.is_denied(job, Zone::Iteration, &[page]));
    books.woken();
    for (place, region) in retired[0].mapped() {
        books.ledger.unmapped(place, region);
    }
    retired[0].destroyed = true;
    // The device refuses the second one.
    books.ledger.retired(&retired);
    assert_eq!((books.ledger.created(), books.ledger.retiring, books.woken()), (3, 0, true));
    assert_eq!(books.ledger.counts.destroys, 1);
    assert_eq!(books.state(), (5, 1, 0));
}

#[test]
fn a_lowered_budget_is_an_excess_until_regions_are_closed() {
    let mut books = Books::new(4);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1, 2, 3]);
    books.give_for_good(job, Zone::Iteration, &[0, 1, 2, 3]);
    books.ledger.set_target(Bytes::mib(1), Bytes::mib(4)).unwrap();
    assert!(books.ledger.is_shrinking() && books.ledger.exceeds(Excess::BeyondLimit));
    let mut retired = books.ledger.retire(&[0, 1, 2, 3], Excess::BeyondLimit);
    assert_eq!(retired.len(), 3);
    retired.iter_mut().for_each(|region| region.destroyed = true);
    books.ledger.retired(&retired);
    assert!(!books.ledger.is_shrinking() && !books.ledger.exceeds(Excess::BeyondLimit));
    assert_eq!((books.ledger.open, books.state().0), (1, 1));
}
