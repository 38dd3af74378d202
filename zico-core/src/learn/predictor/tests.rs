use super::*;
use crate::learn::profile::Step;
use crate::types::tuning::UNTRIED_PLAN;
use crate::types::units::Ticks;

/// An iteration that allocates `first`, then `peak` regions, and gives all back half-way.
fn run(predictor: &mut Predictor, first: u64, peak: u32) -> [Option<u32>; 2] {
    let before = predictor.promised(Progress::ZERO);
    let (_, after) = iterate(predictor, &[first, 1], peak);
    [before, after]
}

/// An iteration of these allocations that holds `peak` regions up to its middle. Its signature, and
/// what was promised for it after the last of them.
fn iterate(predictor: &mut Predictor, sizes: &[u64], peak: u32) -> (Signature, Option<u32>) {
    let mut signature = Signature::default();
    for &size in sizes {
        signature.push(size);
        if let Some(mark) = signature.mark() {
            predictor.recognise(mark, 0);
        }
    }
    let after = predictor.promised(Progress::ZERO);
    let step = |progress, regions| Step {
        progress: Progress::new(progress),
        at: Ticks::new(progress.into()),
        demand: Regions::new(regions),
        leased: Regions::new(regions),
    };
    let profile = Profile::of([step(0, peak), step(5, 0)], Progress::new(10), Ticks::new(10));
    learn(predictor, profile, signature, Footprint { total: peak, settled: 0 });
    (signature, after)
}

fn learn(predictor: &mut Predictor, profile: Profile, signature: Signature, footprint: Footprint) {
    predictor.learn(Took { profile, signature, exceeded: 0, left: 0, footprint, rest: 0 });
}

#[test]
fn a_new_kind_may_need_anything_until_eight_are_known_and_then_some_more_than_the_largest() {
    let mut predictor = Predictor::default();
    assert_eq!(run(&mut predictor, 100, 10), [None, None], "nothing is known");
    assert_eq!(run(&mut predictor, 1, 50), [Some(10), None]);
    assert_eq!(run(&mut predictor, 2, 40), [None, None], "10 and 50 tell nothing");
    let more = |known: u32| Some(50 + (8 * 40u32).div_ceil(known));
    assert_eq!(run(&mut predictor, 1, 50), [more(3), Some(50)], "that one is known");
    assert_eq!(run(&mut predictor, 3, 30), [more(4), None], "and has been drawn too");
    assert_eq!(run(&mut predictor, 4, 50), [more(5), None]);
    assert_eq!(predictor.largest(0, 0), Some(50));
    for known in 6..13 {
        assert_eq!(run(&mut predictor, 4, 50), [more(known), Some(50)]);
    }
    run(&mut predictor, 4, 50);
    assert_eq!(run(&mut predictor, 4, 50)[0], Some(50), "there was nothing new lately");
    assert_eq!(run(&mut predictor, 5, 50), [Some(50), None]);
    assert_eq!(predictor.largest(7, 7), Some(57), "beside what has come to persist since");
    (6..9).for_each(|first| assert_eq!(run(&mut predictor, first, 50), [more(16), None]));
    assert_eq!(run(&mut predictor, 9, 50), [more(17); 2], "eight have been new");
}

/// The longer nothing has exceeded the largest, the less is added; it is forgotten in the end.
#[test]
fn a_largest_that_nothing_exceeds_becomes_sure() {
    let mut predictor = Predictor::default();
    let mut at = |kind: u64, peak| run(&mut predictor, kind, peak)[0];
    [20, 100].into_iter().for_each(|peak| _ = at(peak.into(), peak));
    let next: Vec<Option<u32>> = (200..300).map(|kind| at(kind, 20 + (kind % 3) as u32)).collect();
    let more = |known: u32| Some(100 + (8 * 80u32).div_ceil(known));
    assert_eq!([next[14], next[32], next[64]], [16, 32, 64].map(more));
    let window = Some(22 + (8 * 2u32).div_ceil(16));
    assert_eq!([next[65], next[80]], [window, Some(23)], "it was one of many");
}

