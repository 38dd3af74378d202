//! What persists, on the device or on the host.

use alloc::vec;

use super::{LINK, at_random, terms};
use crate::relief::*;

/// The same where most of memory persists: parameters that operations read early and late, state of
/// an optimizer that is changed in place, and some that nothing uses.
fn with_state(seed: u64, count: u32) -> Graph {
    let graph = at_random(seed, count);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut storages, mut operations) = (graph.storages, graph.operations);
    for _ in 0..random.u32(2..8) {
        let name = u32::try_from(storages.len()).expect("few");
        storages.push(Storage::persistent(random.u64(1..200)));
        for _ in 0..random.usize(0..3) {
            let reader = random.usize(0..operations.len());
            operations[reader].reads.push(name);
        }
        if random.bool() {
            let (reads, writes) = (vec![name - random.u32(0..2)], vec![name]);
            operations.push(Operation {
                reads,
                writes,
                nanos: random.u64(0..50),
                repeatable: true,
            });
        }
    }
    Graph::new(storages, operations).expect("each reads what is there")
}

#[test]
fn plans_hold_with_what_persists_on_the_host() {
    let (mut plans, mut hosted, mut copies) = (0, 0, 0);
    for seed in 0..150 {
        let graph = with_state(seed, 30);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        assert!(least <= graph.resident_set());
        let link = Link { out: 20_000_000_000, back: 15_000_000_000, latency: 1 };
        for share in [0, 2, 4, 7] {
            let budget = least + (most - least) * share / 8;
            let Some(found) = joint(&graph, &link, budget, 10_000) else { continue };
            let outcome = simulate(&graph, &link, &found.steps, budget).expect("fits");
            let checked = check(&graph, &link, &found.steps, &outcome.spans, terms(budget));
            assert_eq!((checked, outcome.nanos), (Ok(outcome.peak), found.nanos), "{seed}");
            let bound = lower_bound(&graph, Some(&link), true, budget);
            assert!(bound.expect("there is a plan") <= found.nanos, "{seed} {budget}");
            plans += 1;
            hosted += u32::from(matches!(found.steps[0], Step::Hosted(_)));
            // What comes back and leaves unchanged leaves without a transfer.
            let count = |is: fn(&Step) -> bool| found.steps.iter().filter(|step| is(step)).count();
            let (out, back) =
                (count(|s| matches!(s, Step::Out(_))), count(|s| matches!(s, Step::In(_))));
            copies += u32::from(out < back);
        }
    }
    for seed in 0..20 {
        let graph = with_state(seed, 30).with_resident_state();
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let link = Link { out: 20_000_000_000, back: 15_000_000_000, latency: 1 };
        let Some(found) = joint(&graph, &link, least.midpoint(most), 10_000) else { continue };
        let moves = |step: &Step| match *step {
            Step::Hosted(one) | Step::Out(one) => graph.storages()[one as usize].initial,
            _ => false,
        };
        assert!(!found.steps.iter().any(moves), "{seed}");
    }
    assert!(plans > 400 && hosted > 150 && copies > 150, "{plans} {hosted} {copies}");
}

