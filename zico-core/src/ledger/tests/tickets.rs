//! Return tickets: who goes to the host, what others may have meanwhile, who comes back.

use alloc::string::ToString;

use super::*;
use crate::types::error::NotSuspended;
use crate::types::report::Activity;
use crate::types::waits::Awaited;

impl Books {
    /// A job goes to the host, and the device has made the copies.
    pub(super) fn go(&mut self, job: JobKey) -> usize {
        let pages = self.set_off(job);
        self.send(job, &pages);
        self.ledger.gone(job, self.now);
        if let Some(batch) = self.fence(job) {
            assert_eq!(self.ledger.completed(job, batch, self.now), Some(true));
        }
        pages.len()
    }

    pub(super) fn set_off(&mut self, job: JobKey) -> Vec<(Zone, u64)> {
        self.ledger.suspend(job).unwrap();
        let (mut pages, mut from) = (Vec::new(), Some((0, 0)));
        while let Some(next) = from {
            from = self.ledger.leased_pages(job, next, &mut pages);
        }
        pages
    }

    pub(super) fn send(&mut self, job: JobKey, pages: &[(Zone, u64)]) {
        for &(zone, page) in pages {
            self.ledger.send(job, zone, [page], self.now);
        }
    }

    pub(super) fn may_return(&mut self, job: JobKey) -> bool {
        self.ledger.ask_to_return(job).unwrap()
    }

    /// The pages of a job that may come back do. Whether there were regions for them.
    pub(super) fn come_back(&mut self, job: JobKey, zone: Zone, pages: &[u64]) -> bool {
        let order = self.ledger.lease_back(job, zone, pages, self.now);
        if let Some(order) = &order {
            self.settle(job, zone, order);
        }
        order.is_some()
    }

    pub(super) fn activity(&self, job: JobKey) -> Activity {
        self.ledger.job(job).unwrap().activity
    }
}

#[test]
fn what_could_not_be_mapped_is_still_on_the_host() {
    let mut books = Books::under(4, Always, HandOver::Isolated);
    let (job, other) = (books.join("a"), books.join("b"));
    books.lease(job, Zone::Persistent, &[0, 1, 2]);
    assert_eq!(books.go(job), 3);
    books.start(other);
    books.lease(other, Zone::Iteration, &[0, 1, 2, 3]);
    books.give_for_good(other, Zone::Iteration, &[0, 1, 2, 3]);
    books.end(other);
    assert!(books.may_return(job));
    let order = books.ledger.lease_back(job, Zone::Persistent, &[0, 1, 2], books.now).unwrap();
    assert!(!order.is_empty());
    books.ledger.settle(job, Zone::Persistent, &order, &Done::default(), books.now);
    assert_eq!(books.ledger.away_of(job, Zone::Persistent), 3);
    assert!(books.come_back(job, Zone::Persistent, &[0, 1, 2]));
    assert_eq!(books.ledger.away_of(job, Zone::Persistent), 0);
}

#[test]
fn others_have_the_room_of_a_job_on_the_host_but_not_for_good() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2, 3]);
    books.lease(one, Zone::Iteration, &[0, 1]);
    books.lease(two, Zone::Persistent, &[0, 1]);
    assert_eq!(books.go(one), 6);
    assert_eq!(books.state(), (8, 2, 0));
    assert_eq!(books.activity(one), Activity::Suspended);
    assert!(matches!(books.begin(one), Err(BeginError::Suspended)));
    // An iteration may have all of it ...
    books.start(two);
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(!books.may_return(one), "an iteration has its room");
    let waits = books.ledger.waits();
    assert_eq!(waits[0].awaited, Awaited::Return(Bytes::mib(6)));
    assert_eq!(waits[0].blockers.len(), 1);
    books.give_for_good(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7]);
    books.end(two);
    // ... and is over.
    assert!(books.may_return(one), "it waited, and has been let in");
    assert!(books.come_back(one, Zone::Persistent, &[0, 1, 2, 3]));
    assert!(books.come_back(one, Zone::Iteration, &[0, 1]));
    books.ledger.is_back(one, books.now);
    assert_eq!((books.state(), books.activity(one)), ((2, 8, 0), Activity::Idle));
    books.start(one);
}

