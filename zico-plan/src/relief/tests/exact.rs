//! Small cases beside what is exact: Checkmate's integer program (Jain et al., `MLSys` 2020), and
//! the shortest way through all states of a device.

use std::collections::{BTreeMap, BinaryHeap};

use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable,
};

use super::*;

extern crate std;

/// Each operation writes one storage; those of the second half read what the first half made.
fn training(seed: u64, half: u32) -> Graph {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut operations = Vec::new();
    for at in 0..2 * half {
        let mut reads = Vec::new();
        if at > 0 {
            reads.push(at - 1);
        }
        if at >= half {
            reads.push(2 * half - 1 - at);
        } else if at > 2 && random.bool() {
            reads.push(random.u32(0..at));
        }
        let nanos = random.u64(1..30);
        operations.push(Operation { reads, writes: vec![at], nanos, repeatable: true });
    }
    let storages = (0..2 * half).map(|_| Storage::new(random.u64(1..20))).collect();
    Graph::new(storages, operations).expect("fine")
}

/// The least cost of Checkmate's program, its products of variables taken apart one by one.
fn checkmate(graph: &Graph, budget: u64) -> Option<u64> {
    let count = graph.operations().len();
    let bytes: Vec<f64> = graph.storages().iter().map(|one| one.bytes as f64).collect();
    let mut all = ProblemVariables::new();
    let square = |all: &mut ProblemVariables| -> Vec<Vec<Variable>> {
        (0..=count).map(|_| (0..count).map(|_| all.add(variable().binary())).collect()).collect()
    };
    let (runs, stays) = (square(&mut all), square(&mut all));
    let mut users = vec![Vec::new(); count];
    for (at, operation) in graph.operations().iter().enumerate() {
        operation.reads.iter().for_each(|&one| users[one as usize].push(at));
    }
    // What an operation frees in a stage: its inputs, and its own output.
    let mut frees: BTreeMap<(usize, usize, usize), Variable> = BTreeMap::new();
    for stage in 0..count {
        for at in 0..=stage {
            let reads = graph.operations()[at].reads.iter().map(|&one| one as usize);
            for item in reads.chain([at]) {
                frees.insert((stage, item, at), all.add(variable().min(0).max(1)));
            }
        }
    }
    let places: Vec<(usize, usize)> =
        (0..count).flat_map(|stage| (0..=stage).map(move |at| (stage, at))).collect();
    let mut cost = Expression::from(0);
    for &(stage, at) in &places {
        cost += graph.operations()[at].nanos as f64 * runs[stage][at];
    }
    let mut model = all.minimise(cost).using(microlp);
    for stage in 0..count {
        for at in 0..count {
            let (run, stay) = (runs[stage][at], stays[stage][at]);
            if at == stage {
                model = model.with(constraint!(run == 1));
            } else if at > stage {
                model = model.with(constraint!(run == 0));
            }
            if at >= stage {
                model = model.with(constraint!(stay == 0));
            }
            model = model.with(constraint!(stays[stage + 1][at] <= stay + run));
            for &item in &graph.operations()[at].reads {
                let item = item as usize;
                model = model.with(constraint!(run <= runs[stage][item] + stays[stage][item]));
            }
        }
        let mut used = Expression::from(0);
        for at in 0..stage {
            used += bytes[at] * stays[stage][at];
        }
        for at in 0..=stage {
            used += bytes[at] * runs[stage][at];
            model = model.with(constraint!(used.clone() <= budget as f64));
            let reads = graph.operations()[at].reads.iter().map(|&one| one as usize);
            for item in reads.chain([at]) {
                let free = frees[&(stage, item, at)];
                used -= bytes[item] * free;
                model = model.with(constraint!(free <= runs[stage][at]));
                model = model.with(constraint!(free <= 1 - stays[stage + 1][item]));
                for &later in users[item].iter().filter(|&&later| later > at && later <= stage) {
                    model = model.with(constraint!(free <= 1 - runs[stage][later]));
                }
            }
        }
    }
    let solution = model.solve().ok()?;
    let mut sum = 0;
    for &(stage, at) in &places {
        let nanos = graph.operations()[at].nanos;
        sum += if solution.value(runs[stage][at]) > 0.5 { nanos } else { 0 };
    }
    Some(sum)
}

/// The least time in any order: Dijkstra's algorithm over what has run and what is there.
fn shortest(graph: &Graph, budget: u64) -> Option<u64> {
    let count = graph.operations().len();
    let held = |mask: u32| -> u64 {
        (0..count).filter(|at| mask >> at & 1 == 1).map(|at| graph.storages()[at].bytes).sum()
    };
    let mut best: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut open = BinaryHeap::from([(core::cmp::Reverse(0), 0_u32, 0_u32)]);
    while let Some((core::cmp::Reverse(nanos), ran, here)) = open.pop() {
        if ran.count_ones() as usize == count {
            return Some(nanos);
        }
        if best.get(&(ran, here)).is_some_and(|&known| known < nanos) {
            continue;
        }
        for at in 0..count {
            let operation = &graph.operations()[at];
            let bit = 1 << at;
            let next = if here & bit > 0 {
                (nanos, ran, here & !bit)
            } else if operation.reads.iter().all(|&one| here >> one & 1 == 1)
                && held(here | bit) <= budget
            {
                (nanos + operation.nanos, ran | bit, here | bit)
            } else {
                continue;
            };
            let known = best.entry((next.1, next.2)).or_insert(u64::MAX);
            if next.0 < *known {
                *known = next.0;
                open.push((core::cmp::Reverse(next.0), next.1, next.2));
            }
        }
    }
    None
}

fn ours(graph: &Graph, budget: u64) -> Option<u64> {
    let found = Relief::new(graph).recompute(budget).run(1 << 22);
    found.feasible.then_some(found.nanos)
}

#[test]
fn ours_reaches_checkmates_optimum_and_is_never_below_it() {
    let (mut plans, mut more) = (0, 0);
    for seed in 0..10 {
        let graph = training(seed, 3);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        for budget in [least, least + (most - least) / 2, most - 1] {
            let exact = checkmate(&graph, budget);
            let found = ours(&graph, budget);
            assert_eq!(found, exact, "{seed} {budget}");
            plans += u32::from(exact.is_some());
            more += u32::from(exact.is_some_and(|exact| exact > graph.nanos()));
        }
    }
    assert!(plans > 20 && more > 10, "{plans} {more}");
}

#[test]
fn no_order_at_all_is_below_the_bound_and_few_are_below_ours() {
    let (mut plans, mut equal) = (0, 0);
    for seed in 0..40 {
        let graph = training(seed, 4);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        for budget in [least, least + (most - least) / 2] {
            let exact = shortest(&graph, budget);
            let bound = lower_bound(&graph, None, false, budget);
            assert!(exact.is_none_or(|exact| bound.is_some_and(|bound| bound <= exact)), "{seed}");
            let Some(found) = ours(&graph, budget) else { continue };
            let exact = exact.expect("ours is one");
            assert!(exact <= found, "{seed} {budget}");
            plans += 1;
            equal += u32::from(exact == found);
        }
    }
    assert!(plans > 50 && equal * 10 >= plans * 9, "{equal} of {plans}");
}
