//! Preemptible jobs: who is called upon to give way, when, and for whom.

use super::*;
use crate::ledger::Use;
use crate::types::error::{BudgetError, NotSuspended};
use crate::types::report::Activity;

pub(super) const SLICE: Ticks = Ticks::new(100);

impl Books {
    pub(super) fn join_turns(&mut self, name: &str, priority: i32) -> JobKey {
        self.try_join(JobConfig::new(name).priority(priority).preemptible(SLICE)).unwrap()
    }

    /// So much time goes by, and somebody looks.
    pub(super) fn go_by(&mut self, ticks: Ticks) {
        self.now = self.now.saturating_add(ticks);
        self.ledger.look(self.now);
    }

    /// A job comes back with these pages of what persists, if it may.
    pub(super) fn is_brought_back(&mut self, job: JobKey, pages: &[u64]) -> bool {
        if !self.may_return(job) {
            return false;
        }
        assert!(self.come_back(job, Zone::Persistent, pages));
        self.ledger.is_back(job, self.now);
        true
    }

    /// An iteration of a job that takes one page beside what it keeps.
    fn step(&mut self, job: JobKey) {
        self.iterate(job, 2);
    }
}

const SIX: [u64; 6] = [0, 1, 2, 3, 4, 5];

/// Two jobs, each of which keeps six of ten regions: the second one is on the device.
fn two_of_six(books: &mut Books) -> (JobKey, JobKey) {
    let (one, two) = (books.join_turns("a", 0), books.join_turns("b", 0));
    books.lease(one, Zone::Persistent, &SIX);
    books.step(one);
    books.go_by(SLICE);
    assert!(books.is_denied(two, Zone::Persistent, &SIX), "it waits for the other one to go");
    assert_eq!(books.ledger.called(), [one]);
    assert_eq!(books.go(one), 6);
    books.lease(two, Zone::Persistent, &SIX);
    (one, two)
}

#[test]
fn jobs_that_keep_more_than_the_budget_take_turns() {
    let mut books = Books::new(10);
    let (mut away, mut here) = two_of_six(&mut books);
    for _ in 0..4 {
        assert!(!books.is_brought_back(away, &SIX));
        // Its turn is an iteration ...
        books.go_by(SLICE);
        assert_eq!(books.ledger.called(), []);
        books.step(here);
        // ... and a slice: which is over, as it came before.
        assert_eq!(books.ledger.called(), [here]);
        assert_eq!(books.begin(here), Ok(Begin::Wait(None)), "it gives way first");
        assert_eq!(books.go(here), 6);
        assert!(matches!(books.begin(here), Err(BeginError::Suspended)));
        assert!(books.is_brought_back(away, &SIX));
        (away, here) = (here, away);
    }
}

/// What a job begins with, and has left again each time, may come to more beside another one's turn
/// than there is, once that is on the host.
#[test]
fn a_budget_that_is_no_lower_than_before_is_not_refused() {
    let mut books = Books::new(10);
    let (away, here) = (books.join_turns("a", 0), books.join("b"));
    books.lease(away, Zone::Persistent, &SIX);
    books.step(away);
    assert_eq!(books.go(away), 6);
    let left = &SIX[..5];
    for _ in 0..3 {
        books.start(here);
        books.ledger.give_back(here, Zone::Iteration, left.iter().copied());
        books.tick(here);
        books.lease(here, Zone::Iteration, left);
        books.end(here);
    }
    let capacity = Bytes::mib(16);
    let (asked, kept) = (Bytes::mib(9), Bytes::mib(11));
    let lower = books.ledger.set_target(asked, capacity);
    assert_eq!(lower, Err(BudgetError::BelowPersistent { asked, kept }));
    for asked in [10, 10, 11, 12] {
        assert_eq!(books.ledger.set_target(Bytes::mib(asked), capacity), Ok(()));
    }
}

