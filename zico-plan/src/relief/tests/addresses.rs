//! Layouts of schedules, and curves of budgets.

use super::*;
use crate::Block;

const HOW: Addresses = Addresses { align: 1, region: 64, work: 100_000 };

#[test]
fn a_layout_is_one_and_its_peak_is_the_schedules() {
    let mut moved = 0;
    for seed in 0..60 {
        let graph = at_random(seed, 30);
        let steps = with_moves(&graph, seed);
        let outcome = simulate(&graph, &LINK, &steps, u64::MAX).expect("fits");
        let placed = addresses(&graph, &steps, &outcome, HOW).expect("sizes are small");
        assert_eq!(placed.peak, outcome.peak, "{seed}");
        assert!(placed.extent >= placed.peak && placed.regions * 64 >= placed.extent.min(1));
        // By the clock no two that are there at once overlap.
        let moment = |step: Option<usize>, end: bool| {
            step.map_or(if end { u64::MAX } else { 0 }, |step| {
                if end { outcome.spans[step].end } else { outcome.spans[step].start }
            })
        };
        let all = &placed.residencies;
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                let apart = one.offset + one.bytes <= other.offset
                    || other.offset + other.bytes <= one.offset;
                let after = moment(one.from, false) >= moment(other.to, true)
                    || moment(other.from, false) >= moment(one.to, true);
                assert!(apart || after || one.bytes == 0 || other.bytes == 0, "{seed}");
            }
            moved += u32::from(one.from.is_some_and(|step| matches!(steps[step], Step::In(_))));
        }
        let blocks: Vec<Block> = all.iter().map(|one| Block::new(0, 1, one.bytes)).collect();
        assert!(blocks.iter().zip(all).all(|(_, one)| one.offset + one.bytes <= placed.extent));
    }
    assert!(moved > 100, "{moved}");
}

#[test]
fn what_is_placed_fits_in_addresses() {
    let mut fits = 0;
    for seed in 0..40 {
        let graph = at_random(seed, 40);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let budget = least + (most - least) * 3 / 4;
        let link = Link::symmetric(20_000_000_000);
        let planned = placed(Strategy::Zico, &graph, &link, budget, 1000, HOW).expect("small");
        let Some((found, placed)) = planned else { continue };
        let outcome = simulate(&graph, &link, &found.steps, budget).expect("fits");
        let checked = check(&graph, &link, &found.steps, &outcome.spans, terms(budget));
        assert!(placed.extent <= budget && checked.is_ok(), "{seed}");
        fits += 1;
    }
    assert!(fits > 20, "{fits}");
}

#[test]
fn a_curve_has_no_point_that_another_beats() {
    let mut steps = 0;
    for seed in 0..20 {
        let graph = at_random(seed, 40);
        let (least, most) = (graph.working_set(), graph.live().into_iter().max().expect("some"));
        let budgets: Vec<u64> = (0..=8).map(|at| least + (most - least) * at / 8).collect();
        let link = Link::symmetric(20_000_000_000);
        let curve = curve(Strategy::Zico, &graph, &link, &budgets, 1000, HOW).expect("small");
        let all = curve.points();
        let falls =
            |pair: &[Point]| pair[0].extent < pair[1].extent && pair[0].nanos > pair[1].nanos;
        assert!(all.windows(2).all(falls), "{seed}");
        let last = all.last().expect("all fits in the most");
        assert_eq!(last.nanos, graph.nanos(), "{seed}");
        assert_eq!(curve.at(u64::MAX), Some(last));
        assert_eq!(curve.at(all[0].extent - 1), None);
        assert_eq!(curve.within(all[0].nanos), Some(&all[0]));
        assert_eq!(curve.within(last.nanos - 1), None);
        steps += all.len() - 1;
    }
    assert!(steps > 10, "{steps}");
}
