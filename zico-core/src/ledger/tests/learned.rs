//! Jobs whose blocks' lifetimes are learned: nobody says what persists.

use super::*;
use crate::learn::signature::Mark;

/// Leases pages that are learned to be of a zone.
pub(super) fn lease(books: &mut Books, job: JobKey, zone: Zone, pages: &[u64]) {
    let order = books.ask_told(job, zone, pages, Told::Learned, false).ok().unwrap();
    books.settle(job, zone, &order);
    books.tick(job);
}

fn is_denied(books: &mut Books, job: JobKey, zone: Zone, pages: &[u64]) -> bool {
    matches!(books.ask_told(job, zone, pages, Told::Learned, false), Err(Denied::Busy(_)))
}

/// A job of two regions that persist runs an iteration that takes three, and makes two more that
/// persist, as far as is known, until it is over.
fn iterate(books: &mut Books, job: JobKey) {
    books.start(job);
    lease(books, job, Zone::Iteration, &[0, 1, 2]);
    lease(books, job, Zone::Persistent, &[2, 3]);
    books.give_for_good(job, Zone::Iteration, &[0, 1, 2]);
    books.end(job);
    books.give_for_good(job, Zone::Persistent, &[2, 3]);
}

fn ahead(books: &Books, job: JobKey) -> Option<u32> {
    books.ledger.accounts[&job].ahead()
}

#[test]
fn nothing_is_expected_until_iterations_have_come_to_take_the_same() {
    let mut books = Books::new(32);
    let (learned, told) = (books.join("a"), books.join("b"));
    let expected: Vec<bool> = [4, 6, 6, 6, 7]
        .into_iter()
        .map(|pages| {
            let pages: Vec<u64> = (0..pages).collect();
            books.start(learned);
            let known = ahead(&books, learned).is_some();
            lease(&mut books, learned, Zone::Iteration, &pages);
            books.give_for_good(learned, Zone::Iteration, &pages);
            books.end(learned);
            known
        })
        .collect();
    assert_eq!(expected, [false, false, false, false, true]);
    books.iterate(told, 4);
    books.start(told);
    assert!(ahead(&books, told).is_some(), "a job that tells lifetimes is known after the first");
}

#[test]
fn what_persists_for_an_iteration_at_a_time_is_part_of_its_claim() {
    let mut books = Books::new(12);
    let (one, two) = (books.join("a"), books.join("b"));
    for job in [one, two] {
        lease(&mut books, job, Zone::Persistent, &[0, 1]);
        for _ in 0..4 {
            iterate(&mut books, job);
        }
        assert_eq!(books.ledger.accounts[&job].grows_in_each(), 2);
        assert_eq!(books.ledger.accounts[&job].kept_for_good(), 0, "it may go as well");
    }
    // Each comes to seven and a margin, of which four stay until it begins again. Two and three are
    // held when the other one starts: there is room for one of both to come to its end.
    books.start(one);
    lease(&mut books, one, Zone::Iteration, &[0, 1, 2]);
    assert_eq!(books.ledger.accounts[&one].base(), 4);
    assert_eq!((ahead(&books, one), books.ledger.accounts[&one].grows()), (Some(4), 2));
    assert_eq!(books.ledger.accounts[&one].kept(), 4);
    assert!(matches!(books.begin(two), Ok(Begin::Started | Begin::Wait(_))));
    assert!(is_denied(&mut books, two, Zone::Iteration, &[0, 1, 2, 3]));
    // What grows as before takes nothing from the claim.
    lease(&mut books, one, Zone::Persistent, &[2, 3]);
    assert_eq!((books.ledger.accounts[&one].kept(), books.ledger.accounts[&one].grows()), (4, 0));
    assert_eq!(books.ledger.accounts[&one].base(), 4);
}

/// What comes to persist in each iteration needs room from its start, beside the claim and beside
/// what another job has left.
#[test]
fn an_iteration_starts_where_there_is_room_for_what_it_makes_persist() {
    let mut books = Books::new(9);
    let (one, two) = (books.join("a"), books.join("b"));
    lease(&mut books, one, Zone::Persistent, &[0, 1]);
    (0..4).for_each(|_| iterate(&mut books, one));
    // Two that persist, three of the iteration's own, and two that come to persist.
    assert_eq!(books.ledger.room_to_start(one, &books.ledger.accounts[&one]), 7);
    books.start(two);
    lease(&mut books, two, Zone::Iteration, &[0, 1, 2]);
    books.end(two);
    assert_eq!(books.ledger.accounts[&two].kept(), 3);
    assert!(matches!(books.begin(one), Ok(Begin::Wait(_))));
    books.give_for_good(two, Zone::Iteration, &[2]);
    books.start(one);
    lease(&mut books, one, Zone::Iteration, &[0, 1, 2]);
    lease(&mut books, one, Zone::Persistent, &[2, 3]);
}

