//! Models of other allocators' memory policies, to compare zico with.
//!
//! Each model does what its original does to place blocks and to get memory from the device, and
//! nothing else: addresses are numbers, and there is no device. It runs a recorded job in program
//! order, as the originals do on one stream, where a freed block can be reused at once. The result
//! is the peak of held bytes over the peak of live bytes, in the whole run.
//!
//! | module | whose policy |
//! |---|---|
//! | [`caching`] | PyTorch's CUDA caching allocator, as it is by default |
//! | [`expandable`] | the same with `expandable_segments:True` |
//! | [`best_fit`] | nobody's: exact best fit in one arena, whose size is what it comes to |
//! | [`bfc`] | TensorFlow's BFC, growing as needed |
//! | [`cnmem`] | NVIDIA's CNMeM, growing as needed |
//! | [`zico`] | zico: not a model but the library |
//!
//! None of the models ever runs out of memory. So none gets to do what its original does then: give
//! back what is cached and try again. Where an original differs in more than that, the module says
//! so.

pub mod across;
pub mod best_fit;
pub mod bfc;
pub mod bounds;
pub mod caching;
pub mod cnmem;
pub mod detect;
pub mod expandable;
mod extents;
pub mod null;
pub mod oracle;
pub mod sharing;
pub mod speed;
pub mod table;
pub mod zico;

use extents::Extent;
use zico_mock::trace::{Iteration, Step, Trace};

/// A model of an allocator's policy.
pub trait Policy {
    /// Places a block of this size, and gets the memory that it needs.
    fn alloc(&mut self, bytes: u64) -> Handle;

    /// Takes a block back. It can be reused at once.
    fn free(&mut self, block: Handle);

    /// The bytes that it has from the device now, in use or not.
    fn held(&self) -> u64;
}

/// A block that a [`Policy`] has placed. It goes back to the same one, once.
#[derive(Debug, PartialEq, Eq)]
pub struct Handle(Extent);

/// The memory of a job's whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// The most bytes alive at once, as requested.
    pub live: u64,
    /// The most bytes held at once.
    pub held: u64,
}

/// A job in program order, from its setup through all of its recorded iterations.
pub fn steps(trace: &Trace) -> impl Iterator<Item = &Step> {
    trace.setup().iter().chain(trace.iterations().iter().flat_map(Iteration::steps))
}

/// Takes a policy through a job.
pub fn run(trace: &Trace, policy: &mut dyn Policy) -> Peaks {
    let mut blocks: Vec<Option<Handle>> = trace.blocks().iter().map(|_| None).collect();
    let (mut live, mut peaks) = (0, Peaks { live: 0, held: 0 });
    for step in steps(trace) {
        match *step {
            Step::Alloc { block, bytes, .. } => {
                live += bytes.value();
                blocks[block.index()] = Some(policy.alloc(bytes.value()));
            }
            Step::Free { block } => {
                live -= trace.blocks()[block.index()].bytes.value();
                if let Some(handle) = blocks[block.index()].take() {
                    policy.free(handle);
                }
            }
            Step::Launch { .. } | Step::Use { .. } | Step::Phase(_) => {}
        }
        peaks.live = peaks.live.max(live);
        peaks.held = peaks.held.max(policy.held());
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies() -> [(&'static str, Box<dyn Policy>); 5] {
        [
            ("caching", Box::<caching::Caching>::default()),
            ("expandable", Box::<expandable::Expandable>::default()),
            ("best fit", Box::<best_fit::BestFit>::default()),
            ("bfc", Box::<bfc::Bfc>::default()),
            ("cnmem", Box::<cnmem::Cnmem>::default()),
        ]
    }

    /// The size of a block: from bytes to tens of MiB, each order of magnitude as likely.
    fn size(random: &mut fastrand::Rng) -> u64 {
        let order = random.u32(1..26);
        random.u64(1..1 << order)
    }

    #[test]
    fn blocks_never_overlap_and_all_of_them_are_held() {
        for (name, mut policy) in policies() {
            let mut random = fastrand::Rng::with_seed(1);
            let mut live: Vec<(u64, Handle)> = Vec::new();
            for _ in 0..3_000 {
                if live.is_empty() || random.u8(0..100) < 52 {
                    let bytes = size(&mut random);
                    let new = policy.alloc(bytes);
                    assert!(new.0.len >= bytes, "{name}");
                    let apart =
                        |old: &Handle| new.0.end() <= old.0.start || old.0.end() <= new.0.start;
                    assert!(live.iter().all(|(_, old)| apart(old)), "{name}: {new:?}");
                    live.push((bytes, new));
                } else {
                    let (_, old) = live.swap_remove(random.usize(0..live.len()));
                    policy.free(old);
                }
                let sum: u64 = live.iter().map(|(_, block)| block.0.len).sum();
                assert!(policy.held() >= sum, "{name}");
            }
        }
    }

    #[test]
    fn what_was_freed_is_had_again() {
        for (name, mut policy) in policies() {
            let mut held = Vec::new();
            for _ in 0..3 {
                let mut random = fastrand::Rng::with_seed(2);
                let blocks: Vec<Handle> =
                    (0..300).map(|_| policy.alloc(size(&mut random))).collect();
                blocks.into_iter().for_each(|block| policy.free(block));
                held.push(policy.held());
            }
            assert_eq!(held[1], held[2], "{name}");
        }
    }

    #[test]
    fn a_run_counts_what_the_trace_counts() {
        let trace = zico_mock::bundled::open("dlrm").expect("bundled");
        let peaks = run(&trace, &mut best_fit::BestFit::default());
        assert_eq!(peaks.live, trace.stats().peak.value());
        assert!(peaks.held >= peaks.live);
    }
}