/// The second of two that are alike is not new in size: a job that repeats is not kept waiting.
#[test]
fn two_that_take_the_same_are_enough() {
    for (second, third) in [(64, Some(64)), (65, Some(69)), (70, None)] {
        let mut predictor = Predictor::default();
        run(&mut predictor, 100, 64);
        run(&mut predictor, 1, second);
        assert_eq!(run(&mut predictor, 1, 64)[0], third);
    }
}

/// Else what was unknown would be known by its first allocation, and another let in beside it.
#[test]
fn a_beginning_that_all_share_does_not_make_a_new_kind_known() {
    let mut predictor = Predictor::default();
    iterate(&mut predictor, &[1, 2, 2, 2], 40);
    iterate(&mut predictor, &[1, 3, 3, 3], 60);
    assert_eq!(predictor.promised(Progress::ZERO), None);
    let mut signature = Signature::default();
    for (size, expected) in [(1, None), (3, None), (3, None), (3, Some(60))] {
        signature.push(size);
        signature.mark().into_iter().for_each(|mark| _ = predictor.recognise(mark, 0));
        assert_eq!(predictor.promised(Progress::ZERO), expected);
    }
}

/// Where each iteration is new, one that begins as all others have is not taken to go on like them.
/// Once it has passed all marks of one of them, it is like that one.
#[test]
fn a_beginning_tells_little_where_new_kinds_are_usual() {
    let mut predictor = Predictor::default();
    for kind in 0..9 {
        iterate(&mut predictor, &[1, 1, 1, kind], 20 + 5 * u32::try_from(kind).unwrap());
    }
    let next = predictor.promised(Progress::ZERO);
    assert!(next > Some(60), "{next:?}");
    let mut signature = Signature::default();
    for (size, expected) in [(1, next), (1, next), (1, next), (7, Some(55))] {
        signature.push(size);
        signature.mark().into_iter().for_each(|mark| _ = predictor.recognise(mark, 0));
        assert_eq!(predictor.promised(Progress::ZERO), expected, "after {size}");
    }
}

/// Where lifetimes are learned the first iterations differ by that. What differs afterwards is new:
/// a job whose lengths grow is not taken to stay within what it has had.
#[test]
fn what_is_new_when_lifetimes_are_known_may_be_followed_by_more() {
    let iterations = |length: fn(u64) -> u64| {
        let mut predictor = Predictor::default();
        predictor.note_learned();
        for at in (0..8).map(length) {
            iterate(&mut predictor, &[at], 60 + u32::try_from(at).unwrap());
        }
        predictor
    };
    let grows = iterations(|at| at);
    let [new, highest] = [grows.promised(Progress::ZERO), Some(grows.novelty.highest())];
    assert_eq!((highest, new), (Some(67), Some(67 + (8 * 5u32).div_ceil(6))));
    let repeats = iterations(|at| at.min(1));
    assert_eq!(repeats.promised(Progress::ZERO), Some(61), "new while it was being learned");
}

/// Two empty iterations do not hide what the first one took; where lifetimes are learned that may
/// have come to persist since.
#[test]
fn the_first_iteration_counts_where_lifetimes_are_told() {
    for (is_learned, expected) in [(false, Some(70 + (8 * 70u32).div_ceil(3))), (true, Some(0))] {
        let mut predictor = Predictor::default();
        if is_learned {
            predictor.note_learned();
        }
        for (sizes, peak) in [(&[1, 1][..], 70), (&[], 0), (&[], 0)] {
            iterate(&mut predictor, sizes, peak);
        }
        assert_eq!(predictor.promised(Progress::ZERO), expected);
    }
}

