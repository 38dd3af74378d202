//! The optimum on cases where it is known, and against trying everything.

use std::collections::{HashMap, HashSet};

use super::cycle::{Edge, Graph};
use super::lookahead::Lookahead;
use super::plan::Plan;
use super::{Case, Wave, greedy, grid, pair};

fn case(waves: &[&[(u64, u32)]], room: u32, utilisation: f64) -> Case {
    let waves = waves.iter().map(|parts| Wave::new(parts.iter().copied())).collect();
    Case { waves, room, utilisation }
}

fn optimum(case: &Case) -> f64 {
    let optimum = pair::long_run(case).expect("two jobs that fit");
    assert!(optimum.exact);
    optimum.throughput
}

fn greed(case: &Case) -> f64 {
    greedy::throughput(case, &mut greedy::FirstFit).expect("jobs that fit")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// A triangle: up and down again in steps of length 1.
const TRIANGLE: &[(u64, u32)] = &[(1, 1), (1, 2), (1, 3), (1, 4), (1, 3), (1, 2), (1, 1)];

#[test]
fn with_no_room_jobs_take_turns_and_with_all_of_it_they_run_freely() {
    for utilisation in [0.4, 0.6, 1.0] {
        let alone = case(&[TRIANGLE, &[(3, 4)]], 4, utilisation);
        assert!(close(optimum(&alone), 1.0) && close(greed(&alone), 1.0));
        let free = case(&[TRIANGLE, &[(3, 4)]], 8, utilisation);
        let full = 2.0 / free.stretch(2);
        assert!(close(optimum(&free), full) && close(greed(&free), full));
    }
    let too_large = case(&[TRIANGLE, &[(3, 4)]], 3, 0.6);
    assert_eq!(pair::long_run(&too_large), None);
}

/// Up and down are 3 and 3 long and come to 4 together, so beside a room of 4 either triangle
/// begins 3 before the other ends: of the 14 of work in a round 6 + 6 are done together.
#[test]
fn equal_triangles_overlap_by_their_flanks() {
    let triangles = case(&[TRIANGLE, TRIANGLE], 4, 0.6);
    assert!(close(optimum(&triangles), 14.0 / (2.0 + 6.0 * 1.2)));
    assert!(close(greed(&triangles), 14.0 / (2.0 + 6.0 * 1.2)));
    // With 5 they may overlap by 4 at one end and by 3 at the other: all of the time.
    assert!(close(optimum(&case(&[TRIANGLE, TRIANGLE], 5, 0.6)), 2.0 / 1.2));
}

/// The short job fits beside all of the long one but its first step. Having run once, at 5, it fits
/// again at once, and then keeps the long job from starting at 6: 14 of work take 9. Better it
/// waits until the long one has started, and both do 10 in 6.
#[test]
fn waiting_longer_than_one_must_may_be_better() {
    let case = case(&[&[(4, 3)], &[(1, 4), (5, 1)]], 5, 0.3);
    assert!(close(optimum(&case), 10.0 / 6.0) && close(greed(&case), 14.0 / 9.0));
}

/// Beside the long job's valley the short one costs nothing. First fit starts the short one first,
/// because it asks first, every second time.
#[test]
fn which_job_goes_first_may_matter() {
    let case = case(&[&[(1, 5)], &[(1, 4), (1, 0)]], 5, 0.3);
    assert!(close(optimum(&case), 3.0 / 2.0) && close(greed(&case), 4.0 / 3.0));
}

fn random_case(random: &mut fastrand::Rng, jobs: usize, longest: u64) -> Case {
    let waves: Vec<Wave> = (0..jobs)
        .map(|_| {
            let steps = random.u64(1..=3);
            Wave::new((0..steps).map(|_| (random.u64(1..=longest / 3), random.u32(0..6))))
        })
        .collect();
    let peak = waves.iter().map(Wave::peak).max().unwrap_or_default();
    let utilisation = [0.3, 0.6, 0.7, 1.0][random.usize(0..4)];
    Case { waves, room: peak + random.u32(0..5), utilisation }
}

#[test]
fn two_jobs_in_the_long_run_agree_with_trying_everything() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..400 {
        let case = random_case(&mut random, 2, 15);
        let (best, tried) = (optimum(&case), longest(&case));
        assert!(close(best, tried), "{case:?}: {best} {tried}");
    }
}

#[test]
fn two_jobs_for_some_iterations_agree_with_trying_everything() {
    let mut random = fastrand::Rng::with_seed(2);
    for i in 0..150 {
        let case = random_case(&mut random, 2, 9);
        let wanted = 1 + i % 3;
        let best = pair::finite(&case, wanted).expect("two jobs that fit").throughput;
        let tried = shortest(&case, wanted.into());
        assert!(close(best, tried), "{case:?} {wanted}: {best} {tried}");
    }
}

#[test]
fn the_grid_is_exact_where_its_cell_divides_everything() {
    let mut random = fastrand::Rng::with_seed(3);
    for i in 0..150 {
        let case = random_case(&mut random, 2 + i % 2, 9);
        let (bounds, tried) = (grid::tests::at_cell(&case, 1), longest(&case));
        assert!(close(bounds.below, tried), "{case:?}: {bounds:?} {tried}");
        assert!(close(bounds.above, tried), "{case:?}: {bounds:?} {tried}");
    }
}

#[test]
fn a_coarse_grid_encloses_the_optimum() {
    let mut random = fastrand::Rng::with_seed(4);
    for i in 0..150 {
        let case = random_case(&mut random, 2 + i % 2, 15);
        let tried = longest(&case);
        let shortest = case.waves.iter().map(Wave::length).min().unwrap_or(1);
        for cell in 2..=shortest {
            let bounds = grid::tests::at_cell(&case, cell);
            assert!(bounds.below <= tried + 1e-6, "{case:?} {cell}: {bounds:?} {tried}");
            assert!(bounds.above >= tried - 1e-6, "{case:?} {cell}: {bounds:?} {tried}");
        }
        assert!(greed(&case) <= tried + 1e-6);
    }
}

