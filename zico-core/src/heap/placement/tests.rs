//! Which arena a block goes to, and what was decided before.

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
    fn new(plans: bool) -> Self {
        let bases = [1 << 40, 2 << 40].map(Addr::new);
        let placement = Placement::new(bases, PAGE, 1 << 30, plans);
        Self { placement, next: 1, signature: Signature::default() }
    }

    fn alloc(&mut self, size: u64, decided: Option<Lifetime>) -> Block {
        self.get(Request::learned(Bytes::new(size)), decided)
    }

    fn get(&mut self, request: Request, decided: Option<Lifetime>) -> Block {
        let size = request.bytes.value();
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
            let mut job = Job::new(true);
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

/// D70: the job says of a block that it lives within the iteration, and frees it in the next one.
/// It lies in the way of the plan, and goes to what persists once, so that the next one does not.
#[test]
fn what_outlives_its_iteration_persists_where_it_keeps_the_plan_away() {
    let mut job = Job::new(true);
    let told = |granules: u64| Request::new(Bytes::new(granules * 512), Lifetime::Iteration);
    let (iteration, persistent) = (Zone::Iteration, Zone::Persistent);
    let (mut left, mut placed): (Option<Block>, Vec<u64>) = (None, Vec::new());
    for zone in [iteration, iteration, persistent, iteration, iteration] {
        let before = job.placement.planning().placed;
        job.signature = Signature::default();
        job.placement.begin(None, job.next);
        let first = job.get(told(16), None);
        left.into_iter().for_each(|block| assert!(job.placement.free(block).is_some()));
        let second = job.get(told(125), None);
        assert!(job.placement.free(first).is_some());
        let said = if zone == iteration { Told::ByTheJob } else { Told::Learned };
        assert_eq!(job.placement.told(told(22), zone), said);
        let kept = job.get(told(22), None);
        assert!(job.placement.free(second).is_some());
        let zones = [first, second, kept].map(|block| block.home().zone());
        assert_eq!(zones, [iteration, iteration, zone]);
        left = Some(kept);
        if let Some(task) = job.placement.end(job.signature, job.next) {
            job.placement.install(task.plan(PAGE).expect("few blocks"));
        }
        placed.push(job.placement.planning().placed - before);
    }
    assert_eq!(placed, [0, 0, 0, 3, 3]);
}
