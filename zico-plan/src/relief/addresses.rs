//! Where the storages of a schedule lie, and plans that fit in addresses and not in bytes alone.

use alloc::vec::Vec;

use crate::relief::{Found, Graph, Link, Outcome, Step, Strategy, simulate};
use crate::{Block, PlanError, Planner, extent};

/// How storages are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Offsets are multiples of this.
    pub align: u64,
    /// The bytes of a region, the unit in which memory is handed over.
    pub region: u64,
    /// The steps that the planner of addresses may work: [`Planner::work`].
    pub work: u64,
}

impl Default for Addresses {
    /// Multiples of 512 bytes, regions of 2 MiB, and about a hundredth of a second.
    fn default() -> Self {
        Self { align: 512, region: 2 << 20, work: 1 << 24 }
    }
}

/// A storage, or its encoded form, at an address for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// The storage.
    pub storage: u32,
    /// The step that brings or makes it; `None` for what is there before.
    pub from: Option<usize>,
    /// The step that takes it away; `None` for what is there in the end.
    pub to: Option<usize>,
    /// Its bytes.
    pub bytes: u64,
    /// Its offset.
    pub offset: u64,
}

/// A schedule in addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Every stay of a storage on the device, in order of its beginning.
    pub residencies: Vec<Residency>,
    /// The most bytes on the device at a moment.
    pub peak: u64,
    /// The end of the highest address.
    pub extent: u64,
    /// The most regions in use at a moment.
    pub regions: u64,
    /// Whether no layout of this schedule ends lower.
    pub proven: bool,
}

/// Lays out the storages of a schedule, given when its steps take place. A storage that comes back
/// may come back elsewhere. O(s log s) for s steps, and the planner's work.
///
/// # Errors
/// The alignment is zero, or sizes come to more than 64 bits with it.
pub fn addresses(
    graph: &Graph,
    steps: &[Step],
    outcome: &Outcome,
    how: Addresses,
) -> Result<Placed, PlanError> {
    let stays = stays(graph, steps, outcome);
    let mut moments: Vec<(u64, usize, bool, usize)> = Vec::with_capacity(2 * stays.len());
    for (at, stay) in stays.iter().enumerate() {
        let when = |step: Option<usize>, end| {
            // What is there before comes with the first step.
            step.and_then(|step| outcome.spans.get(step))
                .map_or(0, |span| if end { span.end } else { span.start })
        };
        moments.push((when(stay.from, false), stay.from.map_or(0, |from| from + 1), false, at));
        let last = (u64::MAX, usize::MAX, true, at);
        moments.push(stay.to.map_or(last, |to| (when(Some(to), true), to + 1, true, at)));
    }
    // At one moment steps come and go in order, and what one makes is there before what it takes
    // away has gone.
    moments.sort_unstable();
    let new = |stay: &Residency| Block::new(0, 0, stay.bytes).aligned(how.align);
    let mut blocks: Vec<Block> = stays.iter().map(new).collect();
    for (moment, &(_, _, goes, at)) in (0..).zip(&moments) {
        if goes {
            blocks[at].upper = moment;
        } else {
            blocks[at].lower = moment;
        }
    }
    let plan = Planner::new(&blocks)?.work(how.work).regions(Some(how.region)).run();
    let regions = extent(&blocks, &plan.offsets, how.region)?.most;
    let mut residencies = stays;
    for (stay, &offset) in residencies.iter_mut().zip(&plan.offsets) {
        stay.offset = offset;
    }
    Ok(Placed {
        residencies,
        peak: plan.lower_bound,
        extent: plan.height,
        regions,
        proven: plan.proven,
    })
}

/// The stays of all storages on the device.
fn stays(graph: &Graph, steps: &[Step], outcome: &Outcome) -> Vec<Residency> {
    let mut all: Vec<Residency> = Vec::new();
    let mut open: Vec<Option<usize>> = alloc::vec![None; graph.storages().len()];
    let mut begin = |all: &mut Vec<Residency>, storage: u32, bytes: u64, from: Option<usize>| {
        open[storage as usize].replace(all.len()).inspect(|&before| {
            all[before].to = from;
        });
        all.push(Residency { storage, from, to: None, bytes, offset: 0 });
    };
    let mut hosted = alloc::vec![false; graph.storages().len()];
    for step in steps {
        if let Step::Hosted(storage) = *step {
            hosted[storage as usize] = true;
        }
    }
    for (storage, known) in (0_u32..).zip(graph.storages()) {
        if known.initial && known.alias.is_none() && !hosted[storage as usize] {
            begin(&mut all, storage, known.bytes, None);
        }
    }
    let mut ended: Vec<(usize, u32)> = Vec::new();
    for (at, &step) in steps.iter().enumerate().take(outcome.spans.len()) {
        match step {
            Step::Run(run) => {
                for &(storage, version) in &graph.makes[run as usize] {
                    if version == 0 {
                        begin(
                            &mut all,
                            storage,
                            graph.storages()[storage as usize].bytes,
                            Some(at),
                        );
                    }
                }
            }
            Step::In(storage) | Step::Decode(storage) => {
                begin(&mut all, storage, graph.storages()[storage as usize].bytes, Some(at));
            }
            Step::Encode(storage) => {
                let bytes = graph.storages()[storage as usize].encoding.map_or(0, |one| one.bytes);
                begin(&mut all, storage, bytes, Some(at));
            }
            Step::Hosted(_) => {}
            Step::Drop(storage) | Step::Out(storage) => ended.push((at, storage)),
        }
    }
    close(&mut all, &ended);
    all
}

/// Ends each stay at the first step that takes its storage away.
fn close(all: &mut [Residency], ended: &[(usize, u32)]) {
    let mut ends: Vec<(u32, usize)> = ended.iter().map(|&(at, storage)| (storage, at)).collect();
    ends.sort_unstable();
    for stay in all {
        let from = stay.from.map_or(0, |from| from + 1);
        let next = ends.partition_point(|&end| end < (stay.storage, from));
        let end = ends.get(next).filter(|end| end.0 == stay.storage).map(|end| end.1);
        // A new form of the storage may have ended it before.
        stay.to = match (stay.to, end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A schedule that fits in its budget in addresses, if that can be found: a strategy plans for a
/// budget of bytes that is lowered by what the layout needs beyond them, up to eight times. The
/// fastest that fits counts; `None` where none does.
///
/// # Errors
/// As [`addresses`].
pub fn placed(
    strategy: Strategy,
    graph: &Graph,
    link: &Link,
    budget: u64,
    work: u64,
    how: Addresses,
) -> Result<Option<(Found, Placed)>, PlanError> {
    const ROUNDS: usize = 8;
    let mut bytes = budget;
    for _ in 0..ROUNDS {
        let Some(found) = strategy.plan(graph, link, bytes, work) else { return Ok(None) };
        let Ok(outcome) = simulate(graph, link, &found.steps, bytes) else { return Ok(None) };
        let placed = addresses(graph, &found.steps, &outcome, how)?;
        if placed.extent <= budget {
            return Ok(Some((found, placed)));
        }
        let over = placed.extent - budget;
        bytes = bytes.min(placed.peak).saturating_sub(over);
    }
    Ok(None)
}
