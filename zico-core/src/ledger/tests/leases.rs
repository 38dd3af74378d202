//! Leases and their work orders.

use super::*;

#[test]
fn a_lease_says_what_the_device_has_to_do() {
    let mut books = Books::new(4);
    let job = books.join("a");
    let order = books.ask(job, Zone::Iteration, &[7, 5, 6]).ok().unwrap();
    assert!(!order.is_empty() && order.unmap.is_empty());
    assert_eq!(order.create.len(), 3, "no region has memory yet");
    let pages: Vec<u64> = order.map.iter().map(|&(page, _)| page).collect();
    assert_eq!(pages, [5, 6, 7], "in the order of pages, so that they can be mapped by one call");
    books.settle(job, Zone::Iteration, &order);
    assert_eq!(books.state(), (1, 3, 0));
    assert_eq!(books.ledger.counts.leased, 3);
    // A page that gets its region back needs nothing, and nothing is to be settled.
    books.give_for_good(job, Zone::Iteration, &[6]);
    let order = books.ask(job, Zone::Iteration, &[6]).ok().unwrap();
    assert!(order.is_empty() && order.map.is_empty() && order.create.is_empty());
    // Another page gets a region that has memory.
    books.give_for_good(job, Zone::Iteration, &[6]);
    assert_eq!(books.lease(job, Zone::Iteration, &[9]), (0, 0, 1));
    // Where it was mapped before it still is, until something else is to be there.
    assert_eq!(books.lease(job, Zone::Iteration, &[6]), (1, 1, 1));
}

#[test]
fn pages_whose_mappings_change_are_pinned_until_the_order_is_settled() {
    let mut books = Books::new(4);
    let job = books.join("a");
    let order = books.ask(job, Zone::Iteration, &[0]).ok().unwrap();
    assert_eq!(books.ledger.pinned, 1);
    assert!(books.is_denied(job, Zone::Iteration, &[0]), "another thread has it in hand");
    books.woken();
    books.settle(job, Zone::Iteration, &order);
    assert_eq!(books.ledger.pinned, 0);
    assert!(books.woken(), "the other one was refused because of the pin");
}

#[test]
fn an_order_that_fails_is_taken_back_as_far_as_it_has_come() {
    for (unmapped, created, mapped) in [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 2, 1)] {
        let mut books = Books::new(3);
        let job = books.join("a");
        books.lease(job, Zone::Iteration, &[0]);
        books.give_for_good(job, Zone::Iteration, &[0]);
        // The region of page 0 goes to page 5: page 0 has to be mapped anew.
        books.lease(job, Zone::Iteration, &[5]);
        let order = books.ask(job, Zone::Iteration, &[0, 1]).ok().unwrap();
        assert_eq!((order.unmap.len(), order.create.len(), order.map.len()), (1, 2, 2));
        books.woken();
        let done = Done { unmapped, created, mapped };
        books.ledger.settle(job, Zone::Iteration, &order, &done, books.now);
        assert_eq!(books.state(), (2, 1, 0), "both are free again");
        assert_eq!(books.ledger.created(), 1 + created);
        assert_eq!((books.ledger.pinned, books.woken()), (0, true));
        let again = books.lease(job, Zone::Iteration, &[0, 1]);
        assert_eq!(again, (1 - unmapped, 2 - created, 2 - mapped), "and what was done is kept");
    }
}

#[test]
fn what_drained_drains_again_when_its_lease_is_taken_back() {
    let mut books = Books::new(2);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0]);
    books.give(job, Zone::Iteration, &[0]);
    books.fence(job);
    // Its own, at another page: work on its stream runs in order.
    let order = books.ask(job, Zone::Iteration, &[3]).ok().unwrap();
    assert_eq!((order.create.len(), books.state()), (0, (1, 1, 0)));
    books.ledger.settle(job, Zone::Iteration, &order, &Done::default(), books.now);
    assert_eq!(books.state(), (1, 0, 1));
    assert_eq!(books.ledger.completed(job, 1, books.now), Some(true));
    assert_eq!(books.state(), (1, 0, 1), "it drains under a later fence");
    assert_eq!(books.fence(job), Some(2));
    assert_eq!(books.ledger.completed(job, 2, books.now), Some(true));
    assert_eq!(books.state(), (2, 0, 0));
}

