//! Figures worked out by hand, event order, waits across streams, determinism.

use super::*;

/// A timeline that writes down when which mark was reached.
struct Bench {
    timeline: Timeline<u32>,
    reached: Vec<(u64, u32)>,
}

impl Bench {
    fn new(streams: usize) -> Self {
        let mut timeline = Timeline::new();
        for number in 0..streams {
            assert_eq!(timeline.add_stream(), number);
        }
        Self { timeline, reached: Vec::new() }
    }

    fn enqueue(&mut self, stream: usize, item: Item<u32>) {
        let reached = &mut self.reached;
        self.timeline.enqueue(stream, item, &mut |now, mark| reached.push((now.value(), mark)));
    }

    fn launch(&mut self, stream: usize, work: u64, permille: u16) {
        let utilisation = Utilisation::new(permille).unwrap();
        self.enqueue(stream, Item::Launch { work: Ticks::new(work), utilisation });
    }

    fn mark(&mut self, stream: usize, mark: u32) {
        self.enqueue(stream, Item::Mark(mark));
    }

    fn wait(&mut self, stream: usize, event: Position) {
        self.enqueue(stream, Item::Wait(event));
    }

    fn advance(&mut self, moment: u64) {
        let reached = &mut self.reached;
        self.timeline
            .advance_to(Ticks::new(moment), &mut |now, mark| reached.push((now.value(), mark)));
    }

    fn next(&self) -> Option<u64> {
        self.timeline.next_completion().map(Ticks::value)
    }
}

#[test]
fn a_stream_runs_in_order_and_marks_take_no_time() {
    let mut bench = Bench::new(1);
    bench.mark(0, 1);
    bench.launch(0, 10, 500);
    bench.mark(0, 2);
    bench.launch(0, 5, 500);
    bench.mark(0, 3);
    assert_eq!(bench.reached, [(0, 1)], "an idle stream reaches a mark at once");
    assert_eq!((bench.timeline.outstanding(0), bench.next()), (2, Some(10)));
    bench.advance(9);
    assert_eq!(bench.timeline.completed(0), 0);
    bench.advance(10);
    assert_eq!((bench.timeline.completed(0), bench.timeline.outstanding(0)), (1, 1));
    assert!(!bench.timeline.idle());
    bench.advance(100);
    assert_eq!(bench.reached, [(0, 1), (10, 2), (15, 3)]);
    assert!(bench.timeline.idle());
    assert_eq!((bench.timeline.now().value(), bench.next()), (100, None));
}

#[test]
fn time_never_goes_back() {
    let mut bench = Bench::new(1);
    bench.advance(50);
    bench.advance(20);
    assert_eq!(bench.timeline.now(), Ticks::new(50));
    bench.launch(0, 10, 1000);
    assert_eq!(bench.next(), Some(60));
}

#[test]
fn launches_that_fit_together_do_not_slow_each_other_down() {
    let mut bench = Bench::new(3);
    bench.launch(0, 100, 300);
    bench.launch(1, 200, 300);
    bench.launch(2, 300, 400);
    for finish in [100, 200, 300] {
        assert_eq!(bench.next(), Some(finish));
        bench.advance(finish);
    }
    assert!(bench.timeline.idle());
}

#[test]
fn beyond_a_full_device_all_are_stretched_alike() {
    // U = 1.5. A has 100 of work, B 200, so A is done at 150, with 100 of B's work done. Alone
    // again, B needs the other 100: done at 250.
    let mut bench = Bench::new(2);
    bench.launch(0, 100, 1000);
    bench.launch(1, 200, 500);
    assert_eq!(bench.next(), Some(150));
    bench.advance(150);
    assert_eq!((bench.timeline.completed(0), bench.timeline.completed(1)), (1, 0));
    assert_eq!(bench.next(), Some(250));
}

#[test]
fn a_launch_that_comes_later_stretches_only_what_is_left() {
    // A runs alone until 40, then at 1/2. The 60 left of A take 120: done at 160. B has done 60 of
    // its 80 by then and the other 20 at full speed: done at 180.
    let mut bench = Bench::new(2);
    bench.launch(0, 100, 1000);
    bench.advance(40);
    bench.launch(1, 80, 1000);
    assert_eq!(bench.next(), Some(160));
    bench.advance(160);
    assert_eq!(bench.next(), Some(180));
}

#[test]
fn a_launch_ends_at_the_first_whole_nanosecond_at_which_it_is_done() {
    // U = 1.7: 10 of work take 17, 11 take 18.7.
    let mut bench = Bench::new(2);
    bench.launch(0, 10, 900);
    bench.launch(1, 11, 800);
    assert_eq!(bench.next(), Some(17));
    bench.advance(17);
    assert_eq!(bench.next(), Some(18), "the last unit of work runs alone");
}

#[test]
fn launches_that_finish_at_one_moment_are_taken_by_stream() {
    let mut bench = Bench::new(3);
    for stream in [2, 0, 1] {
        bench.launch(stream, 10, 100);
        bench.mark(stream, u32::try_from(stream).unwrap());
    }
    bench.advance(10);
    assert_eq!(bench.reached, [(10, 0), (10, 1), (10, 2)]);
}

#[test]
fn launches_without_work_take_no_time_but_their_turn() {
    let mut bench = Bench::new(1);
    bench.launch(0, 0, 1000);
    assert_eq!((bench.timeline.completed(0), bench.timeline.outstanding(0)), (1, 0));
    bench.launch(0, 7, 1000);
    bench.launch(0, 0, 1000);
    bench.mark(0, 1);
    assert_eq!(bench.timeline.outstanding(0), 2);
    bench.advance(7);
    assert_eq!((bench.timeline.completed(0), bench.reached), (3, vec![(7, 1)]));
}

