//! Memory of users who do not trust each other.

use super::*;
use crate::ledger::{Excess, Use};

const ARENA: Zone = Zone::Iteration;

fn join_of(books: &mut Books, name: &str, user: u32) -> JobKey {
    let key = books.join(name);
    books.ledger.accounts.get_mut(&key).unwrap().user = user;
    key
}

fn want(pages: &[u64]) -> Want {
    let asked = Bytes::new(pages.len() as u64 * PAGE.value());
    Want { zone: ARENA, pages: pages.to_vec(), planned: false, asked, told: Told::ByTheJob }
}

#[test]
fn another_users_memory_is_passed_by_and_given_back_for_what_needs_it() {
    let mut books = Books::new(4);
    let (one, same) = (join_of(&mut books, "a", 1), join_of(&mut books, "b", 1));
    let other = join_of(&mut books, "c", 2);
    books.lease(one, ARENA, &[0, 1, 2]);
    books.give_for_good(one, ARENA, &[0, 1, 2]);
    // One has no memory yet, and nothing of the other three is to be had.
    assert_eq!(books.lease(other, ARENA, &[0]), (0, 1, 1));
    assert!(books.is_denied(other, ARENA, &[1]));
    let wanted = |books: &mut Books, pages: &[u64]| {
        books.ledger.wanted_of_others(other, &want(pages), false).len()
    };
    assert_eq!((wanted(&mut books, &[1]), wanted(&mut books, &[1, 2])), (1, 2));
    assert_eq!(wanted(&mut books, &[1, 2, 3, 4]), 0, "more than there is of all");
    // The same user's job has them as they are.
    assert_eq!(books.ledger.wanted_of_others(same, &want(&[0, 1]), false), []);
    assert_eq!(books.lease(same, ARENA, &[0]), (0, 0, 1));
    // One is given back, and made anew for the other.
    let some = books.ledger.wanted_of_others(other, &want(&[1]), false);
    let mut retired = books.ledger.retire(&some, Excess::OfOthers);
    assert_eq!(retired.len(), 1);
    assert_eq!(wanted(&mut books, &[1]), 0, "that is on its way");
    for retired in &mut retired {
        for (place, region) in retired.mapped() {
            books.ledger.unmapped(place, region);
        }
        retired.destroyed = true;
    }
    books.ledger.retired(&retired);
    assert_eq!(books.lease(other, ARENA, &[1]), (0, 1, 1));
}

#[test]
fn a_region_that_one_user_has_handed_in_no_other_has() {
    let mut books = Books::new(4);
    let (one, other) = (join_of(&mut books, "a", 1), join_of(&mut books, "b", 2));
    let place = |job, page| Place { job, zone: ARENA, page };
    let at = place(one, 0);
    assert!(books.ledger.adopt_memory(0, 1) && books.ledger.adopt_memory(1, 1));
    assert!(books.ledger.adopt_memory(2, 2) && !books.ledger.adopt_memory(1, 2));
    assert!(books.ledger.adopt(one, 0, Some(at), Use::Leased(at)));
    assert!(books.ledger.adopt(one, 1, Some(place(one, 1)), Use::Idle));
    assert!(!books.ledger.adopt(other, 1, Some(place(other, 0)), Use::Idle));
    assert!(!books.ledger.adopt(other, 1, None, Use::Draining));
    assert!(books.ledger.adopt(other, 2, Some(place(other, 0)), Use::Idle));
}
