use super::*;

/// Feeds a detector with allocations and frees (a size, or zero: the newest block is freed).
#[derive(Default)]
struct Job {
    live: Vec<u64>,
    begun: Vec<u64>,
}

impl Job {
    fn run(&mut self, detector: &mut Detector, steps: &[u64]) {
        for &step in steps {
            if step == 0 {
                self.live.pop();
                continue;
            }
            if detector.is_boundary() {
                self.begun.push(detector.count());
            }
            detector.push(Bytes::new(step), Bytes::new(self.live.iter().sum()));
            self.live.push(step);
        }
    }
}

/// An iteration of `layers` alike layers: forward, backward, and an optimizer with a loop.
fn iteration(batch: u64, layers: u64) -> Vec<u64> {
    let mut steps = vec![batch << 12, 4096];
    for _ in 0..layers {
        steps.extend((0..20).map(|i| (batch + i) << 10));
    }
    for _ in 0..layers {
        steps.extend((0..20).flat_map(|i| [(batch + i) << 9, 0, 0]));
    }
    for _ in 0..layers {
        steps.extend((0..30).flat_map(|i| [(i + 7) << 14, 0]));
    }
    steps.extend([0, 0]);
    steps
}

fn allocations(steps: &[u64]) -> u64 {
    steps.iter().filter(|&&step| step > 0).count() as u64
}

#[test]
fn iterations_are_found_and_begin_where_least_is_live() {
    for layers in [1, 2, 12, 50] {
        let (mut job, mut detector) = (Job::default(), Detector::new());
        let weights: Vec<u64> = (0..77).map(|i| (i + 1) << 13).collect();
        job.run(&mut detector, &weights);
        let steps = iteration(8, layers);
        (0..12).for_each(|_| job.run(&mut detector, &steps));
        let period = allocations(&steps);
        let found = detector.detected().unwrap();
        assert_eq!(u64::from(found.period), period, "{layers} layers");
        assert!(found.repeats >= 3, "{layers} layers: {found:?}");
        assert!(!job.begun.is_empty(), "{layers} layers");
        // The last ones, when inner loops are known for what they are.
        let begun = &job.begun[job.begun.len().saturating_sub(3)..];
        let starts = begun.iter().map(|at| (at - 77) % period);
        assert!(starts.clone().all(|at| at == 0), "{layers}: {:?}", starts.collect::<Vec<_>>());
    }
}

#[test]
fn a_job_that_changes_is_found_again() {
    let (mut job, mut detector) = (Job::default(), Detector::new());
    for batch in [8, 5, 8, 11] {
        let steps = iteration(batch, 3);
        (0..60).for_each(|_| job.run(&mut detector, &steps));
        let found = detector.detected().unwrap();
        assert_eq!(u64::from(found.period), allocations(&steps), "batch {batch}");
        let other = iteration(batch + 1, 3);
        job.run(&mut detector, &other[..3]);
        assert_eq!(detector.detected(), None, "one other size is enough");
        job.run(&mut detector, &[0, 0]);
    }
}

/// D59: what had held for some iterations was taken for a loop within something longer for the next
/// 65,536 allocations.
#[test]
fn iterations_with_others_in_between_are_found_again() {
    let (mut job, mut detector) = (Job::default(), Detector::new());
    let (steps, validation) = (iteration(8, 1), iteration(3, 2));
    for round in 0..12 {
        (0..7 + round * round % 5).for_each(|_| job.run(&mut detector, &steps));
        job.run(&mut detector, &validation);
    }
    let late = job.begun.iter().filter(|&&at| at > 4500).count();
    assert!(late >= 10, "{:?}", job.begun);
}

/// D59: so nobody waits for its end for ever.
#[test]
fn an_iteration_whose_end_is_not_found_is_overdue_where_little_is_live() {
    let mut detector = Detector::new();
    let (mut random, mut ends) = (1u64, Vec::new());
    for round in 0..100u64 {
        for at in 0..50 {
            random = mixed(random, 3);
            let live = Bytes::new(1 << 20).saturating_add(Bytes::kib(100 * at));
            if detector.is_overdue(0, live) {
                ends.push((round, at));
            }
            detector.push(Bytes::new(random >> 40), live);
        }
    }
    let first = OVERDUE.div_ceil(50);
    assert!(ends.first().is_some_and(|&(round, _)| round == first), "{ends:?}");
    assert!(ends.iter().all(|&(_, at)| at <= 50 / u64::from(TROUGH_PART)), "{ends:?}");
}

#[test]
fn what_does_not_repeat_is_no_iteration_and_takes_bounded_memory() {
    let mut detector = Detector::new();
    let mut random = 1u64;
    for _ in 0..300_000 {
        random = mixed(random, 3);
        detector.push(Bytes::new(random >> 40), Bytes::new(random >> 50));
    }
    assert_eq!(detector.detected(), None);
    assert_eq!(detector.entries.len(), REMEMBERED_ALLOCATIONS);
}

#[test]
fn a_loop_that_keeps_something_each_time_is_no_iteration() {
    let (mut job, mut detector) = (Job::default(), Detector::new());
    for layer in 0..100 {
        let steps: Vec<u64> = (0..60).map(|i| (i + 1) << 12).collect();
        job.run(&mut detector, &steps);
        assert_eq!(detector.detected(), None, "layer {layer}");
    }
}
