//! Blocks whose arena was decided before.

use super::*;

const PAGE: u64 = 1 << 16;
const SIZES: [u64; 4] = [5 * PAGE, 512, 9 * PAGE, 3 * PAGE];

/// A job that allocates, and whatever it needs is backed.
struct Job {
    placement: Placement,
    next: u64,
    signature: Signature,
}

impl Job {
    fn alloc(&mut self, size: u64, decided: Option<Lifetime>) -> Block {
        let request = Request::learned(Bytes::new(size));
        let (home, address) = loop {
            let placed = self.placement.place(request, size, 512, decided, self.next);
            if let Some(placed) = placed {
                break placed;
            }
            let needed = self.placement.want(request, size, 512, decided, Vec::new());
            let needed = needed.expect("the range is long");
            self.placement.back(needed.zone, &needed.pages);
        };
        self.next += 1;
        self.signature.push(size);
        Block::new(address, Bytes::new(size), self.next - 1, home)
    }

    /// An iteration in which something else is allocated before the third of its blocks.
    fn iterate(&mut self, between: Option<(u64, Option<Lifetime>)>) {
        self.signature = Signature::default();
        self.placement.begin(None, self.next);
        let mut blocks: Vec<Block> =
            SIZES[..2].iter().map(|&size| self.alloc(size, None)).collect();
        blocks.extend(between.map(|(size, decided)| self.alloc(size, decided)));
        blocks.extend(SIZES[2..].iter().map(|&size| self.alloc(size, None)));
        for block in blocks {
            assert!(self.placement.free(block).is_some());
        }
        if let Some(task) = self.placement.end(self.signature, self.next) {
            self.placement.install(task.plan(PAGE).expect("few blocks"));
        }
    }
}

/// It was asked for before the iteration began, and its arena is that of what persists; or it is
/// as large as what is foreseen next, and goes elsewhere.
#[test]
fn what_was_decided_before_the_iteration_ends_its_plan() {
    for size in [700, SIZES[2]] {
        for decided in [Lifetime::Persistent, Lifetime::Iteration] {
            let bases = [1 << 40, 2 << 40].map(Addr::new);
            let placement = Placement::new(bases, PAGE, 1 << 30, true);
            let mut job = Job { placement, next: 1, signature: Signature::default() };
            (0..4).for_each(|_| job.iterate(None));
            let before = job.placement.planning();
            assert!(before.placed >= SIZES.len() as u64 && before.departed == 0);
            job.iterate(Some((size, Some(decided))));
            let placed = job.placement.planning().placed - before.placed;
            assert_eq!(placed, 2, "{size} {decided:?}");
            job.iterate(None);
            let placed = job.placement.planning().placed - before.placed;
            assert_eq!(placed, 2 + SIZES.len() as u64, "the plan is still there");
        }
    }
}
