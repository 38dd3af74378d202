//! The budget that suffices for jobs with these programs, in any order of their steps.

use std::collections::HashSet;

use zico_core::{Bytes, Lifetime};

use super::script::{Marks, Op, Script};
use crate::waves::REGION;

/// Upper bounds on what a job holds, in regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// At any time.
    pub ever: u64,
    /// While no iteration of it runs.
    pub kept: u64,
    /// Within an iteration, beside what persists.
    pub iteration: u64,
    /// Outside iterations, beside what is said to persist.
    pub carried: u64,
}

/// The most regions in which a block can lie.
pub(super) fn cost(bytes: Bytes) -> u64 {
    let (bytes, region) = (bytes.value(), REGION.value());
    if bytes.is_multiple_of(region) || bytes <= region / 16 {
        // Whole regions lie in whole regions as long as all blocks are such; small blocks in one.
        bytes.div_ceil(region)
    } else {
        bytes.div_ceil(region) + 1
    }
}

impl Most {
    /// Of a program. What another thread frees counts as kept for ever; what another stream uses,
    /// until the end of the iteration after the one in which it is freed. What is learned may be
    /// taken to persist, and to belong to the iteration as well.
    pub(super) fn of(script: &Script) -> Self {
        let mut blocks: Vec<Option<(u64, Option<Lifetime>)>> = Vec::new();
        let (mut elsewhere, mut parked) = (HashSet::new(), Vec::new());
        let (mut inside, mut live) = (false, [0_u64; 3]);
        let [mut persistent, mut learned, mut iteration, mut between] = [0; 4];
        for &op in &script.ops {
            match op {
                Op::Begin => inside = true,
                Op::End => {
                    inside = false;
                    parked.retain_mut(|(ends, cost, kind): &mut (u32, u64, usize)| {
                        *ends -= 1;
                        live[*kind] -= if *ends == 0 { *cost } else { 0 };
                        *ends > 0
                    });
                }
                Op::Alloc(slot, bytes, lifetime) => {
                    blocks.resize(blocks.len().max(slot + 1), None);
                    blocks[slot] = Some((cost(bytes), lifetime));
                    live[kind(lifetime)] += cost(bytes);
                }
                Op::Free(slot) => {
                    if let Some((cost, lifetime)) = blocks[slot].take() {
                        if elsewhere.contains(&slot) {
                            parked.push((2, cost, kind(lifetime)));
                        } else {
                            live[kind(lifetime)] -= cost;
                        }
                    }
                }
                Op::UseElsewhere(slot) => _ = elsewhere.insert(slot),
                Op::FreeElsewhere(_) | Op::Launch(_) | Op::Mute(_) => {}
                Op::Sleep | Op::Suspend | Op::Resume => {}
            }
            persistent = persistent.max(live[0]);
            learned = learned.max(live[1]);
            if inside || script.marks != Marks::Marked {
                iteration = iteration.max(live[2]);
            }
            if !inside {
                between = between.max(live[2]);
            }
        }
        let ever = (persistent + 2 * learned + iteration.max(between)).max(script.floor).max(1);
        let carried = between + learned;
        let kept = match script.marks {
            Marks::Marked => (persistent + carried).max(script.floor),
            // The time at which it frees this is unknown.
            Marks::Detected | Marks::Never => ever,
        };
        Self { ever, kept, iteration: iteration + learned, carried }
    }
}

fn kind(lifetime: Option<Lifetime>) -> usize {
    match lifetime {
        Some(Lifetime::Persistent) => 0,
        None => 1,
        Some(_) => 2,
    }
}

/// A budget with which each of these jobs can finish while all others keep what they keep: those
/// that take turns are on the host meanwhile. What these carry from one iteration to the next
/// counts all the same: it may have grown in an iteration that runs beside.
pub(super) fn enough(scripts: &[Script], jobs: &[Most]) -> u64 {
    let jobs = || scripts.iter().zip(jobs);
    let kept_by = |(script, most): (&Script, &Most)| match script.slice {
        Some(_) => most.carried,
        None => most.kept,
    };
    let kept: u64 = jobs().map(kept_by).sum();
    jobs().map(|job| kept - kept_by(job) + job.1.ever).max().unwrap_or(1)
}