#[test]
fn a_turn_lasts_for_a_slice() {
    let mut books = Books::new(10);
    let (away, here) = two_of_six(&mut books);
    let since = books.now;
    assert!(!books.is_brought_back(away, &SIX));
    books.step(here);
    books.step(here);
    assert_eq!(books.ledger.called(), []);
    let at = books.ledger.turns_at().unwrap();
    assert!(at <= since.saturating_add(SLICE) && at > books.now);
    books.go_by(at.saturating_sub(books.now));
    assert_eq!(books.ledger.called(), [here]);
    // Nobody is called upon where nobody waits.
    books.ledger.withdraw(away);
    assert_eq!(books.ledger.called(), []);
    books.step(here);
}

#[test]
fn one_that_does_nothing_has_others_patience() {
    let mut books = Books::new(10);
    let (away, here) = two_of_six(&mut books);
    assert!(!books.is_brought_back(away, &SIX));
    books.go_by(SLICE);
    assert_eq!(books.ledger.called(), [], "it has run no iteration yet");
    books.go_by(Ticks::new(1000));
    assert_eq!(books.ledger.called(), [here]);
}

#[test]
fn only_as_many_give_way_as_have_to() {
    let mut books = Books::new(10);
    let jobs: Vec<JobKey> = (0..4).map(|_| books.join_turns("a", 0)).collect();
    for (&job, pages) in jobs.iter().zip([1, 5, 2]) {
        books.lease(job, Zone::Persistent, &SIX[..pages]);
        books.step(job);
        books.go_by(Ticks::new(1));
    }
    books.go_by(SLICE);
    // Two are free. The first would go in vain, and the third, as the second one goes.
    assert!(books.is_denied(jobs[3], Zone::Persistent, &SIX));
    assert_eq!(books.ledger.called(), [jobs[1]]);
    books.go(jobs[1]);
    books.lease(jobs[3], Zone::Persistent, &SIX);
}

#[test]
fn a_higher_priority_does_not_wait_for_the_end_of_a_turn() {
    let mut books = Books::new(10);
    let (low, high) = (books.join_turns("low", 0), books.join("high"));
    let higher = books.try_join(JobConfig::new("higher").priority(1)).unwrap();
    books.lease(low, Zone::Persistent, &SIX);
    books.step(low);
    assert!(books.is_denied(high, Zone::Iteration, &SIX));
    assert_eq!(books.ledger.called(), []);
    books.ledger.leave(high, books.now);
    assert!(books.is_denied(higher, Zone::Iteration, &SIX));
    assert_eq!(books.ledger.called(), [low]);
    books.go(low);
    // While it runs iterations the other one stays away, though there is room between two.
    books.start(higher);
    books.lease(higher, Zone::Iteration, &SIX);
    books.give_for_good(higher, Zone::Iteration, &SIX);
    books.end(higher);
    assert!(!books.is_brought_back(low, &SIX));
    let at = books.ledger.turns_at().unwrap();
    assert_eq!(at, books.now.saturating_add(SLICE));
    books.go_by(SLICE.saturating_sub(Ticks::new(1)));
    assert!(!books.is_brought_back(low, &SIX));
    books.go_by(Ticks::new(1));
    assert!(books.is_brought_back(low, &SIX), "it has done nothing for a slice");
}

#[test]
fn one_of_the_same_priority_has_a_slice_before_the_other_comes_back() {
    let mut books = Books::new(10);
    let (one, two) = (books.join_turns("a", 0), books.join("b"));
    books.lease(one, Zone::Persistent, &SIX);
    books.step(one);
    books.go_by(SLICE);
    // It cannot be preempted, and begins and ends iterations that need what the other keeps.
    books.start(two);
    assert!(books.is_denied(two, Zone::Iteration, &SIX));
    books.go(one);
    let left = books.now;
    books.lease(two, Zone::Iteration, &SIX);
    books.give_for_good(two, Zone::Iteration, &SIX);
    books.end(two);
    assert!(!books.is_brought_back(one, &SIX), "the next iteration would have to wait for it");
    books.iterate(two, 6);
    books.go_by(SLICE.saturating_sub(books.now.saturating_sub(left)));
    assert!(books.is_brought_back(one, &SIX));
    // Then it has its own slice.
    assert_eq!(books.begin(two), Ok(Begin::Wait(None)));
    books.step(one);
    assert_eq!(books.ledger.called(), []);
    books.go_by(SLICE);
    assert_eq!(books.ledger.called(), [one]);
}

