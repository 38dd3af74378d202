//! Which iterations start, and when.

use super::*;
use crate::learn::signature::Mark;
use crate::types::error::NotRunning;
use crate::types::report::Activity;

fn activity(books: &Books, job: JobKey) -> Activity {
    books.ledger.accounts[&job].activity()
}

#[test]
fn an_iteration_begins_once_and_ends_once() {
    let mut books = Books::new(4);
    let job = books.join("a");
    assert_eq!(books.ledger.end(job, books.now, Signature::default(), false), Err(NotRunning));
    books.start(job);
    assert_eq!(books.begin(job), Err(BeginError::AlreadyRunning));
    assert_eq!(activity(&books, job), Activity::Running);
    books.end(job);
    assert_eq!(activity(&books, job), Activity::Idle);
    assert_eq!(books.ledger.accounts[&job].iterations, 1);
    assert_eq!(books.ledger.begin(99, None, books.now), Err(BeginError::Left));
    books.ledger.withdraw(job);
    books.start(job);
}

#[test]
fn the_unknown_runs_alone_and_those_who_wait_are_woken_at_its_end() {
    let mut books = Books::shifting(8);
    let (one, two) = (books.join("a"), books.join("b"));
    books.start(one);
    assert_eq!(books.begin(two), Ok(Begin::Wait(None)));
    assert_eq!(activity(&books, two), Activity::Waiting);
    books.woken();
    books.end(one);
    assert!(books.woken());
    books.start(two);
}

#[test]
fn waves_that_fit_together_run_together() {
    let mut books = Books::shifting(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(one, 3);
        books.iterate(two, 3);
    }
    books.start(one);
    books.start(two);
    let mut books = Books::shifting(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(one, 7);
        books.iterate(two, 7);
    }
    books.start(one);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
}

#[test]
fn who_withdraws_makes_way() {
    let mut books = Books::shifting(8);
    let (one, two, three) = (books.join("a"), books.join("b"), books.join("c"));
    books.start(one);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    assert!(matches!(books.begin(three), Ok(Begin::Wait(_))));
    books.woken();
    books.ledger.withdraw(two);
    assert_eq!((activity(&books, two), books.woken()), (Activity::Idle, true));
    books.end(one);
    books.start(three);
    assert!(books.ledger.waiting.is_empty());
}

#[test]
fn priorities_go_first_but_nobody_is_bypassed_for_ever() {
    bypassed_sixteen_times(Books::under(8, Alone, HandOver::Fenced));
}

/// Nor behind one that waits for what a job keeps that does not run: others go before that one
/// meanwhile, and count for those behind it.
#[test]
fn nobody_is_bypassed_for_ever_behind_one_that_waits_for_leftovers() {
    let mut books = Books::under(8, Alone, HandOver::Fenced);
    let first = books.try_join(JobConfig::new("first").priority(2)).unwrap();
    (0..3).for_each(|_| books.iterate(first, 6));
    let idle = books.join("idle");
    books.lease(idle, Zone::Iteration, &[0, 1, 2, 3]);
    assert_eq!(books.begin(first), Ok(Begin::Wait(None)));
    bypassed_sixteen_times(books);
}

fn bypassed_sixteen_times(mut books: Books) {
    let low = books.join("low");
    let high: Vec<JobKey> =
        (0..2).map(|_| books.try_join(JobConfig::new("high").priority(1)).unwrap()).collect();
    books.start(high[0]);
    assert!(matches!(books.begin(low), Ok(Begin::Wait(_))));
    let mut runs = 0;
    let (mut running, mut next) = (high[0], high[1]);
    loop {
        assert!(matches!(books.begin(next), Ok(Begin::Wait(_))));
        books.end(running);
        if books.begin(low) == Ok(Begin::Started) {
            break;
        }
        books.start(next);
        (running, next) = (next, running);
        runs += 1;
        assert!(runs < 100);
    }
    assert_eq!(runs, 16, "it is put behind as many that came later, and no more");
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(one, 6);
    }
    books.lease(two, Zone::Persistent, &[0, 1]);
    books.start(one);
    books.end(one);
    let declared = books.try_join(JobConfig::new("c").declare(Bytes::mib(7))).unwrap();
    assert!(matches!(books.begin(declared), Err(BeginError::NeverFits { .. })));
}

