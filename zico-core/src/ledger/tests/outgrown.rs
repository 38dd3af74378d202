//! An iteration that needs more than any before it, beside a job that takes turns.

use super::turns::SLICE;
use super::*;

/// D66: the other one went, and came back to the memory that it had given up before the device had
/// passed that: it went and came for ever, and the iteration waited.
#[test]
fn one_that_has_made_way_does_not_come_back_before_the_other_has_its_memory() {
    let mut books = Books::new(10);
    let (large, small) = (books.join_turns("large", 0), books.join_turns("small", 0));
    books.lease(large, Zone::Persistent, &[0, 1, 2, 3, 4]);
    (0..3).for_each(|_| books.iterate(large, 3));
    books.lease(small, Zone::Persistent, &[0, 1]);
    books.go_by(SLICE);
    books.start(large);
    books.lease(large, Zone::Iteration, &[0, 1, 2]);
    // Those before it held nothing any more when they had come so far.
    (0..20).for_each(|_| books.tick(large));
    assert!(books.is_denied(large, Zone::Iteration, &[3]));
    books.go_by(SLICE);
    assert_eq!(books.ledger.called(), [small]);
    let pages = books.set_off(small);
    books.send(small, &pages);
    books.ledger.gone(small, books.now);
    assert!(books.is_denied(large, Zone::Iteration, &[3]), "it drains");
    assert!(!books.may_return(small));
    let batch = books.fence(small).unwrap();
    books.ledger.completed(small, batch, books.now);
    books.lease(large, Zone::Iteration, &[3]);
    books.give_for_good(large, Zone::Iteration, &[0, 1, 2, 3]);
    books.end(large);
    books.go_by(SLICE);
    assert!(books.is_brought_back(small, &[0, 1]));
}
