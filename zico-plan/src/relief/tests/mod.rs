//! Random graphs, schedules that are broken on purpose, and small cases.

mod addresses;
mod exact;
mod others;
mod program;
mod published;
mod state;

use alloc::vec;
use alloc::vec::Vec;

use super::problem::Problem;
use super::timeline::Timeline;
use super::*;

const LINK: Link = Link { out: 1_000_000_000, back: 500_000_000, latency: 7 };

/// Each operation makes one or two storages of what few before it have made; some change one in
/// place.
fn at_random(seed: u64, count: u32) -> Graph {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut storages = vec![Storage::persistent(50), Storage { initial: true, ..Storage::new(30) }];
    let mut operations = Vec::new();
    for at in 0..count {
        let before = u32::try_from(storages.len()).expect("few");
        let reads =
            (0..random.u32(1..4)).map(|_| before - 1 - random.u32(0..before.min(12))).collect();
        let mut writes = Vec::new();
        if at > 0 && random.u32(0..8) == 0 {
            writes.push(before - 1);
        } else {
            for _ in 0..random.u32(1..3) {
                let kept = random.u32(0..12) == 0;
                let bytes = random.u64(0..100);
                let encoding = (random.u32(0..3) == 0).then_some(Encoding {
                    bytes: bytes / 2,
                    encode: 3,
                    decode: 4,
                    lossy: random.bool(),
                });
                writes.push(u32::try_from(storages.len()).expect("few"));
                storages.push(Storage { kept, encoding, ..Storage::new(bytes) });
            }
        }
        let repeatable = random.u32(0..10) > 0;
        operations.push(Operation { reads, writes, nanos: random.u64(0..50), repeatable });
    }
    Graph::new(storages, operations).expect("each reads what is there")
}

fn all_runs(graph: &Graph) -> Vec<Step> {
    let count = u32::try_from(graph.operations().len()).expect("few");
    sequence::with_drops(graph, &(0..count).map(Step::Run).collect::<Vec<_>>())
}

fn terms(budget: u64) -> Terms {
    Terms { budget, lossy: true }
}

#[test]
fn liveness_alone_is_as_the_profile_says() {
    for seed in 0..200 {
        let graph = at_random(seed, 30);
        let steps = all_runs(&graph);
        let outcome = simulate(&graph, &LINK, &steps, u64::MAX).expect("fits");
        let most = graph.live().into_iter().max().expect("some");
        assert_eq!((outcome.peak, outcome.nanos), (most, graph.nanos()), "{seed}");
        let checked = check(&graph, &LINK, &steps, &outcome.spans, terms(most));
        assert_eq!(checked, Ok(most), "{seed}");
        assert!(graph.working_set() <= most && most <= graph.peak());
    }
}

#[test]
fn plans_hold_and_are_no_faster_than_the_bound() {
    let (mut plans, mut again) = (0, 0);
    for seed in 0..150 {
        let graph = at_random(seed, 40);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let relief = Relief::new(&graph);
        for share in [4, 6, 7, 8] {
            let budget = least + (most - least) * share / 8;
            let mut planner = relief.recompute(budget);
            let first = planner.run(0);
            let found = planner.run(200_000);
            assert!(!first.feasible || found.feasible && found.nanos <= first.nanos, "{seed}");
            let bound = lower_bound(&graph, None, false, budget);
            if !found.feasible {
                continue;
            }
            let outcome = simulate(&graph, &LINK, &found.steps, budget).expect("fits");
            assert_eq!(outcome.nanos, found.nanos, "{seed}");
            let checked = check(&graph, &LINK, &found.steps, &outcome.spans, terms(budget));
            assert_eq!(checked, Ok(outcome.peak), "{seed} {budget}");
            assert!(bound.expect("there is a plan") <= found.nanos, "{seed} {budget}");
            plans += 1;
            again += u32::from(outcome.recomputed > 0);
        }
    }
    assert!(plans > 200 && again > 25, "{plans} {again}");
}

