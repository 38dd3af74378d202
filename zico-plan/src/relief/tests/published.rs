//! What published strategies are known to do, on cases small enough to see.

use super::*;

/// A chain of so many and its way back, where each step of that reads two of the way there.
fn chain(count: u32, bytes: u64) -> Graph {
    let mut operations = Vec::new();
    for at in 0..2 * count {
        let mut reads = Vec::new();
        if at > 0 {
            reads.push(at - 1);
        }
        if at >= count {
            reads.push(2 * count - 1 - at);
        }
        operations.push(Operation { reads, writes: vec![at], nanos: 1000, repeatable: true });
    }
    let storages = vec![Storage::new(bytes); 2 * count as usize];
    Graph::new(storages, operations).expect("fine").with_backward(count)
}

fn plan(strategy: Strategy, graph: &Graph, budget: u64) -> Option<Outcome> {
    let link = Link { out: 1 << 30, back: 1 << 30, latency: 0 };
    let found = strategy.plan(graph, &link, budget, 1000)?;
    let outcome = simulate(graph, &link, &found.steps, budget).expect("fits");
    let terms = Terms { budget, lossy: strategy.lossy() };
    assert_eq!(check(graph, &link, &found.steps, &outcome.spans, terms), Ok(outcome.peak));
    Some(outcome)
}

#[test]
fn checkpoints_at_roots_take_a_forward_pass_more_and_memory_of_the_root() {
    for count in [16, 25, 36, 49, 64_u32] {
        let graph = chain(count, 10);
        let root = u64::from(count.isqrt());
        let outcome = plan(Strategy::ChenSqrt, &graph, 10 * (2 * root + 4)).expect("fits");
        assert!(outcome.recomputed <= u64::from(count) * 1000, "{count}");
        assert_eq!(plan(Strategy::ApSqrt, &graph, 10 * (2 * root + 4)), Some(outcome), "{count}");
        assert_eq!(plan(Strategy::ChenSqrt, &graph, 10 * root), None);
    }
}

#[test]
fn binomial_checkpoints_take_memory_of_the_logarithm() {
    let graph = chain(128, 10);
    let outcome = plan(Strategy::Griewank, &graph, 10 * 14).expect("fits");
    // Not quadratic: with s places each step is repeated at most r times, beta(s, r) >= n.
    assert!(outcome.recomputed < 128 * 8 * 1000, "{}", outcome.recomputed);
    assert!(plan(Strategy::ChenSqrt, &graph, 10 * 14).is_none());
}

#[test]
fn more_memory_never_makes_a_sweep_slower() {
    let graph = chain(40, 10);
    for strategy in
        [Strategy::ChenGreedy, Strategy::ApGreedy, Strategy::Griewank, Strategy::Knapsack]
    {
        let times: Vec<u64> = (4..44)
            .filter_map(|at| plan(strategy, &graph, 10 * at).map(|outcome| outcome.nanos))
            .collect();
        assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{}", strategy.name());
        assert_eq!(times.last(), Some(&graph.nanos()), "{}", strategy.name());
        // A knapsack drops what lies side by side, which comes back all at once.
        let least = if strategy == Strategy::Knapsack { 1 } else { 20 };
        assert!(times.len() >= least, "{} {}", strategy.name(), times.len());
    }
}

#[test]
fn vdnn_moves_the_inputs_of_what_it_is_told_and_nothing_else() {
    let graph = chain(10, 1 << 10);
    let kinds = (0..20).map(|at| if at % 2 == 0 { Kind::Convolution } else { Kind::Other });
    let graph = graph.with_kinds(kinds.collect());
    let moved = |strategy| plan(strategy, &graph, 1 << 20).map(|outcome| outcome.moved);
    // What an even one reads an odd one has written: 1, 3, 5, 7. The last is read at once.
    assert_eq!(moved(Strategy::VdnnConv), Some(8 << 10));
    assert_eq!(moved(Strategy::VdnnAll), Some(18 << 10));
}

#[test]
fn super_neurons_moves_before_it_repeats() {
    let graph = chain(12, 1 << 10);
    let kinds = (0..24).map(|at| if at % 3 == 0 { Kind::Convolution } else { Kind::Other });
    let graph = graph.with_kinds(kinds.collect());
    let high = plan(Strategy::SuperNeurons, &graph, 11 << 10).expect("fits");
    assert!(high.recomputed == 0 && high.moved > 0);
    assert_eq!(plan(Strategy::SuperNeuronsPool, &graph, 11 << 10), Some(high));
    let low = plan(Strategy::SuperNeurons, &graph, 7 << 10).expect("fits");
    assert!(low.recomputed > 0);
    assert_eq!(plan(Strategy::SuperNeuronsPool, &graph, 7 << 10), None);
}