#[test]
fn eight_kinds_are_kept() {
    let mut predictor = Predictor::default();
    let firsts = || 0..9;
    for first in firsts().take(8).cycle().take(24) {
        run(&mut predictor, first, 30);
    }
    let known = |predictor: &mut Predictor, first| run(predictor, first, 30)[1] == Some(30);
    assert!(firsts().take(8).all(|first| known(&mut predictor, first)));
    run(&mut predictor, 8, 31);
    let first_marks: Vec<u64> = predictor.kinds.iter().map(|record| record.marks[0].hash).collect();
    assert_eq!(first_marks.len(), KINDS);
    let zero = Signature::default().first(0).unwrap().hash;
    assert!(!first_marks.contains(&zero), "the one that was seen least recently went");
}

#[test]
fn where_the_demand_falls_is_believed_of_a_kind_that_was_seen_twice() {
    let mut predictor = Predictor::default();
    run(&mut predictor, 1, 50);
    run(&mut predictor, 1, 50);
    run(&mut predictor, 2, 30);
    let late = Progress::new(7);
    predictor.recognise(Signature::default().first(2).unwrap(), 0);
    assert_eq!(predictor.promised(late), Some(30), "seen once");
    run(&mut predictor, 2, 30);
    predictor.recognise(Signature::default().first(2).unwrap(), 0);
    assert_eq!((predictor.promised(Progress::ZERO), predictor.promised(late)), (Some(30), Some(0)));
}

#[test]
fn iterations_that_begin_alike_may_come_to_the_larger() {
    let mut predictor = Predictor::default();
    run(&mut predictor, 9, 5);
    let mut begin = |sizes: &[u64], peak: u32| {
        let mut signature = Signature::default();
        let promises: Vec<Option<u32>> = sizes
            .iter()
            .map(|&size| {
                signature.push(size);
                signature.mark().and_then(|mark| predictor.recognise(mark, 0));
                predictor.promised(Progress::ZERO)
            })
            .collect();
        let demand = Regions::new(peak);
        let step = Step { demand, leased: demand, ..Step::default() };
        learn(
            &mut predictor,
            Profile::of([step], Progress::new(8), Ticks::new(8)),
            signature,
            Footprint::default(),
        );
        promises
    };
    begin(&[1, 2], 20);
    begin(&[1, 3], 40);
    // All that are known have begun so: it may be a new one.
    assert_eq!(begin(&[1, 2], 20), [Some(134), Some(20)]);
    assert_eq!(begin(&[1, 3], 40), [Some(110), Some(40)]);
    assert_eq!(begin(&[1, 4], 9), [Some(96), None], "new after all");
    assert_eq!(begin(&[5, 2], 9), [None; 2]);
    assert_eq!(begin(&[1, 3], 40), [Some(80), Some(40)], "three have");
    assert_eq!(begin(&[5, 2], 9), [Some(75), Some(9)], "one allocation tells little of others");
}

/// What is expected is worked out anew only where a mark tells kinds apart, and again after it
/// could not be had.
#[test]
fn a_mark_that_tells_nothing_apart_changes_nothing() {
    let mut predictor = Predictor::default();
    let marks = |last| {
        let (mut signature, mut marks) = (Signature::default(), Vec::new());
        for size in [1, 2, 2, last] {
            signature.push(size);
            marks.extend(signature.mark());
        }
        (signature, marks)
    };
    let profile = |peak| {
        let step = Step { leased: Regions::new(peak), ..Step::default() };
        Profile::of([step], Progress::new(8), Ticks::new(8))
    };
    learn(&mut predictor, profile(1), Signature::default(), Footprint::default());
    for (last, peak) in [(3, 20), (4, 40), (3, 20)] {
        let (signature, marks) = marks(last);
        marks.into_iter().for_each(|mark| drop(predictor.recognise(mark, 0)));
        learn(&mut predictor, profile(peak), signature, Footprint::default());
    }
    let [first, second, third] = marks(4).1[..] else { panic!("three marks") };
    let before = predictor.recognise(first, 0).unwrap();
    predictor.keep(before);
    assert!(predictor.recognise(second, 0).is_some(), "it may be had by now");
    assert!(predictor.recognise(third, 0).is_some(), "only one of the two is left");
    predictor.expect(None);
    assert!(predictor.recognise(first, 0).is_some());
    assert!(predictor.recognise(second, 0).is_none(), "the same two");
}

