//! Greedy plans: one block after the other, each into a free place among those that are there.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::problem::Component;
use super::work::Work;

/// In which order blocks are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest first, those of one size by their beginning.
    Size,
    /// The largest first, those of one size by their length.
    SizeLife,
}

/// Which of the free places a block gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The lowest.
    First,
    /// The smallest that is large enough, of these the lowest; above all blocks only if there is none.
    Best,
}

/// The blocks of a component in an order.
pub(super) fn order(c: &Component, order: Order) -> Vec<u32> {
    let mut blocks: Vec<u32> = (0..c.len() as u32).collect();
    // Blocks are numbered by their beginning, and the sort is stable.
    blocks.sort_by_cached_key(|&i| {
        let i = i as usize;
        Reverse((c.size[i], if order == Order::SizeLife { c.life[i] } else { 0 }))
    });
    blocks
}

/// Places blocks in an order, within the work. O(n^2), with no list of conflicts.
pub(super) fn plan(c: &Component, order: &[u32], fit: Fit, work: &mut Work) -> Option<Vec<u64>> {
    let mut offsets = alloc::vec![0; c.len()];
    // What is placed, by offset: sections, offset, end.
    let mut placed: Vec<Placed> = Vec::with_capacity(order.len());
    for &i in order {
        let i = i as usize;
        let offset = hole(c, &placed, i, fit, work)?;
        offsets[i] = offset;
        let (from, to, end) = (c.from[i], c.to[i], offset + c.size[i]);
        let at = placed.partition_point(|other| other.offset < offset);
        work.spend(1 + (placed.len() - at) as u64)?;
        placed.insert(at, Placed { from, to, offset, end });
    }
    Some(offsets)
}

#[derive(Clone, Copy)]
struct Placed {
    from: u32,
    to: u32,
    offset: u64,
    end: u64,
}

fn hole(c: &Component, placed: &[Placed], block: usize, fit: Fit, work: &mut Work) -> Option<u64> {
    let (from, to, size) = (c.from[block], c.to[block], c.size[block]);
    let (mut top, mut best) = (0_u64, None);
    for other in placed {
        work.spend(1)?;
        if other.from >= to || other.to <= from {
            continue;
        }
        let offset = top.next_multiple_of(c.align[block]);
        let room = other.offset.saturating_sub(offset);
        if room >= size && best.is_none_or(|(least, _)| room < least) {
            best = Some((room, offset));
            if fit == Fit::First || room == size {
                break;
            }
        }
        top = top.max(other.end);
    }
    Some(best.map_or(top.next_multiple_of(c.align[block]), |(_, offset)| offset))
}