#[test]
fn an_event_passes_with_the_work_before_it_whatever_comes_after() {
    let mut bench = Bench::new(1);
    let start = bench.timeline.record(0);
    bench.launch(0, 10, 1000);
    let middle = bench.timeline.record(0);
    bench.launch(0, 10, 1000);
    let end = bench.timeline.record(0);
    let passed = |bench: &Bench| [start, middle, end].map(|e| bench.timeline.has_passed(e));
    assert_eq!(passed(&bench), [true, false, false]);
    bench.advance(10);
    assert_eq!(passed(&bench), [true, true, false]);
    bench.advance(20);
    assert_eq!(passed(&bench), [true, true, true]);
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    let mut bench = Bench::new(3);
    bench.launch(0, 30, 100);
    let first = bench.timeline.record(0);
    bench.launch(0, 50, 100);
    bench.wait(1, first);
    let waited = bench.timeline.record(1);
    bench.mark(1, 1);
    bench.launch(1, 10, 100);
    // A chain: 2 waits for 1, which waits for 0.
    bench.wait(2, waited);
    bench.mark(2, 2);
    assert_eq!((bench.reached.len(), bench.timeline.outstanding(1)), (0, 1));
    bench.advance(30);
    assert_eq!(bench.reached, [(30, 1), (30, 2)]);
    assert_eq!(bench.next(), Some(40), "1 runs beside the rest of 0");
    // An event that has passed holds nothing up.
    bench.wait(2, first);
    bench.mark(2, 3);
    assert_eq!(bench.reached.last(), Some(&(30, 3)));
}

#[test]
fn several_streams_wait_for_one_and_each_for_its_own_position() {
    let mut bench = Bench::new(4);
    let events: Vec<_> = (0..3)
        .map(|_| {
            bench.launch(0, 10, 100);
            bench.timeline.record(0)
        })
        .collect();
    for (stream, event) in (1..4).zip(events.iter().rev()) {
        bench.wait(stream, *event);
        bench.mark(stream, u32::try_from(stream).unwrap());
    }
    bench.advance(100);
    assert_eq!(bench.reached, [(10, 3), (20, 2), (30, 1)]);
}

/// A busy mixture on four streams, advanced in steps of `step`.
fn mixture(step: u64) -> (Vec<(u64, u32)>, Vec<u64>) {
    let mut bench = Bench::new(4);
    let mut seed = 1u64;
    for mark in 0..2_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = seed >> 33;
        let stream = usize::try_from(random % 4).unwrap();
        match random / 4 % 4 {
            0 => {
                let event = bench.timeline.record((stream + 1) % 4);
                bench.wait(stream, event);
            }
            1 => bench.mark(stream, mark),
            _ => {
                let permille = u16::try_from(1 + random % 999).unwrap();
                bench.launch(stream, random % 1_000, permille);
            }
        }
    }
    let mut now = 0;
    while !bench.timeline.idle() {
        now += step;
        bench.advance(now);
    }
    (bench.reached, (0..4).map(|stream| bench.timeline.completed(stream)).collect())
}

#[test]
fn the_result_does_not_depend_on_the_steps_in_which_time_advances() {
    let (reached, completed) = mixture(1);
    assert!(reached.len() > 400 && completed.iter().all(|&count| count > 200));
    for step in [1, 7, 1_000, 1 << 40] {
        assert_eq!(mixture(step), (reached.clone(), completed.clone()), "steps of {step}");
    }
}

/// When each launch of each stream finishes, nanosecond by nanosecond in 60ths of one, which
/// divide evenly by every U that three launches of 0.5 or 1 can have.
fn by_the_nanosecond(streams: &[Vec<(u64, u16)>]) -> Vec<Vec<u64>> {
    let mut finished = vec![Vec::new(); streams.len()];
    let mut done = vec![0; streams.len()];
    let mut now = 0;
    loop {
        let running: Vec<_> =
            streams.iter().zip(&finished).map(|(launches, f)| launches.get(f.len())).collect();
        let sum: u64 = running.iter().flatten().map(|(_, permille)| u64::from(*permille)).sum();
        if sum == 0 {
            return finished;
        }
        now += 1;
        for (stream, launch) in running.into_iter().enumerate() {
            let Some((work, _)) = launch else { continue };
            done[stream] += 60_000 / sum.max(1_000);
            if done[stream] >= 60 * work {
                finished[stream].push(now);
                done[stream] = 0;
            }
        }
    }
}

#[test]
fn the_timeline_agrees_with_one_that_counts_every_nanosecond() {
    let mut seed = 5u64;
    for _ in 0..200 {
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        let streams: Vec<Vec<_>> = (0..3)
            .map(|_| {
                let length = random(12);
                (0..length)
                    .map(|_| (1 + random(40), [500, 1_000][usize::from(random(2) == 0)]))
                    .collect()
            })
            .collect();
        let mut bench = Bench::new(3);
        for (stream, launches) in streams.iter().enumerate() {
            for (work, permille) in launches {
                bench.launch(stream, *work, *permille);
            }
        }
        let mut finished = vec![Vec::new(); 3];
        while let Some(moment) = bench.next() {
            bench.advance(moment);
            for (stream, finished) in finished.iter_mut().enumerate() {
                let completed = usize::try_from(bench.timeline.completed(stream)).unwrap();
                finished.resize(completed, moment);
            }
        }
        assert_eq!(finished, by_the_nanosecond(&streams), "{streams:?}");
    }
}
