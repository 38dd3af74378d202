use super::*;
use crate::learn::profile::Step;
use crate::types::units::Ticks;

/// An iteration that allocates `first`, then `peak` regions, and gives all back half-way.
fn run(outlook: &mut Predictor, first: u64, peak: u32) -> [Option<u32>; 2] {
    let before = outlook.promised(Progress::ZERO);
    let mut signature = Signature::default();
    for size in [first, 1] {
        signature.push(size);
        if let Some(mark) = signature.mark() {
            outlook.recognise(mark);
        }
    }
    let after = outlook.promised(Progress::ZERO);
    let step = |progress, regions| Step {
        progress: Progress::new(progress),
        at: Ticks::new(progress.into()),
        demand: Regions::new(regions),
        leased: Regions::new(regions),
    };
    let profile = Profile::of([step(0, peak), step(5, 0)], Progress::new(10), Ticks::new(10));
    outlook.learn(profile, signature, 0, 0, Footprint { total: peak, settled: 0 });
    [before, after]
}

#[test]
fn a_new_shape_may_need_anything_until_eight_are_known_and_then_some_more_than_the_largest() {
    let mut outlook = Predictor::default();
    assert_eq!(run(&mut outlook, 100, 10), [None, None], "nothing is known");
    assert_eq!(run(&mut outlook, 1, 50), [Some(10), None]);
    for (first, peak, largest) in [(2, 40, 50), (3, 60, 50), (4, 20, 60)] {
        assert_eq!(run(&mut outlook, first, peak), [Some(largest), None]);
    }
    (5..9).for_each(|first| assert_eq!(run(&mut outlook, first, 30), [Some(60), None]));
    assert_eq!(run(&mut outlook, 1, 50), [Some(60), Some(50)], "that one is known");
    assert_eq!(run(&mut outlook, 9, 60), [Some(60), Some(60 + 8 * 40 / 8)]);
    assert_eq!(run(&mut outlook, 10, 60), [Some(60), Some(60 + (8 * 40u32).div_ceil(9))]);
    assert_eq!(outlook.largest(0, 0), Some(60));
    assert_eq!(outlook.largest(7, 7), Some(67), "beside what has come to persist since");
}

#[test]
fn eight_shapes_are_kept() {
    let mut outlook = Predictor::default();
    let firsts = || 0..9;
    for first in firsts().take(8).cycle().take(24) {
        run(&mut outlook, first, 30);
    }
    let known = |outlook: &mut Predictor, first| run(outlook, first, 30)[1] == Some(30);
    assert!(firsts().take(8).all(|first| known(&mut outlook, first)));
    run(&mut outlook, 8, 31);
    assert_eq!(outlook.shapes.len(), SHAPES);
    assert!(outlook.find(outlook.shapes[7].key).is_some());
    let first_marks: Vec<u64> = outlook.shapes.iter().map(|shape| shape.marks[0]).collect();
    let zero = Signature::default().first(0).unwrap().hash;
    assert!(!first_marks.contains(&zero), "the one that was seen least recently went");
}

#[test]
fn where_the_demand_falls_is_believed_of_a_shape_that_was_seen_twice() {
    let mut outlook = Predictor::default();
    run(&mut outlook, 1, 50);
    run(&mut outlook, 1, 50);
    run(&mut outlook, 2, 30);
    let late = Progress::new(7);
    outlook.recognise(Signature::default().first(2).unwrap());
    assert_eq!(outlook.promised(late), Some(30), "seen once");
    run(&mut outlook, 2, 30);
    outlook.recognise(Signature::default().first(2).unwrap());
    assert_eq!((outlook.promised(Progress::ZERO), outlook.promised(late)), (Some(30), Some(0)));
}

#[test]
fn iterations_that_begin_alike_may_come_to_the_larger() {
    let mut outlook = Predictor::default();
    run(&mut outlook, 9, 5);
    let mut begin = |sizes: &[u64], peak: u32| {
        let mut signature = Signature::default();
        let promises: Vec<Option<u32>> = sizes
            .iter()
            .map(|&size| {
                signature.push(size);
                signature.mark().and_then(|mark| outlook.recognise(mark));
                outlook.promised(Progress::ZERO)
            })
            .collect();
        let demand = Regions::new(peak);
        let step = Step { demand, leased: demand, ..Step::default() };
        outlook.learn(
            Profile::of([step], Progress::new(8), Ticks::new(8)),
            signature,
            0,
            0,
            Footprint::default(),
        );
        promises
    };
    begin(&[1, 2], 20);
    begin(&[1, 3], 40);
    assert_eq!(begin(&[1, 2], 20), [Some(40), Some(20)]);
    assert_eq!(begin(&[1, 3], 40), [Some(40), Some(40)]);
    assert_eq!(begin(&[1, 4], 9), [Some(40), None], "new after all");
}

/// What is expected is worked out anew only where a mark tells shapes apart, and again after it could not
/// be had.
#[test]
fn a_mark_that_tells_nothing_apart_changes_nothing() {
    let mut outlook = Predictor::default();
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
    outlook.learn(profile(1), Signature::default(), 0, 0, Footprint::default());
    for (last, peak) in [(3, 20), (4, 40), (3, 20)] {
        let (signature, marks) = marks(last);
        marks.into_iter().for_each(|mark| drop(outlook.recognise(mark)));
        outlook.learn(profile(peak), signature, 0, 0, Footprint::default());
    }
    let [first, second, third] = marks(4).1[..] else { panic!("three marks") };
    let before = outlook.recognise(first).unwrap();
    outlook.keep(before);
    assert!(outlook.recognise(second).is_some(), "it may be had by now");
    assert!(outlook.recognise(third).is_some(), "only one of the two is left");
    outlook.expect(None);
    assert!(outlook.recognise(first).is_some());
    assert!(outlook.recognise(second).is_none(), "the same two");
}

#[test]
fn what_the_job_says_counts_more_than_what_it_allocates() {
    let mut outlook = Predictor::of(Some(77));
    assert_eq!(outlook.promised(Progress::ZERO), Some(77));
    for (told, peak, expected) in [(1, 10, 77), (2, 20, 77), (1, 12, 10), (2, 20, 20), (1, 5, 12)] {
        outlook.expect(Some(told));
        assert_eq!(run(&mut outlook, 3, peak), [Some(expected); 2], "shape {told}");
    }
    assert_eq!(run(&mut outlook, 3, 5)[1], Some(77), "by its allocations it is new");
}