#[test]
fn what_stays_leaves_room_for_the_largest_of_those_that_take_turns() {
    let mut books = Books::new(10);
    let (away, here) = two_of_six(&mut books);
    let firm = books.join("c");
    // An iteration of the one on the host takes two beside what it keeps.
    books.lease(firm, Zone::Persistent, &[0, 1]);
    let denied = books.ask(firm, Zone::Persistent, &[2]);
    assert!(matches!(denied, Err(Denied::Never(_))), "it could come back, and not run");
    // A floor, a lower budget: the same.
    assert!(books.try_join(JobConfig::new("d").floor(Bytes::mib(3))).is_none());
    assert!(books.ledger.set_target(Bytes::mib(7), Bytes::mib(10)).is_err());
    assert!(books.ledger.set_target(Bytes::mib(8), Bytes::mib(10)).is_ok());
    // Nor can one of them grow beyond what the others leave.
    let denied = books.ask(here, Zone::Persistent, &[6]);
    assert!(matches!(denied, Err(Denied::Never(_))));
    assert_eq!(books.activity(away), Activity::Suspended);
}

#[test]
fn what_stays_leaves_room_for_one_that_has_run_no_iteration() {
    let mut books = Books::new(10);
    let (turns, firm) = (books.join_turns("a", 0), books.join("b"));
    books.lease(turns, Zone::Persistent, &SIX);
    books.lease(firm, Zone::Persistent, &[0, 1, 2, 3]);
    let denied = books.ask(firm, Zone::Persistent, &[4]);
    assert!(matches!(denied, Err(Denied::Never(_))), "it could go, and not come back");
}

#[test]
fn of_two_that_come_to_wait_for_each_other_the_first_goes_on() {
    let mut books = Books::new(10);
    let (one, two) = (books.join_turns("a", 0), books.join_turns("b", 0));
    // Neither has run an iteration: both are making what they keep.
    books.lease(one, Zone::Persistent, &SIX[..5]);
    books.lease(two, Zone::Persistent, &SIX[..5]);
    assert!(books.is_denied(two, Zone::Persistent, &[5]));
    assert_eq!(books.ledger.called(), [], "the other one may go on");
    assert!(books.is_denied(one, Zone::Persistent, &[5]));
    assert_eq!(books.ledger.called(), [two]);
    books.go(two);
    books.lease(one, Zone::Persistent, &[5]);
    assert!(!books.is_brought_back(two, &SIX[..5]));
    books.step(one);
    books.go_by(SLICE);
    assert_eq!(books.ledger.called(), [one]);
}

#[test]
fn one_that_cannot_go_is_not_waited_for() {
    let mut books = Books::new(10);
    let (one, two) = (books.join_turns("a", 0), books.join_turns("b", 0));
    books.lease(one, Zone::Persistent, &SIX);
    books.step(one);
    books.go_by(SLICE);
    let told = Told::ByTheJob;
    assert!(books.ask_told(two, Zone::Persistent, &SIX, told, true).is_err());
    assert_eq!(books.ledger.called(), [one]);
    // The host has no memory for it.
    books.ledger.spare(one, books.now);
    assert_eq!(books.ledger.called(), []);
    let denied = books.ask_told(two, Zone::Persistent, &SIX, told, true);
    assert!(matches!(denied, Err(Denied::Never(_))), "nothing can go on");
}

#[test]
fn turns_cost_nothing_where_all_keep_less_than_there_is() {
    let mut books = Books::new(10);
    let (one, two) = (books.join_turns("a", 0), books.join_turns("b", 0));
    for job in [one, two] {
        books.lease(job, Zone::Persistent, &SIX[..3]);
    }
    for _ in 0..3 {
        books.iterate(one, 4);
        books.iterate(two, 4);
        books.go_by(SLICE);
    }
    // One waits for the other's iteration to end: nobody goes anywhere.
    books.start(one);
    books.lease(one, Zone::Iteration, &[0, 1, 2, 3]);
    books.start(two);
    assert!(books.is_denied(two, Zone::Iteration, &[0, 1]));
    books.go_by(SLICE);
    assert_eq!((books.ledger.called(), books.ledger.turns_at()), (Vec::new(), None));
    books.give_for_good(one, Zone::Iteration, &[0, 1, 2, 3]);
    books.end(one);
    books.lease(two, Zone::Iteration, &[0, 1]);
    assert_eq!((books.ledger.called(), books.ledger.turns_at()), (Vec::new(), None));
}