#[test]
fn what_the_job_says_counts_more_than_what_it_allocates() {
    let mut predictor = Predictor::of(Some(77));
    assert_eq!(predictor.promised(Progress::ZERO), Some(77));
    for (told, peak, expected) in [(1, 10, 77), (2, 20, 77), (1, 12, 10), (2, 20, 20), (1, 5, 12)] {
        predictor.expect(Some(told));
        assert_eq!(run(&mut predictor, 3, peak), [Some(expected); 2], "shape {told}");
    }
    assert_eq!(run(&mut predictor, 3, 5)[1], Some(77), "by its allocations it is new");
}

/// A plan is no reason to hold more than without it.
#[test]
fn a_plan_of_a_higher_peak_than_its_kind_has_had_is_refused() {
    let mut predictor = Predictor::default();
    for first in [1, 1, 1, 2, 2] {
        run(&mut predictor, first, 50 + 10 * u32::from(first == 2));
    }
    let mut signature = Signature::default();
    [1, 1].into_iter().for_each(|size| signature.push(size));
    let kind = Kind { told: None, signature };
    let late = |predictor: &mut Predictor| {
        predictor.expect(None);
        predictor.recognise(Signature::default().first(1).unwrap(), 0);
        [Progress::ZERO, Progress::new(7)].map(|progress| predictor.promised(progress))
    };
    assert_eq!(late(&mut predictor), [Some(50), Some(0)]);
    assert!(
        !predictor.replan(&Peak { kind, pages: 51, within: 51, starts: Vec::new() }),
        "the other kind's 60 is no excuse"
    );
    assert_eq!(late(&mut predictor), [Some(50), Some(0)], "nothing has changed");
    assert!(predictor.replan(&Peak { kind, pages: 50, within: 50, starts: Vec::new() }));
    assert_eq!(late(&mut predictor), [Some(50); 2], "nobody knows yet when it falls");
}

/// The same blocks lie in other gaps, and fill up to so many regions more.
#[test]
fn the_first_planned_iterations_and_those_after_another_kind_have_a_larger_margin() {
    let mut predictor = Predictor::default();
    (0..12).for_each(|_| _ = run(&mut predictor, 1, 50));
    let margin = |predictor: &mut Predictor| {
        predictor.expect(None);
        predictor.recognise(Signature::default().first(1).unwrap(), 0);
        let [ahead, promised] =
            [predictor.ahead(Progress::ZERO), predictor.promised(Progress::ZERO)];
        ahead.unwrap() - promised.unwrap()
    };
    assert_eq!(margin(&mut predictor), 1);
    let mut signature = Signature::default();
    [1, 1].into_iter().for_each(|size| signature.push(size));
    let kind = Kind { told: None, signature };
    assert!(predictor.replan(&Peak { kind, pages: 50, within: 50, starts: Vec::new() }));
    for expected in [4, 4, 1] {
        assert_eq!(margin(&mut predictor), expected);
        run(&mut predictor, 1, 50);
    }
    run(&mut predictor, 2, 60);
    for expected in [4, 4, 4, 1] {
        assert_eq!(margin(&mut predictor), expected);
        run(&mut predictor, 1, 50);
    }
}

