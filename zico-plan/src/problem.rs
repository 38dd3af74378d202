//! A component of a problem as the planner works on it: blocks that matter, ranked in time.
//!
//! Blocks of no size and of empty lifetimes conflict with nothing and are left out. What remains
//! falls apart at moments that no lifetime crosses: each such **component** is planned by itself.
//! Within one, time is cut into **sections**: maximal sets of blocks that are alive at one moment.
//! Two blocks conflict exactly if they share a section, and there are no more sections than blocks.

use alloc::vec::Vec;

use super::Block;

/// Blocks that no cut separates.
#[derive(Debug)]
pub(super) struct Component {
    /// The position of each block among the caller's.
    pub(super) ids: Vec<u32>,
    pub(super) size: Vec<u64>,
    pub(super) align: Vec<u64>,
    /// The length of each lifetime.
    pub(super) life: Vec<u64>,
    /// The sections of a block: from `from` up to `to`, which is excluded.
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    /// The bytes alive in each section.
    pub(super) live: Vec<u64>,
    /// The largest live sum: no plan is lower.
    pub(super) bound: u64,
}

impl Component {
    /// The components of valid blocks, in the order of time.
    pub(super) fn all(blocks: &[Block]) -> Vec<Self> {
        let mut ids: Vec<u32> =
            (0..).zip(blocks).filter(|(_, b)| b.matters()).map(|p| p.0).collect();
        ids.sort_by_key(|&id| (blocks[id as usize].lower, blocks[id as usize].upper, id));
        let mut all = Vec::new();
        let (mut first, mut end) = (0, 0);
        for (i, &id) in ids.iter().enumerate() {
            let block = &blocks[id as usize];
            if block.lower >= end && i > first {
                all.push(Self::new(blocks, ids[first..i].to_vec()));
                first = i;
            }
            end = end.max(block.upper);
        }
        if first < ids.len() {
            all.push(Self::new(blocks, ids[first..].to_vec()));
        }
        all
    }

    fn new(blocks: &[Block], ids: Vec<u32>) -> Self {
        let of = |value: fn(&Block) -> u64| -> Vec<u64> {
            ids.iter().map(|&id| value(&blocks[id as usize])).collect()
        };
        let (from, to, sections) = sections(&of(|b| b.lower), &of(|b| b.upper));
        let size = of(|b| b.size);
        let live = live(&size, &from, &to, sections);
        let bound = live.iter().copied().max().unwrap_or(0);
        let (align, life) = (of(|b| b.align), of(|b| b.upper - b.lower));
        Self { ids, size, align, life, from, to, live, bound }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// With how many others each block conflicts. O(n).
    pub(super) fn conflicts(&self) -> Vec<u64> {
        // Those alive where a block begins, and those that begin while it lives.
        let mut begun = alloc::vec![0_u64; self.live.len() + 1];
        let mut ended = begun.clone();
        for i in 0..self.len() {
            begun[self.from[i] as usize] += 1;
            ended[self.to[i] as usize] += 1;
        }
        for s in 1..begun.len() {
            begun[s] += begun[s - 1];
            ended[s] += ended[s - 1];
        }
        let of = |i: usize| begun[self.to[i] as usize - 1] - ended[self.from[i] as usize] - 1;
        (0..self.len()).map(of).collect()
    }

    /// The height of offsets.
    pub(super) fn height(&self, offsets: &[u64]) -> u64 {
        offsets.iter().zip(&self.size).map(|(offset, size)| offset + size).max().unwrap_or(0)
    }
}

/// The bytes alive in each section. O(n), however many sections the blocks live through.
fn live(size: &[u64], from: &[u32], to: &[u32], sections: usize) -> Vec<u64> {
    let (mut begin, mut end) = (alloc::vec![0; sections + 1], alloc::vec![0; sections + 1]);
    for (i, &bytes) in size.iter().enumerate() {
        begin[from[i] as usize] += bytes;
        end[to[i] as usize] += bytes;
    }
    let mut sum = 0_u64;
    let sections = begin.iter().zip(&end).take(sections);
    sections.map(|(begin, end)| (sum = sum - end + begin, sum).1).collect()
}

/// The sections of lifetimes, and how many there are. A section ends where a block ends after one
/// has begun.
fn sections(lower: &[u64], upper: &[u64]) -> (Vec<u32>, Vec<u32>, usize) {
    let n = lower.len();
    let mut points: Vec<(u64, bool, u32)> = (0..)
        .zip(lower.iter().zip(upper))
        .flat_map(|(i, (&lower, &upper))| [(lower, true, i), (upper, false, i)])
        .collect();
    // Who ends at a moment is gone before others begin.
    points.sort_unstable();
    let (mut from, mut to) = (alloc::vec![0; n], alloc::vec![0; n]);
    let (mut section, mut begun) = (0_u32, false);
    for (_, begins, i) in points {
        if begins {
            from[i as usize] = section;
            begun = true;
        } else {
            section += u32::from(begun);
            begun = false;
            to[i as usize] = section;
        }
    }
    (from, to, section as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_lifetimes_are_apart_and_sections_are_maximal() {
        let lives = [(0, 5), (1, 2), (2, 4), (5, 9), (5, 5)];
        let blocks: Vec<Block> = lives.map(|(lower, upper)| Block::new(lower, upper, 1)).into();
        let all = Component::all(&blocks);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].ids, [0, 1, 2]);
        assert_eq!(all[0].live, [2, 2]);
        assert_eq!((&all[0].from[..], &all[0].to[..]), (&[0, 0, 1][..], &[2, 1, 2][..]));
        assert_eq!(all[0].conflicts(), [2, 1, 1]);
        assert_eq!(all[1].ids, [3]);
    }
}