#[test]
fn small_ones_that_come_and_go_do_not_keep_a_large_one_away() {
    let mut books = Books::new(10);
    let [large, one, two] = [(); 3].map(|()| books.join_turns("a", 0));
    let pages: Vec<u64> = (0..8).collect();
    books.lease(large, Zone::Persistent, &pages);
    books.step(large);
    books.go_by(SLICE);
    assert!(books.is_denied(one, Zone::Persistent, &pages[..3]));
    books.go(large);
    books.lease(one, Zone::Persistent, &pages[..3]);
    books.lease(two, Zone::Persistent, &pages[..3]);
    // The one of them runs while the other one is between two iterations, always.
    books.iterate(two, 2);
    books.iterate(one, 2);
    books.go_by(SLICE);
    books.start(one);
    assert!(!books.is_brought_back(large, &pages));
    assert_eq!(books.ledger.called(), [two], "the other one follows");
    books.go(two);
    assert!(!books.is_brought_back(two, &pages[..3]), "there is room, for one that came first");
    books.end(one);
    assert_eq!(books.begin(one), Ok(Begin::Wait(None)));
    books.go(one);
    assert!(!books.is_brought_back(one, &pages[..3]));
    assert!(books.is_brought_back(large, &pages));
}

#[test]
fn one_for_which_others_have_made_way_has_a_slice_whoever_left_long_ago() {
    let mut books = Books::new(10);
    let [large, one, two] = [(); 3].map(|()| books.join_turns("a", 0));
    // Between its iterations there is room for another one beside it, and none while it runs.
    books.lease(large, Zone::Persistent, &[0, 1, 2]);
    books.iterate(large, 5);
    for small in [one, two] {
        books.lease(small, Zone::Persistent, &[0, 1]);
        books.iterate(small, 1);
    }
    books.go_by(SLICE);
    assert_eq!(books.begin(large), Ok(Begin::Wait(None)));
    assert_eq!(books.ledger.called(), [one], "it is enough that one goes");
    books.go(one);
    books.iterate(large, 5);
    books.go_by(SLICE);
    assert!(books.is_brought_back(one, &[0, 1]), "the slice is over");
    books.iterate(one, 1);
    assert_eq!(books.begin(large), Ok(Begin::Wait(None)));
    assert_eq!(books.ledger.called(), [two], "its turn is the oldest");
    books.go(two);
    books.go_by(SLICE);
    books.iterate(large, 5);
    // It left a slice ago. But the large one has just begun.
    assert!(!books.is_brought_back(two, &[0, 1]));
    books.iterate(large, 5);
    books.go_by(SLICE);
    assert!(books.is_brought_back(two, &[0, 1]));
}

#[test]
fn an_iteration_that_waits_for_memory_does_not_wait_for_one_that_waits_for_its_end() {
    let mut books = Books::new(10);
    let (one, two) = (books.join("a"), books.join_turns("b", 0));
    books.lease(two, Zone::Persistent, &SIX);
    // Nobody knows what an iteration of either takes, and the other one has run none.
    books.start(one);
    assert!(books.is_denied(one, Zone::Iteration, &SIX));
    assert_eq!(books.ledger.called(), []);
    books.go_by(SLICE);
    assert_eq!(books.ledger.called(), [two]);
}