/// What outlives the iteration was there without the plan as well, and is counted as what persists.
#[test]
fn what_outlives_the_iteration_does_not_make_a_plan_higher() {
    let mut predictor = Predictor::default();
    (0..3).for_each(|_| _ = run(&mut predictor, 1, 50));
    let mut signature = Signature::default();
    [1, 1].into_iter().for_each(|size| signature.push(size));
    let kind = Kind { told: None, signature };
    assert!(!predictor.replan(&Peak { kind, pages: 60, within: 51, starts: Vec::new() }));
    assert!(predictor.replan(&Peak { kind, pages: 60, within: 50, starts: Vec::new() }));
    assert_eq!(predictor.promised(Progress::ZERO), None, "nobody knows how the rest fits");
}

/// Else what begins like a kind that never comes again would never be known.
#[test]
fn a_kind_that_has_not_come_since_a_plan_that_leaves_something_is_known_again() {
    let mut predictor = Predictor::default();
    iterate(&mut predictor, &[0, 0, 0], 1);
    iterate(&mut predictor, &[2, 3], 40);
    let mut signature = Signature::default();
    for _ in 0..8 {
        iterate(&mut predictor, &[2, 2], 30);
        (signature, _) = iterate(&mut predictor, &[1, 1], 50);
    }
    let kind = Kind { told: None, signature };
    let begin = |predictor: &mut Predictor, first| {
        predictor.expect(None);
        predictor.recognise(Signature::default().first(first).unwrap(), 0);
        predictor.promised(Progress::ZERO)
    };
    assert_eq!(begin(&mut predictor, 2), Some(40));
    let peak = || Peak { kind, pages: 51, within: 48, starts: alloc::vec![7, 9] };
    for _ in 0..3 {
        assert!(predictor.replan(&peak()));
        assert_eq!(begin(&mut predictor, 2), None, "it may be the next one");
        predictor.expect(None);
        iterate(&mut predictor, &[2, 2], 30);
        assert_eq!(begin(&mut predictor, 2), Some(40 + 3), "the one that came once");
        assert_eq!(begin(&mut predictor, 1), None, "the one that is planned");
    }
    let passed_over = |predictor: &mut Predictor| {
        predictor.expect(None);
        iterate(predictor, &[2, 2], 30);
        begin(predictor, 1)
    };
    for _ in 1..UNTRIED_PLAN - 1 {
        assert_eq!(passed_over(&mut predictor), None);
    }
    assert_eq!(passed_over(&mut predictor), Some(51 + 3), "it may never come again");
}

/// A kind without a plan is placed by that of another kind only as far as both are alike.
#[test]
fn a_plan_raises_the_claims_of_kinds_that_begin_as_its_own_does() {
    let mut predictor = Predictor::default();
    iterate(&mut predictor, &[0, 0, 0], 1);
    let mut planned = Signature::default();
    for _ in 0..3 {
        iterate(&mut predictor, &[1, 2, 1], 30);
        iterate(&mut predictor, &[1, 3, 1], 40);
        iterate(&mut predictor, &[2, 2, 1], 50);
        (planned, _) = iterate(&mut predictor, &[1, 2, 2], 60);
    }
    let kind = Kind { told: None, signature: planned };
    assert!(predictor.replan(&Peak { kind, pages: 58, within: 58, starts: alloc::vec![2, 7] }));
    let expected: Vec<_> = predictor
        .kinds
        .iter()
        .map(|record| (record.newest.claim().value(), record.expected.height))
        .filter(|&(claim, _)| claim > 1)
        .collect();
    let until_the_end = (30, Some(30 + 58));
    let until_the_second = (40, Some(40 + 7));
    let from_the_first = (50, Some(50));
    assert_eq!(expected, [(60, Some(60)), from_the_first, until_the_second, until_the_end]);
    let ahead = |predictor: &mut Predictor, first| {
        predictor.expect(None);
        predictor.recognise(Signature::default().first(first).unwrap(), 0);
        [Progress::ZERO, Progress::new(8)].map(|progress| predictor.promised(progress))
    };
    assert_eq!(ahead(&mut predictor, 2), [Some(50), Some(0)], "it is placed as before");
    assert_eq!(ahead(&mut predictor, 1), [Some(88); 2], "the most of three");
}
