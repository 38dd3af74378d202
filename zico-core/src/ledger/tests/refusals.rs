//! What is never granted, and who is told where nothing can go on.

use super::*;
use crate::types::want::Demand;

fn last(books: &mut Books, job: JobKey, zone: Zone, pages: &[u64]) -> Result<WorkOrder, Denied> {
    books.ask_told(job, zone, pages, Told::ByTheJob, true)
}

#[test]
fn what_never_fits_is_refused_with_the_figures() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    let Err(Denied::Never(why)) = books.ask(two, Zone::Persistent, &[0, 1]) else { panic!() };
    assert_eq!((why.missing, why.shortage.held_by_others), (Bytes::mib(1), Bytes::mib(3)));
    assert_eq!((why.shortage.free, why.shortage.budget), (Bytes::mib(1), Bytes::mib(4)));
    assert_eq!((why.holders.len(), &*why.holders[0].job), (1, "a"));
    let demand = |pages| Demand { asked: PAGE, pages, persists: false, told: false };
    assert!(matches!(books.ledger.is_beyond_all(two, demand(5)), Some(Denied::Never(_))));
    assert!(books.ledger.is_beyond_all(two, demand(4)).is_none());
}

#[test]
fn growth_that_stays_may_not_shut_out_a_job_that_fitted() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(one, 6);
    }
    books.lease(two, Zone::Persistent, &[0, 1]);
    assert!(matches!(books.ask(two, Zone::Persistent, &[2]), Err(Denied::Never(_))));
}

#[test]
fn where_nothing_can_go_on_one_is_told() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(two, Zone::Persistent, &[0, 1]);
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.woken();
    // Nobody else can give anything back: no waiting helps.
    let Err(Denied::Never(why)) = last(&mut books, one, Zone::Iteration, &[2]) else { panic!() };
    assert_eq!(why.missing, Bytes::mib(1));
}

#[test]
fn who_waits_is_woken_to_be_told() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.lease(two, Zone::Iteration, &[0, 1]);
    books.start(one);
    books.start(two);
    assert!(matches!(last(&mut books, one, Zone::Iteration, &[2]), Err(Denied::Busy(_))));
    books.woken();
    assert!(matches!(last(&mut books, two, Zone::Iteration, &[2]), Err(Denied::Never(_))));
    // It is as much to blame as the other one, and has been told first.
    books.give_for_good(two, Zone::Iteration, &[0, 1]);
    books.end(two);
    books.lease(one, Zone::Iteration, &[2, 3]);
}

#[test]
fn a_job_that_stands_still_is_waited_for_no_longer_than_others_have_patience() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.iterate(one, 1);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.start(two);
    books.lease(two, Zone::Iteration, &[0]);
    let ask = |books: &mut Books| last(books, two, Zone::Iteration, &[1, 2]);
    assert!(matches!(ask(&mut books), Err(Denied::Busy(_))), "it may free them");
    books.ledger.look(books.now);
    books.now = books.now.saturating_add(Ticks::new(1001));
    books.woken();
    books.ledger.look(books.now);
    assert!(books.woken(), "it has done nothing for longer than that");
    assert!(matches!(ask(&mut books), Err(Denied::Never(_))));
}

#[test]
fn a_first_wave_is_no_claim_for_ever() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    let guessed = |wave| Told::Guessed { wave };
    let ask = |books: &mut Books, zone, pages: &[u64], wave| {
        let order = books.ask_told(one, zone, pages, guessed(wave), false).ok().unwrap();
        books.settle(one, zone, &order);
        books.tick(one);
    };
    ask(&mut books, Zone::Persistent, &[0, 1], false);
    ask(&mut books, Zone::Iteration, &[0, 1], true);
    let account = &books.ledger.accounts[&one];
    assert!(account.first_wave.is_under_way() && account.has_claim());
    assert_eq!(account.kept(), 2, "the wave is not kept");
    books.start(two);
    books.ledger.look(books.now);
    books.now = books.now.saturating_add(Ticks::new(2000));
    books.ledger.look(books.now);
    assert!(!books.ledger.accounts[&one].first_wave.is_under_way());
    assert_eq!(books.ledger.accounts[&one].kept(), 4, "what it holds, it keeps");
}

/// Neither has shown what its iterations take: it is not the first to ask that is told, but the one
/// that takes more.
#[test]
fn of_two_of_whom_nothing_is_known_the_larger_is_told() {
    for larger_first in [true, false] {
        let mut books = Books::new(8);
        let (one, two) = (books.join("a"), books.join("b"));
        books.lease(one, Zone::Iteration, &[0, 1, 2, 3, 4]);
        books.lease(two, Zone::Iteration, &[0, 1]);
        books.start(one);
        books.start(two);
        let large = |books: &mut Books| last(books, one, Zone::Iteration, &[5, 6]);
        let small = |books: &mut Books| last(books, two, Zone::Iteration, &[2, 3]);
        if larger_first {
            assert!(matches!(large(&mut books), Err(Denied::Busy(_))), "the other may go on");
        }
        assert!(matches!(small(&mut books), Err(Denied::Busy(_))), "not it");
        assert!(matches!(small(&mut books), Err(Denied::Busy(_))), "and not if it asks again");
        assert!(matches!(large(&mut books), Err(Denied::Never(_))));
    }
}