#[test]
fn following_the_best_cycle_reaches_the_optimum() {
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..400 {
        let case = random_case(&mut random, 2, 15);
        let reached = greedy::throughput(&case, &mut Plan::new(&case, 0)).expect("goes on");
        assert!(close(reached, optimum(&case)), "{case:?}: {reached}");
    }
}

#[test]
fn looking_ahead_comes_to_no_stop_and_stays_within_the_optimum() {
    let mut random = fastrand::Rng::with_seed(7);
    for i in 0..200 {
        let case = random_case(&mut random, 2 + i % 2, 9);
        let ahead = greedy::throughput(&case, &mut Lookahead::new(&case, 3)).expect("goes on");
        assert!(ahead <= longest(&case) + 1e-6, "{case:?}: {ahead}");
    }
}

/// Where every job is at a whole moment; none for those that wait.
type Moment = Vec<Option<u64>>;

/// All that can happen from here in one unit of the clock: what starts, and where that leads; the
/// number that run, and how many iterations each job ends.
fn tries(case: &Case, now: &Moment) -> Vec<(Moment, usize, Vec<u64>)> {
    let mut tries = Vec::new();
    for starts in 0..1_u32 << now.len() {
        let mut next = now.clone();
        if (0..now.len()).any(|job| starts >> job & 1 == 1 && now[job].is_some()) {
            continue;
        }
        (0..now.len()).filter(|job| starts >> job & 1 == 1).for_each(|job| next[job] = Some(0));
        let demand = |job: usize| -> u32 {
            let at = |at: u64| case.waves[job].pieces().find(|piece| at < piece.1);
            next[job].and_then(at).map_or(0, |piece| piece.2)
        };
        let running = next.iter().flatten().count();
        if running == 0 || (0..now.len()).map(demand).sum::<u32>() > case.room {
            continue;
        }
        let mut ended = vec![0; now.len()];
        for (job, at) in next.iter_mut().enumerate() {
            *at = at.map(|at| at + 1);
            if *at == Some(case.waves[job].length()) {
                (*at, ended[job]) = (None, 1);
            }
        }
        tries.push((next, running, ended));
    }
    tries
}

/// The best cycle over all whole moments, by bisection.
fn longest(case: &Case) -> f64 {
    let mut states: Vec<Moment> = vec![vec![None; case.waves.len()]];
    let mut numbers = HashMap::from([(states[0].clone(), 0)]);
    let mut graph = Graph::default();
    while let Some(state) = states.get(graph.len()).cloned() {
        let edges: Vec<Edge> = tries(case, &state)
            .into_iter()
            .map(|(next, running, _)| {
                let to = *numbers.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    u32::try_from(states.len() - 1).expect("few states")
                });
                Edge { to, gain: running as f64, cost: case.stretch(running), ended: 0 }
            })
            .collect();
        graph.push(edges);
    }
    graph.by_bisection(4.0)
}

/// The best throughput up to the moment at which every job has done `wanted`, over all starts at
/// whole moments.
fn shortest(case: &Case, wanted: u64) -> f64 {
    let jobs = case.waves.len();
    let all: u64 = case.waves.iter().map(|wave| (wanted + 1) * wave.length()).sum();
    let mut now = HashSet::from([(vec![None; jobs], vec![0; jobs], 0_u64, vec![0_u64; 3])]);
    let mut best = 0.0_f64;
    for _ in 0..all {
        let mut after = HashSet::new();
        for (state, done, work, clock) in now {
            for (next, running, ended) in tries(case, &state) {
                let (mut done, mut clock) = (done.clone(), clock.clone());
                (0..jobs).for_each(|job| done[job] += ended[job]);
                clock[running] += 1;
                let work = work + running as u64;
                if done.iter().all(|&done| done >= wanted) {
                    let time: f64 = (1..3).map(|k| clock[k] as f64 * case.stretch(k)).sum();
                    best = best.max(work as f64 / time);
                } else {
                    after.insert((next, done, work, clock));
                }
            }
        }
        now = after;
    }
    best
}

#[test]
fn shares_add_up_and_asking_for_more_of_them_never_raises_the_bound() {
    // One at a time: together they come to 1, however that is shared.
    let flat: &[(u64, u32)] = &[(6, 3)];
    let alone = case(&[flat, flat, flat], 4, 0.6);
    let (best, shares) = grid::best_shares(&alone, 2_000).expect("jobs that fit");
    assert!(close(best, 1.0) && close(shares.iter().sum(), 1.0));
    let bound = |least| grid::bound_with_shares(&alone, 2_000, least).expect("jobs that fit");
    assert!(close(bound(0.0), 1.0) && close(bound(0.3), 1.0));
    assert!(bound(0.4) < 1.0, "there is no such schedule");
    // Two low ones fit beside each other, and a high one beside none: it costs what it is given.
    let low: &[(u64, u32)] = &[(6, 2)];
    let mixed = case(&[low, low, &[(6, 4)]], 4, 0.6);
    let (best, shares) = grid::best_shares(&mixed, 2_000).expect("jobs that fit");
    assert!(close(best, 2.0 / 1.2) && shares[2] == 0.0);
    let bound = grid::bound_with_shares(&mixed, 2_000, 0.25).expect("jobs that fit");
    // A quarter of the time at 1, the rest at 2 / 1.2.
    assert!((bound - (0.25 + 0.75 * 2.0 / 1.2)).abs() < 0.02, "{bound}");
}
