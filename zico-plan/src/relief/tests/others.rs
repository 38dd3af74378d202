//! Ours beside all others.

use super::*;

/// Ours has a plan wherever another has one that loses nothing, and none is faster.
#[test]
fn no_other_is_faster_or_alone_with_a_plan() {
    let (mut plans, mut alone, mut faster) = (0, Vec::new(), Vec::new());
    for seed in 0..300 {
        let mut graph = at_random(seed, 40);
        graph.storages.iter_mut().for_each(|storage| storage.bytes <<= 16);
        let mut random = fastrand::Rng::with_seed(seed);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let budget = random.u64(least..=most);
        // From a transfer of a storage in a few operations to some in one.
        let link = Link { latency: 1, ..Link::symmetric(1_000_000_000_000 << random.u32(4..12)) };
        let ours = Strategy::Zico.plan(&graph, &link, budget, 10_000);
        for strategy in Strategy::ALL.into_iter().filter(|strategy| !strategy.lossy()) {
            let Some(found) = strategy.plan(&graph, &link, budget, 10_000) else { continue };
            plans += 1;
            match &ours {
                None => alone.push((seed, strategy.name())),
                Some(ours) if ours.nanos > found.nanos => {
                    faster.push((seed, strategy.name(), ours.nanos, found.nanos));
                }
                Some(_) => {}
            }
        }
    }
    assert!(plans > 1000, "{plans}");
    assert!(alone.is_empty() && faster.is_empty(), "{plans} {alone:?} {faster:?}");
}