/// As they may after a broker that has been told little of them: a turn that would be over when its
/// iteration ends is nothing to wait for.
#[test]
fn iterations_that_wait_for_each_other_do_not_wait_for_the_end_of_their_turns() {
    let mut books = Books::new(10);
    let jobs = [books.join_turns("a", 0), books.join_turns("b", 0)];
    let away = books.join_turns("c", 0);
    for (number, job) in jobs.into_iter().enumerate() {
        for page in 0..5 {
            let region = number * 5 + page;
            let zone = if page < 3 { Zone::Persistent } else { Zone::Iteration };
            let at = Place { job, zone, page: page as u64 };
            assert!(books.ledger.adopt_memory(region, 0));
            assert!(books.ledger.adopt(job, region, Some(at), Use::Leased(at)));
        }
        books.ledger.resume(job, true, Some(2), books.now);
    }
    books.ledger.adopt_away(away, Zone::Persistent, 3, false);
    books.ledger.resume(away, false, None, books.now);
    assert!(!books.may_return(away));
    let more = [6];
    assert!(jobs.into_iter().all(|job| books.is_denied(job, Zone::Iteration, &more)));
    let fails = |job| {
        let told = books.ask_told(job, Zone::Iteration, &more, Told::ByTheJob, true);
        matches!(told, Err(Denied::Never(_)))
    };
    assert!(jobs.into_iter().any(fails), "one of them is out of memory");
}

/// Whoever waits or does not: it goes, has its ticket, and stays until somebody says otherwise.
#[test]
fn a_job_that_is_held_stays_on_the_host() {
    let mut books = Books::new(10);
    let (held, other) = (books.join_turns("a", 0), books.join("b"));
    books.lease(held, Zone::Persistent, &SIX);
    assert_eq!(books.ledger.hold(other, true), Err(NotSuspended::NotPreemptible));
    assert_eq!(books.ledger.hold(99, true), Err(NotSuspended::Left));
    books.start(held);
    books.ledger.hold(held, true).unwrap();
    assert_eq!(books.ledger.called(), [], "its iteration ends first");
    books.end(held);
    assert_eq!(books.ledger.called(), [held]);
    assert_eq!(books.begin(held), Ok(Begin::Wait(None)));
    assert_eq!(books.go(held), 6);
    assert_eq!(books.ledger.called(), []);
    // It asks to come back, and is in nobody's way.
    for _ in 0..3 {
        assert!(!books.may_return(held));
        books.iterate(other, 4);
        books.go_by(SLICE);
    }
    // Its room is kept for it all the same.
    let denied = books.ask_told(other, Zone::Persistent, &SIX, Told::ByTheJob, true);
    assert!(matches!(denied, Err(Denied::Never(_))));
    books.ledger.hold(held, false).unwrap();
    assert!(books.is_brought_back(held, &SIX));
    books.step(held);
}

/// One that waits for others to give way is not called upon to make room for them, nor they for it.
#[test]
fn one_that_is_held_takes_no_turn() {
    let mut books = Books::new(10);
    let (away, here) = two_of_six(&mut books);
    books.ledger.hold(away, true).unwrap();
    assert!(!books.is_brought_back(away, &SIX));
    books.step(here);
    books.go_by(SLICE);
    books.step(here);
    assert_eq!((books.ledger.called(), books.ledger.turns_at()), (Vec::new(), None));
    // Both are: one after the other has the device again.
    books.ledger.hold(here, true).unwrap();
    assert_eq!(books.go(here), 6);
    assert!(!books.may_return(away) && !books.may_return(here));
    books.ledger.hold(away, false).unwrap();
    assert!(books.is_brought_back(away, &SIX));
    books.step(away);
    books.go_by(SLICE);
    books.step(away);
    assert_eq!(books.ledger.called(), []);
}

/// What it has not freed by then would have to come back with the rest.
#[test]
fn one_that_could_not_come_back_is_not_held() {
    let mut books = Books::new(10);
    let (far, one) = (books.join("far"), books.join_turns("a", 0));
    books.lease(far, Zone::Persistent, &SIX);
    assert_eq!(books.go(far), 6);
    books.lease(one, Zone::Persistent, &SIX[..3]);
    books.start(one);
    books.lease(one, Zone::Iteration, &SIX[..3]);
    books.end(one);
    let refused = books.ledger.hold(one, true);
    let Err(NotSuspended::NoTicket(why)) = refused else { panic!("{refused:?}") };
    assert_eq!((why.held, why.kept_by_others), (Bytes::mib(6), Bytes::mib(6)));
    books.give_for_good(one, Zone::Iteration, &SIX[..3]);
    books.ledger.hold(one, true).unwrap();
    assert_eq!(books.go(one), 3);
}