/// Own idle, own draining, absent, other jobs' idle: memory is created for a job only when it uses
/// all that it has.
#[test]
fn regions_are_chosen_in_order() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(two, Zone::Iteration, &[0]);
    books.give_for_good(two, Zone::Iteration, &[0]);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.give_for_good(one, Zone::Iteration, &[0]);
    books.give(one, Zone::Iteration, &[1]);
    // One region idle that was b's, one idle and one draining of a, one absent.
    assert_eq!((books.state(), books.ledger.created()), ((3, 0, 1), 3));
    assert_eq!(books.lease(one, Zone::Iteration, &[10]), (0, 0, 1), "its own idle one");
    assert_eq!(books.state(), (2, 1, 1));
    assert_eq!(books.lease(one, Zone::Iteration, &[11]), (0, 0, 1), "what drains");
    assert_eq!(books.state(), (2, 2, 0));
    assert_eq!(books.lease(one, Zone::Iteration, &[12]), (0, 1, 1), "a new one");
    assert_eq!(books.lease(one, Zone::Iteration, &[13]), (0, 0, 1), "another job's");
    assert_eq!(books.state(), (0, 4, 0));
}

/// The page that was given up last is mostly the next to be needed again.
#[test]
fn what_was_given_up_first_goes_to_another_page_first() {
    let mut books = Books::new(3);
    let job = books.join("a");
    books.lease(job, Zone::Iteration, &[0, 1, 2]);
    for page in [0, 1] {
        books.give(job, Zone::Iteration, &[page]);
        books.fence(job);
    }
    books.give(job, Zone::Iteration, &[2]);
    assert_eq!(books.lease(job, Zone::Iteration, &[3]), (0, 0, 1));
    assert_eq!(books.lease(job, Zone::Iteration, &[1, 2]), (0, 0, 0), "they have theirs still");
    // The open batch comes after all that is fenced.
    books.give(job, Zone::Iteration, &[1]);
    books.fence(job);
    books.give(job, Zone::Iteration, &[2]);
    assert_eq!(books.lease(job, Zone::Iteration, &[4]), (0, 0, 1));
    assert_eq!(books.lease(job, Zone::Iteration, &[2]), (0, 0, 0), "it has its own still");
}

#[test]
fn an_isolated_region_leaves_the_addresses_of_other_jobs() {
    for (hand_over, unmapped) in [(HandOver::Fenced, 0), (HandOver::Isolated, 1)] {
        let mut books = Books::under(1, Always, hand_over);
        let (one, two) = (books.join("a"), books.join("b"));
        books.lease(one, Zone::Iteration, &[0]);
        books.give_for_good(one, Zone::Iteration, &[0]);
        assert_eq!(books.lease(two, Zone::Iteration, &[0]), (unmapped, 0, 1), "{hand_over:?}");
        books.give_for_good(two, Zone::Iteration, &[0]);
        let calls = (unmapped, 0, unmapped);
        assert_eq!(books.lease(one, Zone::Iteration, &[0]), calls, "{hand_over:?}");
    }
}

#[test]
fn a_region_that_is_mapped_at_two_pages_of_a_lease_backs_one_of_them() {
    let mut books = Books::new(2);
    let job = books.join("a");
    for page in [0, 1] {
        // The mapping at the other page stays.
        let created = usize::from(page == 0);
        assert_eq!(books.lease(job, Zone::Iteration, &[page]), (0, created, 1));
        books.give_for_good(job, Zone::Iteration, &[page]);
    }
    assert_eq!(books.lease(job, Zone::Iteration, &[0, 1]), (1, 1, 1));
    assert_eq!(books.state(), (0, 2, 0));
}

#[test]
fn a_page_whose_old_mapping_may_be_in_use_waits() {
    let mut books = Books::new(2);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Iteration, &[0]);
    books.give(one, Zone::Iteration, &[0]);
    books.lease(one, Zone::Iteration, &[1]);
    assert_eq!(books.lease(two, Zone::Iteration, &[0]), (0, 1, 1));
    books.give_for_good(two, Zone::Iteration, &[0]);
    // Work may still use page 0, whose region is at page 1 now.
    assert!(books.is_denied(one, Zone::Iteration, &[0]));
}

#[test]
fn the_banker_keeps_what_running_iterations_need() {
    let mut books = Books::new(11);
    let (one, two) = (books.join("a"), books.join("b"));
    for _ in 0..4 {
        books.iterate(one, 8);
        books.iterate(two, 8);
    }
    books.start(one);
    books.start(two);
    let low: Vec<u64> = (0..2).collect();
    books.lease(one, Zone::Iteration, &low);
    books.lease(two, Zone::Iteration, &low);
    let ahead = |books: &Books, job| books.ledger.accounts[&job].ahead();
    assert_eq!(
        (ahead(&books, one), ahead(&books, two)),
        (Some(9), Some(9)),
        "with a margin of one"
    );
    // With 7 left one of them can finish; not if both have one more.
    books.lease(one, Zone::Iteration, &[2]);
    assert!(books.is_denied(two, Zone::Iteration, &[2]));
    books.lease(one, Zone::Iteration, &(3..8).collect::<Vec<u64>>());
    books.give_for_good(one, Zone::Iteration, &(0..8).collect::<Vec<u64>>());
    books.end(one);
    books.lease(two, Zone::Iteration, &(2..8).collect::<Vec<u64>>());
}