#[test]
fn plans_that_move_storages_hold() {
    let (mut plans, mut moved) = (0, 0);
    for seed in 0..100 {
        let graph = at_random(seed, 40);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let link = Link { out: 20_000_000_000, back: 15_000_000_000, latency: 1 };
        for share in [4, 6, 7] {
            let budget = least + (most - least) * share / 8;
            let Some(found) = joint(&graph, &link, budget, 10_000) else { continue };
            let outcome = simulate(&graph, &link, &found.steps, budget).expect("fits");
            let checked = check(&graph, &link, &found.steps, &outcome.spans, terms(budget));
            assert_eq!((checked, outcome.nanos), (Ok(outcome.peak), found.nanos), "{seed}");
            let bound = lower_bound(&graph, Some(&link), true, budget);
            assert!(bound.expect("there is a plan") <= found.nanos, "{seed} {budget}");
            plans += 1;
            moved += u32::from(outcome.moved > 0);
        }
    }
    assert!(plans > 50 && moved > 20, "{plans} {moved}");
}

#[test]
fn every_strategy_holds() {
    let mut plans = vec![0; Strategy::ALL.len()];
    for seed in 0..60 {
        let mut graph = at_random(seed, 40);
        // AutoSwap looks at nothing below a MiB.
        graph.storages.iter_mut().for_each(|storage| storage.bytes <<= 16);
        let mut random = fastrand::Rng::with_seed(seed);
        if random.bool() {
            graph = graph.with_backward(random.u32(10..30));
            let kinds = [Kind::Convolution, Kind::Rectifier, Kind::Pooling, Kind::Other];
            graph = graph.with_kinds((0..40).map(|_| kinds[random.usize(0..4)]).collect());
        }
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let link = Link::symmetric(100_000_000_000_000);
        for share in [7, 8] {
            let budget = least + (most - least) * share / 8;
            for (at, strategy) in Strategy::ALL.into_iter().enumerate() {
                let Some(found) = strategy.plan(&graph, &link, budget, 1000) else { continue };
                let outcome = simulate(&graph, &link, &found.steps, budget).expect("fits");
                let terms = Terms { budget, lossy: strategy.lossy() };
                let checked = check(&graph, &link, &found.steps, &outcome.spans, terms);
                assert_eq!(checked, Ok(outcome.peak), "{} {seed}", strategy.name());
                assert_eq!(outcome.nanos, found.nanos, "{} {seed}", strategy.name());
                // The linear program is for a part of the budget.
                plans[at] += u32::from(share < 8 || strategy == Strategy::CheckmateLp);
            }
        }
    }
    // Only liveness can be too little each time.
    let few: Vec<&str> = Strategy::ALL
        .iter()
        .zip(&plans)
        .skip(1)
        .filter(|one| *one.1 == 0)
        .map(|one| one.0.name())
        .collect();
    assert!(few.is_empty(), "{few:?} {plans:?}");
}

#[test]
fn a_timeline_is_kept_up_to_date() {
    for seed in 0..100 {
        let graph = at_random(seed, 40);
        let problem = Problem::new(&graph, &[]);
        let mut timeline = Timeline::new(&problem, 150);
        let clean = timeline.clone();
        let mut random = fastrand::Rng::with_seed(seed);
        let count = u32::try_from(problem.units.len()).expect("few");
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for _ in 0..200 {
            let (stage, unit) = (random.u32(1..count), random.u32(1..count));
            if unit < stage && problem.units[unit as usize].until >= stage {
                if timeline.has(stage, unit) {
                    timeline.remove(stage, unit);
                    runs.retain(|&run| run != (stage, unit));
                } else {
                    timeline.add(stage, unit);
                    runs.push((stage, unit));
                }
            }
            let steps = sequence::with_drops(&graph, &sequence::steps(&timeline, &[]));
            let outcome = simulate(&graph, &LINK, &steps, u64::MAX).expect("fits");
            assert_eq!(outcome.nanos, timeline.cost, "{seed}");
            let exact = problem.units.iter().all(|unit| unit.operations.len() < 2);
            let peak = u64::try_from(timeline.peak()).expect("positive");
            assert!(peak >= outcome.peak && (peak == outcome.peak || !exact), "{seed}");
            check(&graph, &LINK, &steps, &outcome.spans, terms(outcome.peak)).expect("holds");
        }
        runs.iter().for_each(|&(stage, unit)| timeline.remove(stage, unit));
        assert_eq!((timeline.excess, timeline.cost), (clean.excess, clean.cost));
        assert_eq!(timeline.peak(), clean.peak());
    }
}