/// Who waits is told that nothing can go on, as if nobody had said that it is to go.
#[test]
fn one_that_is_held_and_cannot_go_is_not_waited_for() {
    let mut books = Books::new(10);
    let (one, two) = (books.join_turns("a", 0), books.join_turns("b", 0));
    books.lease(one, Zone::Persistent, &SIX);
    books.step(one);
    books.ledger.hold(one, true).unwrap();
    let told = Told::ByTheJob;
    assert!(matches!(
        books.ask_told(two, Zone::Persistent, &SIX, told, true),
        Err(Denied::Busy(_))
    ));
    // The host has no memory for it.
    books.ledger.spare(one, books.now);
    let denied = books.ask_told(two, Zone::Persistent, &SIX, told, true);
    assert!(matches!(denied, Err(Denied::Never(_))));
}

/// Two jobs on the host, of which one keeps five of ten regions and takes two more in an iteration,
/// and the other one keeps four and has run none.
fn five_and_four(books: &mut Books, order: [usize; 2]) -> [JobKey; 2] {
    let jobs = [books.join_turns("a", 0), books.join_turns("b", 0)];
    let [five, four] = order.map(|at| jobs[at]);
    books.lease(five, Zone::Persistent, &SIX[..5]);
    (0..4).for_each(|_| books.iterate(five, 2));
    books.go(five);
    books.lease(four, Zone::Persistent, &SIX[..4]);
    books.go(four);
    // They have not been at their iterations lately.
    books.go_by(Ticks::new(10_000));
    [five, four]
}

/// Else each would wait for the other one, until others lose patience with both.
#[test]
fn of_two_that_have_come_and_cannot_go_on_the_second_gives_way() {
    for order in [[0, 1], [1, 0]] {
        let mut books = Books::new(10);
        let [five, four] = five_and_four(&mut books, order);
        assert!(books.is_brought_back(five, &SIX[..5]));
        books.go_by(SLICE);
        assert!(books.is_brought_back(four, &SIX[..4]));
        assert!(matches!(books.begin(five), Ok(Begin::Wait(_))));
        assert!(books.is_denied(four, Zone::Persistent, &[4, 5]));
        assert_eq!(books.ledger.called(), [four], "{order:?}");
    }
}

/// Else it would be sent away each time that it comes, by those that run.
#[test]
fn one_that_has_come_is_not_sent_away_by_one_that_has_had_its_turn() {
    for order in [[0, 1], [1, 0]] {
        let mut books = Books::new(10);
        let [five, four] = five_and_four(&mut books, order);
        assert!(books.is_brought_back(five, &SIX[..5]));
        books.iterate(five, 2);
        books.go_by(SLICE);
        assert!(books.is_brought_back(four, &SIX[..4]));
        assert!(books.is_denied(four, Zone::Persistent, &[4, 5]));
        let _ = books.begin(five);
        assert_eq!(books.ledger.called(), [five], "{order:?}");
    }
}

/// The same where the one that has had its turn asks first.
#[test]
fn one_that_has_come_gets_memory_before_one_that_has_had_its_turn() {
    for order in [[0, 1], [1, 0]] {
        let mut books = Books::new(10);
        let [five, four] = five_and_four(&mut books, order);
        assert!(books.is_brought_back(five, &SIX[..5]));
        books.iterate(five, 2);
        books.go_by(SLICE);
        assert!(books.is_brought_back(four, &SIX[..4]));
        assert!(books.is_denied(five, Zone::Persistent, &[5, 6]));
        assert!(books.is_denied(four, Zone::Persistent, &[4, 5]));
        assert_eq!(books.ledger.called(), [five], "{order:?}");
    }
}

/// Else both would come and neither could go on.
#[test]
fn one_does_not_come_beside_one_that_is_on_its_way_and_needs_its_room() {
    let mut books = Books::new(10);
    let [five, four] = five_and_four(&mut books, [0, 1]);
    assert!(books.may_return(five));
    assert!(!books.may_return(four), "the other one is to have its turn first");
    assert!(books.come_back(five, Zone::Persistent, &SIX[..5]));
    books.ledger.is_back(five, books.now);
    books.iterate(five, 2);
}