#[test]
fn one_that_waits_is_refused_when_the_budget_falls_below_it() {
    let mut books = Books::shifting(8);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..3 {
        books.iterate(two, 6);
    }
    books.start(one);
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    books.ledger.set_target(Bytes::mib(4), Bytes::mib(8)).unwrap();
    books.woken();
    assert!(matches!(books.begin(two), Err(BeginError::NeverFits { .. })));
    assert!(books.woken() && books.ledger.waiting.is_empty());
}

#[test]
fn a_kind_that_is_recognised_changes_what_is_expected() {
    let mut books = Books::new(12);
    let (one, two) = (books.join("a"), books.join("b"));
    let run = |books: &mut Books, told: u64, pages: u64| {
        let pages: Vec<u64> = (0..pages).collect();
        assert_eq!(books.ledger.begin(one, Some(told), books.now), Ok(Begin::Started));
        books.tick(one);
        books.lease(one, Zone::Iteration, &pages);
        books.give_for_good(one, Zone::Iteration, &pages);
        books.end(one);
    };
    for _ in 0..5 {
        run(&mut books, 1, 3);
        run(&mut books, 2, 9);
        books.iterate(two, 6);
    }
    // Told that it is the small kind, both run at once; with the large one, they could not finish.
    assert_eq!(books.ledger.begin(one, Some(1), books.now), Ok(Begin::Started));
    assert!(books.ledger.accounts[&one].ahead().is_some_and(|ahead| ahead <= 5));
    books.start(two);
    books.ledger.recognise(one, Mark { power: 0, hash: 1 });
    books.ledger.lose(one);
    books.ledger.lose(99);
    assert_eq!(books.ledger.accounts[&one].ahead(), None, "it may go on for ever");
}

#[test]
fn a_stalled_iteration_gets_its_memory_before_others_begin_for_ever() {
    let mut books = Books::new(4);
    let (one, two, three) = (books.join("a"), books.join("b"), books.join("c"));
    for job in [one, two, three] {
        for _ in 0..3 {
            books.iterate(job, if job == one { 4 } else { 1 });
        }
    }
    books.start(one);
    books.lease(one, Zone::Iteration, &[0]);
    books.start(two);
    books.lease(two, Zone::Iteration, &[0]);
    let mut begun = 0;
    let (mut running, mut next) = (two, three);
    while begun < 100 {
        assert!(books.is_denied(one, Zone::Iteration, &[1, 2, 3]));
        if books.begin(next) != Ok(Begin::Started) {
            break;
        }
        books.lease(next, Zone::Iteration, &[0]);
        books.give_for_good(running, Zone::Iteration, &[0]);
        books.end(running);
        (running, next) = (next, running);
        begun += 1;
    }
    assert!((1..=17).contains(&begun), "{begun}");
    assert_eq!(activity(&books, one), Activity::Stalled);
    books.give_for_good(running, Zone::Iteration, &[0]);
    books.end(running);
    books.lease(one, Zone::Iteration, &[1, 2, 3]);
}

#[test]
fn plans_are_refused_while_an_iteration_runs() {
    use crate::learn::kinds::Kind;
    use crate::learn::predictor::Peak;
    let mut books = Books::new(8);
    let job = books.join("a");
    books.iterate(job, 3);
    books.iterate(job, 3);
    let peak = |pages| Peak { kind: Kind::default(), pages, within: pages, starts: Vec::new() };
    assert!(!books.ledger.replan(job, &peak(4)), "more than they have held without");
    assert!(books.ledger.replan(job, &peak(3)));
    books.start(job);
    assert!(!books.ledger.replan(job, &peak(2)));
}
