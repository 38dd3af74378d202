//! Peers that keep their metadata outside the managed memory, as device memory requires.

use std::ops::Range;

use offset_allocator::Allocation;
use range_alloc::RangeAllocator;
use zico_bench::{Handle, Policy};
use zico_core::Lifetime;

use zico_bench::speed::Allocator;

/// The port of Sebastian Aaltonen's `OffsetAllocator`: segregated fit, 256 bins.
pub(crate) struct Offset(offset_allocator::Allocator<u32>);

impl Offset {
    /// With a number of granules, for a number of blocks and the holes between them.
    pub(crate) fn new(granules: u32, blocks: u32) -> Self {
        Self(offset_allocator::Allocator::with_max_allocs(granules, 2 * blocks + 1024))
    }
}

impl Allocator for Offset {
    type Handle = Allocation<u32>;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<Self::Handle> {
        self.0.allocate(granules)
    }

    #[inline]
    fn free(&mut self, handle: Self::Handle) -> bool {
        self.0.free(handle);
        true
    }
}

/// Best fit in a sorted list of free ranges.
pub(crate) struct Ranges(RangeAllocator<u64>);

impl Ranges {
    pub(crate) fn new(granules: u64) -> Self {
        Self(RangeAllocator::new(0..granules))
    }
}

impl Allocator for Ranges {
    /// `Range` cannot be copied.
    type Handle = (u64, u64);

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<Self::Handle> {
        let Range { start, end } = self.0.allocate_range(u64::from(granules)).ok()?;
        Some((start, end))
    }

    #[inline]
    fn free(&mut self, (start, end): Self::Handle) -> bool {
        self.0.free_range(start..end);
        true
    }
}

/// A buddy system over frames of a granule: a search tree for each power of two.
pub(crate) struct Frames(buddy_system_allocator::FrameAllocator<40>);

impl Frames {
    pub(crate) fn new(granules: usize) -> Self {
        let mut frames = buddy_system_allocator::FrameAllocator::new();
        frames.add_frame(0, granules);
        Self(frames)
    }
}

impl Allocator for Frames {
    type Handle = (usize, u32);

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<Self::Handle> {
        Some((self.0.alloc(granules as usize)?, granules))
    }

    #[inline]
    fn free(&mut self, (start, granules): Self::Handle) -> bool {
        self.0.dealloc(start, granules as usize);
        true
    }
}

/// A model of an allocator's policy, with search trees for its free blocks as the originals have.
pub(crate) struct Model<P> {
    policy: P,
    handles: Vec<Option<Handle>>,
    vacant: Vec<u32>,
}

impl<P: Policy + Default> Model<P> {
    pub(crate) fn new() -> Self {
        Self { policy: P::default(), handles: Vec::new(), vacant: Vec::new() }
    }
}

impl<P: Policy> Allocator for Model<P> {
    type Handle = u32;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<u32> {
        let handle = Some(self.policy.alloc(u64::from(granules) * 512));
        if let Some(place) = self.vacant.pop() {
            self.handles[place as usize] = handle;
            return Some(place);
        }
        self.handles.push(handle);
        u32::try_from(self.handles.len() - 1).ok()
    }

    #[inline]
    fn free(&mut self, place: u32) -> bool {
        let handle = self.handles.get_mut(place as usize).and_then(Option::take);
        self.vacant.push(place);
        handle.map(|handle| self.policy.free(handle)).is_some()
    }
}
