//! When a job that takes turns comes back from the host, and what it then finds.

use super::turns::SLICE;
use super::*;
use crate::types::tuning::MOST_BYPASSES;

/// Two jobs that take turns: one keeps five regions, and its iterations take three; the other one
/// keeps two.
fn large_and_small(regions: u32) -> (Books, JobKey, JobKey) {
    let mut books = Books::new(regions);
    let (large, small) = (books.join_turns("large", 0), books.join_turns("small", 0));
    books.lease(large, Zone::Persistent, &[0, 1, 2, 3, 4]);
    (0..3).for_each(|_| books.iterate(large, 3));
    books.lease(small, Zone::Persistent, &[0, 1]);
    (books, large, small)
}

/// D66: the other one went, and came back to the memory that it had given up before the device had
/// passed that: it went and came for ever, and the iteration waited.
#[test]
fn one_that_has_made_way_does_not_come_back_before_the_other_has_its_memory() {
    let (mut books, large, small) = large_and_small(10);
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

/// D67: a job came back beside an iteration that turned out to need its room, and had to go before
/// it had run, each time: the next iteration had begun before its own.
#[test]
fn one_that_had_to_go_before_it_had_run_begins_before_others_when_it_is_back() {
    let (mut books, large, small) = large_and_small(11);
    let go_and_ask = |books: &mut Books| {
        books.ledger.hold(small, true).unwrap();
        books.go(small);
        books.ledger.hold(small, false).unwrap();
        books.go_by(SLICE);
        assert!(books.may_return(small));
    };
    go_and_ask(&mut books);
    assert!(matches!(books.begin(large), Ok(Begin::Wait(_))), "it is on its way");
    assert!(books.come_back(small, Zone::Persistent, &[0, 1]));
    books.ledger.is_back(small, books.now);
    assert!(matches!(books.begin(large), Ok(Begin::Wait(_))), "it is about to begin");
    books.iterate(small, 1);
    books.iterate(large, 3);
    // It has run: the next time it is one of many.
    go_and_ask(&mut books);
    books.start(large);
}

/// Others do not wait for it for longer than they have patience.
#[test]
fn one_that_is_back_and_does_not_begin_is_not_waited_for() {
    let mut books = Books::new(11);
    let (large, small) = (books.join_turns("large", 0), books.join_turns("small", 0));
    books.lease(small, Zone::Persistent, &[0, 1]);
    books.ledger.hold(small, true).unwrap();
    books.go(small);
    books.ledger.hold(small, false).unwrap();
    assert!(books.is_brought_back(small, &[0, 1]));
    assert!(matches!(books.begin(large), Ok(Begin::Wait(_))));
    books.go_by(Ticks::new(1));
    books.go_by(books.ledger.patience());
    books.start(large);
}

/// D68: nothing but the other one's next iteration would have shown that it rests, or its leaving.
#[test]
fn one_of_a_higher_priority_that_rests_or_leaves_is_not_waited_for() {
    for leaves in [false, true] {
        let mut books = Books::new(12);
        let low = books.join_turns("low", 0);
        let high = JobConfig::new("high").priority(1).preemptible(SLICE).declare(Bytes::mib(8));
        let high = books.try_join(high).unwrap();
        books.lease(low, Zone::Persistent, &[0, 1, 2, 3, 4]);
        books.lease(high, Zone::Persistent, &[0, 1, 2, 3]);
        books.ledger.hold(low, true).unwrap();
        books.go(low);
        books.ledger.hold(low, false).unwrap();
        assert!(!books.may_return(low), "the other one has its turn");
        if leaves {
            books.ledger.leave(high, books.now);
            let mut from = Some((0, 0));
            while let Some(next) = from {
                from = books.ledger.leave_pages(high, next);
            }
            books.ledger.left(high);
            books.ledger.admit();
        } else {
            books.go_by(SLICE);
        }
        assert!(books.may_return(low), "{leaves}");
    }
}

/// D69: those of a higher priority that wait go before it, and no longer than before any other.
#[test]
fn one_that_was_passed_over_too_often_comes_back_before_those_of_a_higher_priority() {
    let mut books = Books::under(10, Alone, HandOver::Fenced);
    let low = books.join("low");
    books.lease(low, Zone::Persistent, &[0, 1, 2, 3]);
    books.go(low);
    let high = ["b", "c", "d"].map(|name| {
        let job = books.try_join(JobConfig::new(name).priority(1)).unwrap();
        (0..3).for_each(|_| books.iterate(job, 8));
        job
    });
    let pages: Vec<u64> = (0..8).collect();
    books.start(high[0]);
    books.lease(high[0], Zone::Iteration, &pages);
    for &job in &high[1..] {
        assert!(matches!(books.begin(job), Ok(Begin::Wait(_))));
    }
    assert!(!books.may_return(low));
    let mut running = high[0];
    // Two have asked before it.
    for _ in 0..MOST_BYPASSES + 3 {
        books.give_for_good(running, Zone::Iteration, &pages);
        books.end(running);
        if books.may_return(low) {
            return;
        }
        // One of the two that wait goes on, and the one that has run waits behind the other.
        let next =
            high.into_iter().find(|&job| job != running && books.begin(job) == Ok(Begin::Started));
        let next = next.unwrap();
        assert!(matches!(books.begin(running), Ok(Begin::Wait(_))));
        books.lease(next, Zone::Iteration, &pages);
        running = next;
    }
    panic!("it stays on the host");
}