/// Two trainings, of which one is being learned: it was let in when the other one was at rest, and
/// then that one began, to come to keep more than it had. Neither could finish.
#[test]
fn an_iteration_of_which_nothing_is_known_keeps_what_there_was_for_it() {
    let mut books = Books::new(20);
    let (known, new) = (books.join("a"), books.join("b"));
    lease(&mut books, known, Zone::Persistent, &[0, 1]);
    (0..4).for_each(|_| iterate(&mut books, known));
    books.start(new);
    lease(&mut books, new, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7]);
    // It may need all but the two that the other one keeps. That one would have four at its end.
    assert!(matches!(books.begin(known), Ok(Begin::Wait(_))));
    lease(&mut books, new, Zone::Iteration, &[8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
    books.give_for_good(new, Zone::Iteration, &(0..18).collect::<Vec<u64>>());
    books.end(new);
    books.start(known);
}

/// What an iteration took is expected of the next but one as well, if the next has taken nothing.
#[test]
fn an_empty_iteration_does_not_hide_what_the_one_before_has_taken() {
    let mut books = Books::new(16);
    let job = books.join("a");
    books.start(job);
    books.lease(job, Zone::Iteration, &[0, 1]);
    books.lease(job, Zone::Iteration, &[2, 3, 4, 5, 6]);
    books.give_for_good(job, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6]);
    books.end(job);
    books.start(job);
    books.end(job);
    assert_eq!(books.ledger.room_to_start(job, &books.ledger.accounts[&job]), 7);
    books.start(job);
    assert!(ahead(&books, job).is_none_or(|ahead| ahead >= 7));
}

/// What a job has said that it takes may come as long as few iterations have shown what it does,
/// even in one that begins as the last one did.
#[test]
fn a_declared_job_may_take_again_what_it_has_taken() {
    let mut books = Books::new(16);
    let job = books.try_join(JobConfig::new("a").declare(Bytes::mib(7))).unwrap();
    for pages in [7, 3] {
        let pages: Vec<u64> = (0..pages).collect();
        books.start(job);
        books.lease(job, Zone::Iteration, &pages);
        books.ledger.recognise(job, Mark { power: 0, hash: pages.len() as u64 });
        books.give_for_good(job, Zone::Iteration, &pages);
        books.end(job);
    }
    books.start(job);
    books.lease(job, Zone::Iteration, &[0, 1, 2]);
    books.ledger.recognise(job, Mark { power: 0, hash: 3 });
    assert!(ahead(&books, job).is_none_or(|ahead| ahead >= 7));
}

/// As things stand the unknown one may take one page more, since the other one keeps four between
/// its iterations; but these it frees before the next one.
#[test]
fn who_is_known_starts_only_where_it_can_finish_beside_one_of_which_nothing_is_known() {
    for (held, starts) in [(7, false), (5, true)] {
        let mut books = Books::new(16);
        let (unknown, known) = (books.join("unknown"), books.join("known"));
        books.lease(known, Zone::Persistent, &[0, 1]);
        for _ in 0..4 {
            books.start(known);
            books.lease(known, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
            books.give_for_good(known, Zone::Iteration, &[4, 5]);
            books.end(known);
            books.give_for_good(known, Zone::Iteration, &[0, 1, 2, 3]);
        }
        lease(&mut books, unknown, Zone::Persistent, &[0, 1]);
        books.start(unknown);
        let pages: Vec<u64> = (0..held).collect();
        lease(&mut books, unknown, Zone::Iteration, &pages);
        let begun = books.begin(known);
        assert_eq!(begun == Ok(Begin::Started), starts, "beside {held}");
        // All that there is but what the other one keeps for good.
        let more: Vec<u64> = (held..12).collect();
        assert_eq!(is_denied(&mut books, unknown, Zone::Iteration, &more), starts);
    }
}

/// One that runs is taken to leave as much as its iterations have left before, and to keep for good
/// what the last two have begun with. Where it begins with less, more is to be there for one of
/// which nothing is known than there is.
#[test]
fn what_is_safe_when_an_iteration_is_let_in_is_safe_when_it_has_begun() {
    for (begins_with, starts) in [(2, true), (1, false)] {
        let mut books = Books::new(16);
        let (unknown, known) = (books.join("unknown"), books.join("known"));
        for _ in 0..4 {
            books.start(known);
            books.lease(known, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
            books.give_for_good(known, Zone::Iteration, &[2, 3, 4, 5, 6, 7]);
            if books.state().1 == 0 {
                books.lease(known, Zone::Iteration, &[0, 1]);
            }
            books.end(known);
        }
        if begins_with < 2 {
            books.give_for_good(known, Zone::Iteration, &[1]);
        }
        books.start(unknown);
        lease(&mut books, unknown, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(books.begin(known) == Ok(Begin::Started), starts, "with {begins_with}");
        assert!(books.ledger.is_safe_with(None, 0), "with {begins_with}");
    }
}

#[test]
fn where_nothing_can_go_on_it_is_granted_to_one_that_can_finish_with_it() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for job in [one, two] {
        books.start(job);
        lease(&mut books, job, Zone::Iteration, &[0]);
        books.give_for_good(job, Zone::Iteration, &[0]);
        books.end(job);
    }
    // Nobody knows what they take. The first can have all that is left, so the second gets nothing,
    // and the first nothing that stays: it has to leave as much to the second.
    books.start(one);
    lease(&mut books, one, Zone::Iteration, &[0, 1, 2]);
    books.start(two);
    assert!(is_denied(&mut books, two, Zone::Iteration, &[0]));
    assert!(is_denied(&mut books, one, Zone::Persistent, &[0]));
    let last = |books: &mut Books, job, zone, pages: &[u64]| {
        books.ask_told(job, zone, pages, Told::Learned, true)
    };
    assert!(matches!(last(&mut books, two, Zone::Iteration, &[0]), Err(Denied::Busy(_))));
    assert!(books.woken(), "the first is to ask again");
    assert!(last(&mut books, one, Zone::Persistent, &[0]).is_ok());
    books.tick(one);
    lease(&mut books, one, Zone::Iteration, &[3, 4, 5, 6]);
}

#[test]
fn who_is_overdue_is_waited_for_until_it_has_asked_again() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(one, 4);
        books.iterate(two, 4);
    }
    books.start(one);
    books.start(two);
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3]);
    assert!(books.is_denied(one, Zone::Iteration, &[0, 1, 2, 3]));
    let mut begun = 0;
    loop {
        books.give_for_good(two, Zone::Iteration, &[0, 1, 2, 3]);
        books.end(two);
        // The other one has been woken, and does not come at once.
        if books.begin(two) != Ok(Begin::Started) {
            break;
        }
        books.lease(two, Zone::Iteration, &[0, 1, 2, 3]);
        assert!(books.is_denied(one, Zone::Iteration, &[0, 1, 2, 3]));
        begun += 1;
        assert!(begun < 100, "it waits for ever");
    }
    assert_eq!(begun, 0, "it would take what the other one waits for");
    // Nobody has patience for ever.
    books.now = books.now.saturating_add(Ticks::new(1));
    books.ledger.look(books.now);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    books.now = books.now.saturating_add(Ticks::new(1000));
    books.ledger.look(books.now);
    books.start(two);
    books.lease(one, Zone::Iteration, &[0, 1, 2, 3]);
}

