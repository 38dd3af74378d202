//! vDNN (Rhu et al., MICRO 2016): what the layers of the forward pass read goes to the host after
//! its last use there, of all layers or of convolutions alone, whatever the budget; it is
//! prefetched when the backward pass begins with the convolution before the layer that reads it.
//!
//! There the next layer waits until an offload has ended. Here it waits if it needs the memory.

use alloc::vec::Vec;

use super::mixed::{self, Choice};
use crate::relief::swap::{Gap, Move, Way};
use crate::relief::{Graph, Link, Step};

/// The schedule, if it fits: with prefetching, or else with each transfer on demand.
pub(in crate::relief) fn steps(
    graph: &Graph,
    link: &Link,
    budget: u64,
    convolutions: bool,
) -> Option<Vec<Step>> {
    let heavy = mixed::heavy(graph);
    let boundary = graph.backward();
    let read = |gap: &Gap| {
        let of_forward = (0..).zip(graph.operations()).take(boundary as usize);
        let mut readers =
            of_forward.filter(|(_, one)| one.reads.binary_search(&gap.storage).is_ok());
        readers.any(|(at, _): (usize, _)| !convolutions || heavy[at])
    };
    let gaps: Vec<Gap> = mixed::saved_gaps(graph).into_iter().filter(read).collect();
    let heavy_backward: Vec<u32> = (boundary..)
        .zip(&heavy[boundary as usize..])
        .filter(|one| *one.1)
        .map(|one| one.0)
        .collect();
    let prefetched = |gap: &Gap| {
        let at = heavy_backward.partition_point(|&one| one < gap.before);
        let back = if at == 0 { boundary } else { heavy_backward[at - 1] };
        let &Gap { storage, from, before, ends, .. } = gap;
        let back = back.clamp(from, before);
        Move { storage, from, gone: back, back, before, way: Way::Link(ends) }
    };
    let choice = Choice::nothing(graph);
    let early: Vec<Move> = gaps.iter().map(prefetched).collect();
    let late: Vec<Move> = gaps.iter().map(Gap::late).collect();
    [early, late]
        .into_iter()
        .find_map(|moves| choice.with(graph, link, budget, moves))
        .map(|found| found.1)
}
