//! Iterations at random.

use proptest::collection::vec;
use proptest::prelude::*;

use super::gaps::gaps_are_short;
use super::*;

/// A change of an iteration.
#[derive(Clone, Debug)]
enum Change {
    None,
    /// One more allocation of this size before the n-th.
    More(usize, u64),
    /// The n-th is left out.
    Fewer(usize),
    /// The n-th has another size.
    Other(usize, u64),
    /// What the n-th allocation makes lives for so many more operations.
    Longer(usize, usize),
    /// Nothing from the n-th on.
    Short(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let (at, size) = (0_usize..160, 1_u64..40);
    prop_oneof![
        4 => Just(Change::None),
        1 => (at.clone(), size.clone()).prop_map(|(at, size)| Change::More(at, size)),
        1 => at.clone().prop_map(Change::Fewer),
        1 => (at.clone(), size).prop_map(|(at, size)| Change::Other(at, size)),
        2 => (at.clone(), 1_usize..90).prop_map(|(at, more)| Change::Longer(at, more)),
        1 => at.prop_map(Change::Short),
    ]
}

/// Allocations of an iteration: sizes, and how many allocations later each is freed.
fn blocks() -> impl Strategy<Value = Vec<(u64, usize)>> {
    vec((1_u64..40, 0_usize..90), 1..160)
}

fn changed(mut blocks: Vec<(u64, usize)>, change: &Change) -> Vec<(u64, usize)> {
    let n = blocks.len();
    match *change {
        Change::None => {}
        Change::More(at, size) => blocks.insert(at % (n + 1), (size, 3)),
        _ if n == 0 => {}
        Change::Fewer(at) => drop(blocks.remove(at % n)),
        Change::Other(at, size) => blocks[at % n].0 = size,
        Change::Longer(at, more) => blocks[at % n].1 += more,
        Change::Short(at) => blocks.truncate(at % n),
    }
    blocks
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever changes, no two blocks overlap (`Program::alloc` looks), a page goes back exactly
    /// when it is empty, and all blocks can be freed.
    #[test]
    fn nothing_overlaps(
        kinds in vec(blocks(), 1..3),
        alike in 0_usize..20,
        rounds in vec((0_usize..3, vec(change(), 0..4), any::<bool>()), 1..16),
    ) {
        let mut kinds = kinds;
        if let [one, other] = &mut kinds[..] {
            // They begin with the same allocations.
            let alike = alike.min(one.len());
            other.splice(..0, one[..alike].iter().copied());
        }
        let mut job = Program::new();
        // Allocations until each is freed.
        let mut alive: Vec<(usize, Handle)> = Vec::new();
        let free_due = |job: &mut Program, made: usize, alive: &mut Vec<(usize, Handle)>| {
            alive.iter_mut().for_each(|block| block.0 = block.0.saturating_sub(made));
            for (_, handle) in alive.extract_if(.., |block| block.0 == 0) {
                job.free(handle);
            }
        };
        for (kind, changes, tells) in rounds {
            let kind = kind % kinds.len();
            job.begin(tells.then_some(kind as u64));
            let blocks = changes.iter().fold(kinds[kind].clone(), changed);
            for (size, life) in blocks {
                let handle = job.alloc(size * 300);
                alive.push((life + 1, handle));
                free_due(&mut job, 1, &mut alive);
            }
            job.end();
        }
        free_due(&mut job, usize::MAX, &mut alive);
        job.planned.plans.iter().for_each(|plan| gaps_are_short(&plan.layout));
        prop_assert_eq!(job.blocks().count(), 0);
        prop_assert!(job.backed.is_empty() && job.planned.pages.is_bare() && job.arena.is_empty());
    }
}