#[test]
fn echo_never_repeats_what_is_heavy() {
    let graph = chain(12, 10);
    let kinds = (0..24).map(|at| if at % 2 == 0 { Kind::Product } else { Kind::Other });
    let graph = graph.with_kinds(kinds.collect());
    let link = Link::symmetric(1);
    let found = Strategy::Echo.plan(&graph, &link, 90, 0).expect("fits");
    let mut ran = vec![0; 24];
    for step in &found.steps {
        if let Step::Run(run) = step {
            ran[*run as usize] += 1;
        }
    }
    assert!(ran.iter().step_by(2).all(|&runs| runs == 1), "{ran:?}");
    assert!(ran.iter().any(|&runs| runs > 1));
}

#[test]
fn gist_encodes_without_loss_unless_it_is_asked_to() {
    let kinds = [Kind::Convolution, Kind::Rectifier, Kind::Pooling, Kind::Other];
    let kinds = (0..24).map(|at| if at < 12 { kinds[at % 4] } else { kinds[(23 - at) % 4] });
    let graph = chain(12, 3200).with_kinds(kinds.collect());
    let gist = Gist { sparsity: 0.5, bytes_per_second: 1 << 40, lossy: true };
    let encodings = gist.encodings(&graph);
    // Read by a rectifier's way back alone; and by nobody who needs it exactly.
    let one = encodings[1].expect("encoded");
    assert_eq!((one.bytes, one.lossy), (100, false));
    let other = encodings[0].expect("encoded");
    assert_eq!((other.bytes, other.lossy), (1600, true));
    let graph = graph.with_encodings(encodings);
    let most = graph.live().into_iter().max().expect("some");
    let peak = |strategy| plan(strategy, &graph, most).map(|outcome| outcome.peak);
    let (exact, lossy) = (peak(Strategy::Gist), peak(Strategy::GistLossy));
    assert!(lossy < exact && exact < Some(most), "{lossy:?} {exact:?} {most}");
    // Ours uses them where they pay: encoding takes nanoseconds here, an operation a microsecond.
    let budget = most * 7 / 10;
    let ours = plan(Strategy::ZicoLossy, &graph, budget).expect("fits");
    let without = plan(Strategy::Recompute, &graph, budget).expect("fits");
    assert!(ours.encoding > 0 && ours.nanos < without.nanos, "{ours:?} {}", without.nanos);
    let exact = plan(Strategy::Zico, &graph, budget).expect("fits");
    assert!(exact.nanos >= ours.nanos && exact.nanos <= without.nanos);
}

/// Layers with a parameter each, whose normalisation changes statistics in place and so cannot run
/// again; in the end the parameters are changed in place.
fn training(layers: u32) -> Graph {
    let mut storages = vec![Storage::persistent(1); 2 * layers as usize];
    let mut operations = Vec::new();
    let mut run = |reads: Vec<u32>, writes: Vec<u32>, repeatable| {
        operations.push(Operation { reads, writes, nanos: 1000, repeatable });
    };
    let mut new = || {
        storages.push(Storage::new(10));
        u32::try_from(storages.len() - 1).expect("few")
    };
    let mut last = new();
    run(vec![], vec![last], false);
    let mut saved = Vec::new();
    for layer in 0..layers {
        let (product, normal) = (new(), new());
        run(vec![last, 2 * layer], vec![product], true);
        run(vec![product, 2 * layer + 1], vec![normal, 2 * layer + 1], true);
        saved.push((layer, last, product));
        last = normal;
    }
    for (layer, input, product) in saved.into_iter().rev() {
        let (one, other) = (new(), new());
        run(vec![last, product], vec![one], true);
        run(vec![one, input, 2 * layer], vec![other], true);
        last = other;
    }
    (0..layers).for_each(|layer| run(vec![last], vec![2 * layer], true));
    Graph::new(storages, operations).expect("fine")
}

#[test]
fn dtr_lets_go_of_what_cannot_be_made_again() {
    let graph = training(12);
    for strategy in [Strategy::Dtr, Strategy::DtrEq, Strategy::DtrLocal, Strategy::DtrSize] {
        let all = plan(strategy, &graph, graph.peak()).expect("fits");
        assert_eq!(all.recomputed, 0, "{strategy:?}");
        // The products leave, each to be made again before the way back reads it.
        let fewer = plan(strategy, &graph, graph.peak() * 7 / 10).expect("fits");
        assert!(fewer.recomputed > 0 && fewer.recomputed <= 12 * 1000, "{strategy:?}: {fewer:?}");
    }
}

#[test]
fn capuchin_swaps_what_cannot_be_made_again() {
    let graph = training(12);
    let outcome = plan(Strategy::Capuchin, &graph, graph.peak() / 2).expect("fits");
    assert!(outcome.moved > 0);
}
