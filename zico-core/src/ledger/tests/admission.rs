//! What keeps an iteration from starting, whatever the policy says, and whom that keeps as well.

use super::*;

const ARENA: Zone = Zone::Iteration;

/// Jobs in a pool of ten regions whose iterations take so many of them.
fn known<const N: usize>(mut books: Books, takes: [u64; N]) -> (Books, [JobKey; N]) {
    let jobs = takes.map(|pages| {
        let job = books.join("job");
        (0..3).for_each(|_| books.iterate(job, pages));
        job
    });
    (books, jobs)
}

fn waits(books: &mut Books, job: JobKey) -> bool {
    matches!(books.begin(job), Ok(Begin::Wait(_)))
}

#[test]
fn what_a_resting_job_keeps_is_waited_for_and_others_start_meanwhile() {
    let (mut books, [one, two, three]) = known(Books::new(10), [4, 8, 2]);
    books.lease(one, ARENA, &[0, 1, 2]);
    assert!(waits(&mut books, two), "8 beside 3");
    books.start(three);
    books.end(three);
    assert!(waits(&mut books, two));
    books.woken();
    books.give_for_good(one, ARENA, &[0, 1, 2]);
    assert!(books.woken());
    books.start(two);
}

#[test]
fn what_a_running_iteration_keeps_is_waited_for_and_nobody_goes_before() {
    let (mut books, [one, two, three]) = known(Books::new(10), [4, 8, 2]);
    // It was there before the iteration, which is not expected to free it.
    books.lease(one, ARENA, &[0, 1, 2]);
    books.start(one);
    assert!(waits(&mut books, two));
    assert!(waits(&mut books, three), "the first one would wait for it as well");
    books.give_for_good(one, ARENA, &[0, 1, 2]);
    books.end(one);
    books.start(two);
    books.start(three);
}

#[test]
fn of_those_that_keep_memory_and_wait_for_each_other_one_starts() {
    let (mut books, [one, two, three]) = known(Books::new(10), [8, 8, 8]);
    books.lease(one, ARENA, &[0, 1, 2, 3]);
    books.lease(two, ARENA, &[0, 1, 2, 3]);
    assert!(waits(&mut books, one), "the other one may free it");
    assert!(waits(&mut books, three), "it keeps nothing, and others wait that do");
    assert!(waits(&mut books, two), "the first one starts instead");
    books.start(one);
    assert!(waits(&mut books, three));
    books.give_for_good(one, ARENA, &[0, 1, 2, 3]);
    books.end(one);
    books.start(two);
}

#[test]
fn a_small_one_starts_before_the_first_if_that_does_not_delay_it() {
    let (mut books, [one, two, three, four]) = known(Books::shifting(10), [8, 8, 1, 6]);
    books.start(one);
    books.lease(one, ARENA, &[0, 1, 2]);
    let Ok(Begin::Wait(Some(promised))) = books.begin(two) else { panic!("it waits") };
    assert!(promised > Ticks::ZERO);
    books.start(three);
    assert!(waits(&mut books, four), "the first one would not fit beside it");
}

/// Whoever is let start first is always about to end.
struct SoonAfter(u64);

impl Policy for SoonAfter {
    fn name(&self) -> &'static str {
        "soon after"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        if view.candidate == 0 { Verdict::After(Ticks::new(self.0)) } else { Verdict::Start }
    }
}

/// D62: profiles do not tell what an iteration leaves behind. So the first in line was said to
/// start soon, whoever starts meanwhile, again and again.
#[test]
fn the_first_in_line_starts_though_others_are_never_said_to_delay_it() {
    for soon in [1, 50, 5000] {
        let books = Books::under(10, SoonAfter(soon), HandOver::Fenced);
        let (mut books, [first, one, two]) = known(books, [4, 3, 3]);
        books.start(one);
        assert!(waits(&mut books, first));
        let due = books.now.saturating_add(Ticks::new(soon));
        let (mut runs, mut next, mut late) = (one, two, 0);
        // One of the two always runs.
        while books.begin(next) == Ok(Begin::Started) {
            late += u32::from(books.now > due);
            assert!(late < 20, "it was to start at {due:?}, and it is {:?}", books.now);
            books.end(runs);
            (runs, next) = (next, runs);
        }
        assert!(late >= 15, "{soon}: they start until then");
        books.end(runs);
        books.start(first);
        books.start(next);
    }
}