/// Steps that move and encode what is not in use, at random.
fn with_moves(graph: &Graph, seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut steps = Vec::new();
    let mut away: Vec<(u32, bool)> = Vec::new();
    let mut here: Vec<u32> = Vec::new();
    for step in all_runs(graph) {
        let uses: Vec<u32> = match step {
            Step::Run(run) => {
                let operation = &graph.operations()[run as usize];
                operation.reads.iter().chain(&operation.writes).copied().collect()
            }
            Step::Drop(storage) => vec![storage],
            _ => vec![],
        };
        let back = |&(storage, out): &(u32, bool)| {
            if out { Step::In(storage) } else { Step::Decode(storage) }
        };
        steps.extend(away.iter().filter(|one| uses.contains(&one.0)).map(back));
        away.retain(|one| !uses.contains(&one.0));
        steps.push(step);
        match step {
            Step::Run(run) => here.extend(&graph.operations()[run as usize].writes),
            Step::Drop(storage) => here.retain(|&other| other != storage),
            _ => {}
        }
        if let Some(&storage) = random.choice(&here)
            && away.iter().all(|one| one.0 != storage)
        {
            let encodes = graph.storages()[storage as usize].encoding.is_some() && random.bool();
            steps.push(if encodes { Step::Encode(storage) } else { Step::Out(storage) });
            away.push((storage, !encodes));
        }
    }
    let back =
        |&(storage, out): &(u32, bool)| if out { Step::In(storage) } else { Step::Decode(storage) };
    steps.extend(away.iter().map(back));
    steps
}

#[test]
fn the_checker_agrees_with_the_simulator() {
    for seed in 0..200 {
        let graph = at_random(seed, 30);
        let steps = with_moves(&graph, seed);
        let free = simulate(&graph, &LINK, &steps, u64::MAX).expect("fits");
        for budget in [free.peak, free.peak * 9 / 10, free.peak * 7 / 10] {
            // A smaller budget makes transfers wait, until it is too small.
            let Ok(outcome) = simulate(&graph, &LINK, &steps, budget) else { continue };
            let checked = check(&graph, &LINK, &steps, &outcome.spans, terms(budget));
            assert_eq!(checked, Ok(outcome.peak), "{seed}");
            assert!(outcome.nanos >= free.nanos.min(outcome.nanos) && outcome.peak <= budget);
        }
    }
}

#[test]
fn what_is_broken_on_purpose_is_refused() {
    let mut refused = 0;
    for seed in 0..200 {
        let graph = at_random(seed, 30);
        let steps = with_moves(&graph, seed);
        let spans = simulate(&graph, &LINK, &steps, u64::MAX).expect("fits").spans;
        let judge =
            |steps: &[Step], spans: &[Span]| check(&graph, &LINK, steps, spans, terms(u64::MAX));
        let peak = judge(&steps, &spans).expect("holds");
        let tight = check(&graph, &LINK, &steps, &spans, terms(peak - 1));
        assert_eq!(tight.map_err(|refusal| refusal.fault), Err(Fault::OverBudget { bytes: peak }));
        for at in 0..steps.len() {
            // A step that is left out, unless it only frees.
            let (mut fewer, mut times) = (steps.clone(), spans.clone());
            let left = fewer.remove(at);
            times.remove(at);
            // What is encoded may as well be dropped as it is.
            let freed = matches!((left, steps.get(at + 1)), (Step::Decode(one), Some(&Step::Drop(other))) if one == other);
            if !matches!(left, Step::Drop(_)) && !freed {
                assert!(judge(&fewer, &times).is_err(), "{seed}: {left:?} left out");
                refused += 1;
            }
            // One that is done twice.
            let (mut more, mut times) = (steps.clone(), spans.clone());
            more.insert(at, steps[at]);
            times.insert(at, spans[at]);
            let idempotent = matches!(left, Step::Run(run) if {
                let operation = &graph.operations()[run as usize];
                operation.writes.is_empty()
            });
            if !idempotent {
                assert!(judge(&more, &times).is_err(), "{seed}: {left:?} twice");
            }
            // One that takes place at another time.
            let mut times = spans.clone();
            times[at].end += 1;
            let zero = matches!(left, Step::Drop(_));
            assert!(judge(&steps, &times).is_err(), "{seed}: {left:?} later, {zero}");
        }
        assert!(judge(&steps, &spans[1..]).is_err());
    }
    assert!(refused > 1000);
}