#[test]
fn what_stays_leaves_room_for_those_on_the_host() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2, 3, 4, 5]);
    books.lease(two, Zone::Persistent, &[0, 1]);
    books.go(one);
    books.lease(two, Zone::Persistent, &[2, 3]);
    for told in [Told::ByTheJob, Told::Learned, Told::Guessed { wave: false }] {
        let denied = books.ask_told(two, Zone::Persistent, &[4], told, false);
        let Err(Denied::Never(why)) = denied else { panic!("{told:?}") };
        assert_eq!(why.shortage.suspended, Bytes::mib(6));
        assert!(why.to_string().contains("6 MiB to come back from the host"), "{why}");
    }
    // Nor can a floor be reserved, or the budget be lowered.
    assert!(books.try_join(JobConfig::new("c").floor(PAGE)).is_none());
    assert!(books.ledger.set_target(Bytes::mib(9), Bytes::mib(10)).is_err());
    assert!(books.may_return(one));
    assert!(books.come_back(one, Zone::Persistent, &[0, 1, 2, 3, 4, 5]));
    books.ledger.is_back(one, books.now);
    assert_eq!(books.state(), (0, 10, 0));
}

#[test]
fn what_an_iteration_began_with_hides_nothing_that_stays() {
    for told in [Told::ByTheJob, Told::Learned] {
        let mut books = Books::new(8);
        let (one, two) = (books.join("a"), books.join("b"));
        books.lease(one, Zone::Iteration, &[0, 1, 2, 3, 4, 5, 6, 7]);
        books.go(one);
        // It may keep that for a while, but there is no room for anything that stays.
        books.lease(two, Zone::Iteration, &[4, 5]);
        (0..2).for_each(|_| books.iterate(two, 1));
        books.start(two);
        let denied = books.ask_told(two, Zone::Persistent, &[0], told, false);
        assert!(matches!(denied, Err(Denied::Never(_))), "{told:?}");
        books.give_for_good(two, Zone::Iteration, &[4, 5]);
        books.end(two);
        assert!(books.may_return(one), "{told:?}");
    }
}

#[test]
fn what_is_reserved_may_be_kept_whatever_others_begin_with() {
    let mut books = Books::new(8);
    let one = books.join("a");
    let two = books.try_join(JobConfig::new("b").floor(Bytes::mib(2))).unwrap();
    let three = books.join("c");
    books.lease(one, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    books.go(one);
    books.lease(three, Zone::Iteration, &[4]);
    (0..2).for_each(|_| books.iterate(three, 1));
    books.lease(two, Zone::Persistent, &[0, 1]);
    assert!(matches!(books.ask(two, Zone::Persistent, &[2]), Err(Denied::Never(_))));
}

#[test]
fn what_comes_again_in_each_iteration_is_kept_free_too() {
    let mut books = Books::new(8);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(two, Zone::Persistent, &[0]);
    for _ in 0..4 {
        // Gradients: they persist until the next iteration begins.
        books.start(two);
        let order = books.ask_told(two, Zone::Persistent, &[1, 2], Told::Learned, false);
        books.settle(two, Zone::Persistent, &order.ok().unwrap());
        books.tick(two);
        books.end(two);
        books.give_for_good(two, Zone::Persistent, &[1, 2]);
    }
    books.lease(one, Zone::Persistent, &[0, 1, 2, 3, 4]);
    books.start(two);
    // Three that the other holds at its peak, and these.
    assert_eq!(books.go(one), 5);
    let third = books.join("c");
    let taken = books.ask(third, Zone::Persistent, &[0]);
    assert!(matches!(taken, Err(Denied::Never(_))), "the running iteration comes to have it");
    let grown = books.ask_told(two, Zone::Persistent, &[1, 2], Told::Learned, false);
    assert!(grown.is_ok(), "as in each iteration");
    let more = books.ask_told(two, Zone::Persistent, &[3], Told::Learned, false);
    assert!(matches!(more, Err(Denied::Never(_))));
}

#[test]
fn a_ticket_that_cannot_be_had_is_refused_with_its_figures() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join("b"));
    books.start(two);
    books.lease(two, Zone::Persistent, &[0, 1, 2, 3]);
    books.end(two);
    books.lease(one, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(books.go(one), 6);
    books.ledger.give_back(two, Zone::Persistent, [0, 1, 2].into_iter());
    books.fence(two).into_iter().for_each(|batch| {
        books.ledger.completed(two, batch, books.now);
    });
    books.start(two);
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    books.end(two);
    // The six that it holds between its iterations are not kept for good; on the host they would be.
    let refused = books.ledger.suspend(two);
    let Err(NotSuspended::NoTicket(why)) = refused else { panic!("{refused:?}") };
    assert_eq!((why.held, why.kept_by_others), (Bytes::mib(7), Bytes::mib(6)));
    assert!(!books.may_return(one), "and it waits for them");
    books.give_for_good(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    assert!(books.may_return(one));
}

#[test]
fn only_a_job_between_iterations_goes() {
    let mut books = Books::new(4);
    let job = books.join("a");
    books.lease(job, Zone::Persistent, &[0]);
    books.start(job);
    assert_eq!(books.ledger.suspend(job), Err(NotSuspended::InIteration));
    books.end(job);
    assert_eq!(books.ledger.suspend(99), Err(NotSuspended::Left));
    assert_eq!(books.ledger.ask_to_return(99), Err(NotSuspended::Left));
    assert!(books.may_return(job), "it is here");
}

#[test]
fn nothing_drains_before_the_copies_and_all_stays_if_they_fail() {
    let mut books = Books::new(6);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1]);
    books.lease(one, Zone::Iteration, &[5]);
    let pages = books.set_off(one);
    assert_eq!(pages, [(Zone::Persistent, 0), (Zone::Persistent, 1), (Zone::Iteration, 5)]);
    assert_eq!(books.activity(one), Activity::Suspended);
    assert!(books.ledger.due().is_empty() && books.fence(one).is_none());
    // Until it has gone, it has its room.
    books.lease(two, Zone::Persistent, &[0, 1, 2]);
    assert!(books.ask(two, Zone::Persistent, &[3]).is_err());
    books.ledger.stay(one);
    assert_eq!((books.state(), books.activity(one)), ((0, 6, 0), Activity::Idle));
}

