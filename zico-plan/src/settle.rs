//! Plans of one height: which of them has the fewest regions in use over time.

use alloc::vec::Vec;

use super::problem::Component;
use super::work::Work;
use super::{Block, extent};

/// The fast plans of a component, and what was measured of them.
#[derive(Debug)]
pub(super) struct Settled {
    region: u64,
    fast: Vec<Measured>,
    best: Option<Measured>,
}

/// A plan, and the region-moments of it and of its mirror image, once they are known.
#[derive(Debug)]
struct Measured {
    offsets: Vec<u64>,
    height: u64,
    upright: Option<u128>,
    mirrored: Option<Option<u128>>,
}

impl Settled {
    pub(super) const fn new(region: u64) -> Self {
        Self { region, fast: Vec::new(), best: None }
    }

    pub(super) const fn region(&self) -> u64 {
        self.region
    }

    pub(super) const fn len(&self) -> usize {
        self.fast.len()
    }

    pub(super) fn add(&mut self, c: &Component, offsets: Vec<u64>) {
        self.fast.push(Measured::new(c, offsets));
    }

    /// Of the best plan, the fast plans and their mirror images, those up to `height`, the one with the
    /// fewest regions in use over time. Each is measured once: O(n log n).
    pub(super) fn choose(
        &mut self,
        c: &Component,
        blocks: &[Block],
        best: &[u64],
        height: u64,
        work: &mut Work,
    ) -> Vec<u64> {
        let best = match self.best.take().filter(|known| known.offsets == best) {
            Some(known) => known,
            None => Measured::new(c, best.to_vec()),
        };
        let best = self.best.insert(best);
        let upright = self.fast.iter_mut().filter(|plan| plan.height <= height);
        let mut all: Vec<&mut Measured> = [best].into_iter().chain(upright).collect();
        let region = self.region.max(1);
        let mut measure = |offsets: &[u64]| {
            work.count(extent::steps(c.len()));
            let placed = c.ids.iter().map(|&id| blocks[id as usize]).zip(offsets.iter().copied());
            extent::of(&placed.collect::<Vec<_>>(), region).region_moments
        };
        // Which plan, and whether it is turned: of equals the first that is upright.
        let (mut least, mut chosen) = (u128::MAX, (0, false));
        for turned in [false, true] {
            for (which, plan) in all.iter_mut().enumerate() {
                let moments = if turned {
                    plan.mirrored(c, &mut measure)
                } else {
                    Some(*plan.upright.get_or_insert_with(|| measure(&plan.offsets)))
                };
                if let Some(moments) = moments.filter(|&moments| moments < least) {
                    (least, chosen) = (moments, (which, turned));
                }
            }
        }
        let offsets = &all[chosen.0].offsets;
        let mirrored = if chosen.1 { mirror(c, offsets) } else { None };
        mirrored.unwrap_or_else(|| offsets.clone())
    }
}

impl Measured {
    fn new(c: &Component, offsets: Vec<u64>) -> Self {
        Self { height: c.height(&offsets), offsets, upright: None, mirrored: None }
    }

    fn mirrored(
        &mut self,
        c: &Component,
        measure: &mut impl FnMut(&[u64]) -> u128,
    ) -> Option<u128> {
        let Self { offsets, mirrored, .. } = self;
        *mirrored.get_or_insert_with(|| mirror(c, offsets).map(|turned| measure(&turned)))
    }
}

/// A plan upside down, unless alignments forbid it.
fn mirror(c: &Component, plan: &[u64]) -> Option<Vec<u64>> {
    let height = c.height(plan);
    let turned: Vec<u64> = plan.iter().zip(&c.size).map(|(at, size)| height - at - size).collect();
    turned.iter().zip(&c.align).all(|(at, align)| at % align == 0).then_some(turned)
}
