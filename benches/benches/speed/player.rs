//! The loop that runs a workload, the same for every allocator.

use std::hint::black_box;

use spin::mutex::SpinMutex;
use zico_bench::speed::{Allocator, Op};
use zico_core::Lifetime;

/// An allocator and the blocks that it has given out.
pub(crate) struct Player<A: Allocator> {
    allocator: A,
    places: Vec<A::Handle>,
    clock: quanta::Clock,
}

/// Runs operations on any allocator. False if one was refused.
pub(crate) trait Plays {
    fn play(&mut self, ops: &[Op]) -> bool;

    /// The same, and records the nanoseconds of each allocation.
    fn play_timed(&mut self, ops: &[Op], times: &mut Vec<u64>) -> bool;
}

impl<A: Allocator> Player<A> {
    /// None if the allocator has no room at all.
    pub(crate) fn new(mut allocator: A, places: usize) -> Option<Self> {
        let filler = allocator.alloc(1, Lifetime::Iteration)?;
        Some(Self { allocator, places: vec![filler; places], clock: quanta::Clock::new() })
    }

    #[inline]
    fn play_with(
        &mut self,
        ops: &[Op],
        mut alloc: impl FnMut(&mut A, u32, Lifetime) -> Option<A::Handle>,
    ) -> bool {
        let Self { allocator, places, .. } = self;
        ops.iter().all(|op| match *op {
            Op::Alloc { place, granules, lifetime } => {
                let handle = alloc(allocator, granules, lifetime);
                handle.map(|handle| places[place as usize] = handle).is_some()
            }
            Op::Free { place } => allocator.free(places[place as usize]),
            Op::Begin => allocator.begin(),
            Op::End => allocator.end(),
        })
    }
}

impl<A: Allocator> Plays for Player<A> {
    fn play(&mut self, ops: &[Op]) -> bool {
        self.play_with(ops, A::alloc)
    }

    fn play_timed(&mut self, ops: &[Op], times: &mut Vec<u64>) -> bool {
        let clock = self.clock.clone();
        self.play_with(ops, |allocator, granules, lifetime| {
            let before = clock.raw();
            let handle = black_box(allocator.alloc(black_box(granules), lifetime));
            times.push(clock.delta_as_nanos(before, clock.raw()));
            handle
        })
    }
}

/// No allocator: the time of the loop.
pub(crate) struct Nothing;

impl Allocator for Nothing {
    type Handle = u64;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<u64> {
        Some(black_box(u64::from(granules)))
    }

    #[inline]
    fn free(&mut self, handle: u64) -> bool {
        black_box(handle);
        true
    }
}

/// An allocator behind an uncontended spin lock, taken by each call: as zico, whose jobs are shared
/// by threads.
pub(crate) struct Locked<A>(pub(crate) SpinMutex<A>);

impl<A: Allocator> Allocator for Locked<A> {
    type Handle = A::Handle;

    #[inline]
    fn alloc(&mut self, granules: u32, lifetime: Lifetime) -> Option<Self::Handle> {
        self.0.lock().alloc(granules, lifetime)
    }

    #[inline]
    fn free(&mut self, handle: Self::Handle) -> bool {
        self.0.lock().free(handle)
    }
}