/// D71.
#[test]
fn a_ticket_holds_from_when_a_job_begins_to_go() {
    let mut books = Books::new(8);
    let floor = JobConfig::new("a").floor(Bytes::mib(2));
    let (_, one, two) = (books.try_join(floor).unwrap(), books.join("b"), books.join("c"));
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    // Its iteration may take whatever there is, so that the lower budget does not hold at once.
    books.start(two);
    books.ledger.set_target(Bytes::mib(5), Bytes::mib(8)).unwrap();
    books.set_off(one);
    for told in [Told::ByTheJob, Told::Learned, Told::Guessed { wave: false }] {
        let asked = books.ask_told(two, Zone::Persistent, &[0], told, false);
        assert!(matches!(asked, Err(Denied::Never(_))), "{told:?}");
    }
    assert!(books.try_join(JobConfig::new("d").floor(PAGE)).is_none());
    books.lease(two, Zone::Iteration, &[0]);
}

#[test]
fn what_has_been_copied_is_free_while_the_rest_is_copied() {
    let mut books = Books::new(6);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2, 3]);
    let pages = books.set_off(one);
    books.send(one, &pages[..2]);
    let first = books.fence(one).unwrap();
    books.ledger.completed(one, first, books.now);
    // Its room is still its own: it has not gone.
    books.start(two);
    assert_eq!(books.state(), (4, 2, 0));
    assert!(books.ask(two, Zone::Iteration, &[0, 1, 2]).is_err());
    books.send(one, &pages[2..]);
    books.ledger.gone(one, books.now);
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3]);
    assert!(books.ask(two, Zone::Iteration, &[4]).is_err(), "the rest is being copied");
    let second = books.fence(one).unwrap();
    books.ledger.completed(one, second, books.now);
    books.lease(two, Zone::Iteration, &[4, 5]);
}