/// A parameter that one operation reads and another one changes.
#[test]
fn what_is_on_the_host_before_the_iteration_is_there_after_it() {
    let operation = |reads: &[u32], writes: &[u32]| Operation {
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        nanos: 5,
        repeatable: true,
    };
    let storages = vec![Storage::persistent(10), Storage::new(10), Storage::persistent(30)];
    let operations = vec![operation(&[], &[1]), operation(&[0, 1], &[]), operation(&[], &[0])];
    let graph = Graph::new(storages, operations).expect("fine");
    assert_eq!((graph.working_set(), graph.resident_set()), (20, 50));
    assert_eq!(graph.clone().with_resident_state().working_set(), 50);
    let judge = |steps: &[Step]| {
        let outcome = simulate(&graph, &LINK, steps, 20).map_err(|refusal| refusal.fault)?;
        let checked = check(&graph, &LINK, steps, &outcome.spans, terms(20));
        checked.map_err(|refusal| refusal.fault)
    };
    let (run, both) = (Step::Run, [Step::Hosted(0), Step::Hosted(2)]);
    let with = |steps: &[Step]| judge(&[&both[..], steps].concat());
    let good = [run(0), Step::In(0), run(1), Step::Drop(1), run(2), Step::Out(0)];
    assert_eq!(with(&good), Ok(20));
    // It is not there any more, not there in its last version, or still on the device.
    let not_hosted = Err(Fault::NotHosted { storage: 0 });
    assert_eq!(with(&good[..5]), not_hosted);
    let early = [run(0), Step::In(0), run(1), Step::Out(0), Step::In(0), run(2), Step::Drop(0)];
    assert_eq!(with(&[&early[..], &[Step::Drop(1)]].concat()), Err(Fault::Stale { storage: 0 }));
    let back = [&good[..], &[Step::In(0)]].concat();
    assert_eq!(with(&back), not_hosted);
    // Said too late, twice, and of what does not persist.
    let late = [&good[..1], &both[..1], &good[1..]].concat();
    assert_eq!(judge(&[&both[1..], &late[..]].concat()), not_hosted);
    assert_eq!(judge(&[&both[..1], &both[..], &good[..]].concat()), not_hosted);
    assert_eq!(with(&[Step::Hosted(1)]), Err(Fault::NotHosted { storage: 1 }));
    assert_eq!(with(&[Step::Hosted(9)]), Err(Fault::Unknown));
    // What is not on the host has to fit.
    assert_eq!(judge(&[&both[..1], &good[..]].concat()), Err(Fault::OverBudget { bytes: 30 }));
    // The checker looks by itself.
    let outcome = simulate(&graph, &LINK, &[&both[..], &good[..]].concat(), 20).expect("fits");
    let mut spans = outcome.spans;
    spans[0].end += 1;
    let checked = check(&graph, &LINK, &[&both[..], &good[..]].concat(), &spans, terms(20));
    assert_eq!(checked.map_err(|refusal| refusal.fault), Err(Fault::Untimely));
    let spans = vec![Span::default(); late.len()];
    let checked = check(
        &graph,
        &LINK,
        &[run(2), Step::Hosted(0)],
        &[Span { start: 0, end: 5 }, spans[0]],
        terms(50),
    );
    assert_eq!(checked.map_err(|refusal| refusal.fault), not_hosted.map(|_: u64| 0));
}

/// Two parameters that are only read come back in turn, and never leave over the link: one way may
/// be as slow as can be.
#[test]
fn what_is_only_read_comes_back_and_never_leaves() {
    let reads = |reads: &[u32]| Operation {
        reads: reads.to_vec(),
        nanos: 5,
        repeatable: true,
        ..Operation::default()
    };
    let storages = vec![Storage::persistent(100); 2];
    let graph = Graph::new(storages, vec![reads(&[]), reads(&[0]), reads(&[1])]).expect("fine");
    let link = Link { out: 1, back: 1_000_000_000, latency: 0 };
    let found = joint(&graph, &link, 100, 0).expect("both fit by turns");
    let outcome = simulate(&graph, &link, &found.steps, 100).expect("fits");
    assert!(check(&graph, &link, &found.steps, &outcome.spans, terms(100)).is_ok());
    assert_eq!((found.nanos, outcome.moved), (210, 200));
    let bound = lower_bound(&graph, Some(&link), false, 100).expect("there is a plan");
    assert!((100..=found.nanos).contains(&bound), "{bound}");
    // The planner of recomputation knows that they are not there in the beginning.
    let gaps = swap::gaps_of_all(&graph, 1, true);
    let hosted = gaps.iter().filter(|gap| gap.may_be_hosted(&graph));
    let moves = hosted.flat_map(|gap| gap.hosted(&graph)).map(|gap| gap.waits()).collect();
    assert_eq!(Relief::with_moves(&graph, moves).problem.base[..3], [0; 3]);
    assert!(!Relief::new(&graph).problem.may_fit(199));
}