/// I4: it has little yet, and one of which nothing is known has a lot. Were it known at once, and
/// so sure to finish without that one, that one could not go on.
#[test]
fn who_turns_out_to_be_known_is_so_only_where_it_can_finish() {
    let mut books = Books::new(16);
    let [one, other] = ["a", "b"].map(|name| books.join(name));
    // Too few kinds to tell what the next one takes, before it has begun.
    for (hash, count) in [(1, 8), (1, 8), (2, 4)] {
        let pages: Vec<u64> = (0..count).collect();
        books.start(one);
        books.ledger.recognise(one, Mark { power: 0, hash });
        lease(&mut books, one, Zone::Iteration, &pages);
        books.give_for_good(one, Zone::Iteration, &pages[2..]);
        let mut signature = Signature::default();
        signature.push(hash);
        books.end_as(one, signature, false);
        // It frees this before it begins, or later, as it likes.
        if count == 8 {
            books.give_for_good(one, Zone::Iteration, &pages[..2]);
        }
    }
    books.start(other);
    lease(&mut books, other, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    books.start(one);
    assert_eq!([one, other].map(|job| ahead(&books, job)), [None, None]);
    books.ledger.recognise(one, Mark { power: 0, hash: 1 });
    assert_eq!(ahead(&books, one), None, "as nothing is sure yet");
    lease(&mut books, other, Zone::Iteration, &[9, 10, 11, 12]);
    assert!(is_denied(&mut books, one, Zone::Iteration, &[2, 3]), "it waits for that one");
}

/// D55: nobody knows what the second iteration takes, and the one that starts beside it may be the
/// first of another kind: its profile is of those before.
#[test]
fn nothing_starts_beside_the_first_iterations_of_which_little_is_known() {
    let mut books = Books::shifting(32);
    let (one, two) = (books.join("a"), books.join("b"));
    (0..4).for_each(|_| books.iterate(two, 4));
    let began_beside = |books: &mut Books| {
        books.start(one);
        lease(books, one, Zone::Iteration, &[0, 1, 2, 3]);
        let begun = books.begin(two);
        books.give_for_good(one, Zone::Iteration, &[0, 1, 2, 3]);
        books.end(one);
        if begun != Ok(Begin::Started) {
            books.start(two);
        }
        books.lease(two, Zone::Iteration, &[0, 1, 2, 3]);
        books.give_for_good(two, Zone::Iteration, &[0, 1, 2, 3]);
        books.end(two);
        begun == Ok(Begin::Started)
    };
    let began = [(); 5].map(|()| began_beside(&mut books));
    assert_eq!(began, [false, false, false, true, true]);
}