#[test]
fn the_room_of_one_that_comes_back_is_its_own() {
    let mut books = Books::new(6);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    books.go(one);
    books.start(two);
    books.lease(two, Zone::Iteration, &[0, 1, 2]);
    books.give(two, Zone::Iteration, &[0, 1, 2]);
    let batch = books.fence(two).unwrap();
    books.end(two);
    assert!(books.may_return(one));
    // It asks while regions drain, and others get none of what it is to have.
    assert!(books.come_back(one, Zone::Persistent, &[0, 1]));
    books.start(two);
    assert!(books.ask(two, Zone::Iteration, &[0, 1, 2, 3]).is_err());
    books.ledger.completed(two, batch, books.now);
    // The device fails at the third: it is away still, and its room is kept.
    let order = books.ledger.lease_back(one, Zone::Persistent, &[2], books.now).unwrap();
    books.ledger.settle(one, Zone::Persistent, &order, &Done::default(), books.now);
    assert_eq!(books.activity(one), Activity::Suspended);
    assert!(books.come_back(one, Zone::Persistent, &[2]));
    // So with one whose contents could not be copied.
    books.send(one, &[(Zone::Persistent, 2)]);
    assert!(books.come_back(one, Zone::Persistent, &[2]), "its own that drains");
    books.ledger.is_back(one, books.now);
    assert_eq!(books.activity(one), Activity::Idle);
}

#[test]
fn one_that_does_not_come_is_not_waited_for() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    books.go(one);
    assert!(books.may_return(one));
    books.start(two);
    assert!(books.ask(two, Zone::Iteration, &[0, 1]).is_err(), "its room is kept");
    books.ledger.look(books.now);
    books.now = books.now.saturating_add(Ticks::new(1001));
    books.woken();
    books.ledger.look(books.now);
    assert!(books.woken());
    books.lease(two, Zone::Iteration, &[0, 1]);
    assert!(!books.come_back(one, Zone::Persistent, &[0, 1, 2]), "it has to ask again");
    assert!(!books.may_return(one));
    // One that no longer wants to waits no longer.
    books.ledger.withdraw(one);
    assert!(books.ledger.waits().is_empty());
}

#[test]
fn a_job_that_leaves_gives_up_its_ticket() {
    let mut books = Books::new(4);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    books.go(one);
    assert!(books.ask(two, Zone::Persistent, &[0, 1]).is_err());
    assert!(books.ledger.leave(one, books.now));
    books.ledger.left(one);
    assert!(!books.ledger.knows(one));
    books.lease(two, Zone::Persistent, &[0, 1, 2, 3]);
}

#[test]
fn an_iteration_of_which_nothing_is_known_ends_before_a_job_comes_back() {
    let mut books = Books::new(6);
    let (one, two) = (books.join("a"), books.join("b"));
    books.lease(one, Zone::Persistent, &[0, 1]);
    books.go(one);
    books.start(two);
    books.lease(two, Zone::Iteration, &[0]);
    assert!(!books.may_return(one), "it may come to need all there is");
    books.lease(two, Zone::Iteration, &[1, 2, 3, 4, 5]);
    books.give_for_good(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    books.end(two);
    assert!(books.may_return(one));
}

/// D65: who has used a job's room meanwhile may have its own memory again before the device has
/// passed its use. Two by turns always had, and the one that was to come back found none free.
#[test]
fn nothing_starts_that_would_have_again_what_a_job_comes_back_to() {
    let mut books = Books::new(10);
    let (one, two, three) = (books.join("a"), books.join("b"), books.join("c"));
    books.lease(one, Zone::Persistent, &[0, 1, 2, 3]);
    for (job, pages) in [(two, 6), (three, 4)] {
        (0..3).for_each(|_| books.iterate(job, pages));
    }
    books.go(one);
    let [_, batch] = [(two, 6), (three, 4)].map(|(job, pages)| {
        let pages: Vec<u64> = (0..pages).collect();
        books.start(job);
        books.lease(job, Zone::Iteration, &pages);
        books.give(job, Zone::Iteration, &pages);
        let batch = books.fence(job).unwrap();
        books.end(job);
        batch
    });
    assert!(books.may_return(one), "there is room for it");
    assert!(!books.come_back(one, Zone::Persistent, &[0, 1, 2, 3]), "which drains");
    assert!(matches!(books.begin(two), Ok(Begin::Wait(_))));
    books.woken();
    assert_eq!(books.ledger.completed(three, batch, books.now), Some(true));
    assert!(books.woken());
    books.start(two);
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3, 4, 5]);
    assert!(books.come_back(one, Zone::Persistent, &[0, 1, 2, 3]));
}