#[test]
fn what_changes_in_place_is_never_run_on_other_contents() {
    // Storage 0 is made, changed in place, and read: to make it again, both have to run.
    let run = |reads: &[u32], write: u32, repeatable| Operation {
        reads: reads.to_vec(),
        writes: vec![write],
        nanos: 5,
        repeatable,
    };
    let storages = vec![Storage::new(10); 3];
    let operations =
        vec![run(&[], 0, true), run(&[0], 0, true), run(&[], 1, true), run(&[0, 1], 2, false)];
    let graph = Graph::new(storages, operations).expect("fine");
    let judge = |steps: &[Step]| {
        let outcome = simulate(&graph, &LINK, steps, 100).expect("fits");
        check(&graph, &LINK, steps, &outcome.spans, terms(100)).map_err(|refusal| refusal.fault)
    };
    let run = Step::Run;
    assert_eq!(judge(&[run(0), run(1), run(2), run(3)]), Ok(30));
    let dropped = [run(0), run(1), Step::Drop(0), run(2), run(0), run(1), run(3)];
    assert_eq!(judge(&dropped), Ok(30));
    let half = [run(0), run(1), Step::Drop(0), run(2), run(0), run(3)];
    assert_eq!(judge(&half), Err(Fault::Stale { storage: 0 }));
    assert_eq!(judge(&[run(0), run(1), run(1), run(2), run(3)]), Err(Fault::Stale { storage: 0 }));
    let twice = [run(0), run(1), run(2), run(3), Step::Drop(2), run(3)];
    assert_eq!(judge(&twice), Err(Fault::NotRepeatable { operation: 3 }));
    let stale = [run(0), Step::Out(0), Step::In(0), run(1), Step::Drop(0), Step::In(0)];
    assert!(simulate(&graph, &LINK, &stale, 100).is_err(), "the host has what was there before");
}

#[test]
fn a_lossy_encoding_is_used_if_asked_for() {
    let encoding = Encoding { bytes: 1, encode: 2, decode: 3, lossy: true };
    let storages = vec![Storage { encoding: Some(encoding), kept: true, ..Storage::new(10) }];
    let operations = vec![Operation { writes: vec![0], ..Operation::default() }];
    let graph = Graph::new(storages, operations).expect("fine");
    let steps = [Step::Run(0), Step::Encode(0), Step::Decode(0)];
    let outcome = simulate(&graph, &LINK, &steps, 11).expect("fits");
    assert_eq!((outcome.nanos, outcome.peak, outcome.encoding), (5, 11, 5));
    let judge = |lossy| {
        let terms = Terms { budget: 11, lossy };
        check(&graph, &LINK, &steps, &outcome.spans, terms).map_err(|refusal| refusal.fault)
    };
    assert_eq!((judge(true), judge(false)), (Ok(11), Err(Fault::Lossy { storage: 0 })));
}

#[test]
fn graphs_that_cannot_be() {
    let run = |reads: &[u32], writes: &[u32]| Operation {
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        ..Operation::default()
    };
    let graph = |storages: &[Storage], operation| {
        Graph::new(storages.to_vec(), vec![operation]).map(|_| ())
    };
    let one = [Storage::new(1)];
    let missing = GraphError::NoStorage { operation: 0, storage: 1 };
    assert_eq!(graph(&one, run(&[1], &[])), Err(missing));
    let nothing = GraphError::NoContents { operation: 0, storage: 0 };
    assert_eq!(graph(&one, run(&[0], &[])), Err(nothing));
    let aliases = [Storage::alias(1), Storage::alias(0)];
    assert_eq!(graph(&aliases, run(&[], &[])), Err(GraphError::Alias { storage: 0 }));
    let large = [Storage::new(1 << 61), Storage::new(1 << 61)];
    assert_eq!(graph(&large, run(&[], &[])), Err(GraphError::TooLarge));
    let named = [Storage::new(1), Storage::alias(0)];
    assert_eq!(graph(&named, run(&[], &[1, 0])), Ok(()));
}
