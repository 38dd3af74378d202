//! Peers that keep their metadata in the memory itself. The host cannot access a device's memory,
//! so these allocators manage a *shadow*: host addresses, 32 bytes for each granule of 512 bytes,
//! backed by memory only where the allocator writes. Each uses the alignment with which it is
//! fastest.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use buddy_system_allocator::Heap as Buddies;
use memmap2::{MmapMut, MmapOptions};
use rlsf::Tlsf;
use talc::base::Talc;
use talc::base::binning::DefaultBinning;
use talc::source::Manual;
use zico_core::Lifetime;

use zico_bench::speed::Allocator;
use zico_bench::speed::Outcome;

/// Bytes of the shadow for each granule.
const SCALE: usize = 32;

/// A shadow up to this has memory from the start.
const POPULATED: usize = 1 << 30;

/// Addresses; without memory behind them until they are written to, if they are many.
struct Shadow(MmapMut);

impl Shadow {
    fn new(space: u64) -> Outcome<Self> {
        let len = usize::try_from(space / 512)? * SCALE;
        let mut options = MmapOptions::new();
        options.len(len).no_reserve_swap();
        if len <= POPULATED {
            options.populate();
        }
        Ok(Self(options.map_anon()?))
    }

    /// All of it, for an allocator that is dropped before the shadow is.
    fn memory(&mut self) -> &'static mut [MaybeUninit<u8>] {
        // SAFETY: the mapping stays where it is while `self` lives, and each allocator here is the
        // field before its shadow, so it goes first. Nobody else has the bytes: this is called
        // once.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len()) }
    }
}

fn layout(granules: u32) -> Option<Layout> {
    Layout::from_size_align(granules as usize * SCALE, 8).ok()
}

/// rlsf: two-level segregated fit.
pub(crate) struct Rlsf {
    inner: Tlsf<'static, u32, u32, 32, 32>,
    _shadow: Shadow,
}

impl Rlsf {
    pub(crate) fn new(space: u64) -> Outcome<Self> {
        let mut shadow = Shadow::new(space)?;
        let memory = shadow.memory();
        let mut tlsf = Tlsf::new();
        tlsf.insert_free_block(memory);
        Ok(Self { inner: tlsf, _shadow: shadow })
    }
}

impl Allocator for Rlsf {
    type Handle = NonNull<u8>;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<NonNull<u8>> {
        self.inner.allocate(layout(granules)?)
    }

    #[inline]
    fn free(&mut self, handle: NonNull<u8>) -> bool {
        // SAFETY: `handle` comes from `alloc`, with this alignment; a workload frees it once.
        unsafe { self.inner.deallocate(handle, 8) };
        true
    }
}

/// talc: segregated fit over a linear-then-exponential binning.
pub(crate) struct Talcum {
    inner: Talc<Manual, DefaultBinning>,
    _shadow: Shadow,
}

impl Talcum {
    pub(crate) fn new(space: u64) -> Outcome<Self> {
        let mut shadow = Shadow::new(space)?;
        let memory = shadow.memory();
        let mut talc = Talc::new(Manual);
        // SAFETY: nobody else uses this memory, and it goes after the allocator.
        unsafe { talc.claim(memory.as_mut_ptr().cast(), memory.len()) }
            .ok_or("talc has no room")?;
        Ok(Self { inner: talc, _shadow: shadow })
    }
}

/// A block, and its granules.
type SizedBlock = (NonNull<u8>, u32);

impl Allocator for Talcum {
    type Handle = SizedBlock;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<SizedBlock> {
        // SAFETY: the size is not zero.
        Some((unsafe { self.inner.allocate(layout(granules)?) }?, granules))
    }

    #[inline]
    fn free(&mut self, (handle, granules): SizedBlock) -> bool {
        let Some(layout) = layout(granules) else { return false };
        // SAFETY: `handle` comes from `alloc` with this layout; a workload frees it once.
        unsafe { self.inner.deallocate(handle.as_ptr(), layout) };
        true
    }
}

/// linked_list_allocator: first fit in a list of holes sorted by address.
pub(crate) struct LinkedList {
    inner: linked_list_allocator::Heap,
    _shadow: Shadow,
}

impl LinkedList {
    pub(crate) fn new(space: u64) -> Outcome<Self> {
        let mut shadow = Shadow::new(space)?;
        let memory = shadow.memory();
        // SAFETY: nobody else uses this memory, and it goes after the allocator.
        let heap =
            unsafe { linked_list_allocator::Heap::new(memory.as_mut_ptr().cast(), memory.len()) };
        Ok(Self { inner: heap, _shadow: shadow })
    }
}

impl Allocator for LinkedList {
    type Handle = SizedBlock;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<SizedBlock> {
        Some((self.inner.allocate_first_fit(layout(granules)?).ok()?, granules))
    }

    #[inline]
    fn free(&mut self, (handle, granules): SizedBlock) -> bool {
        let Some(layout) = layout(granules) else { return false };
        // SAFETY: `handle` comes from `alloc` with this layout; a workload frees it once.
        unsafe { self.inner.deallocate(handle, layout) };
        true
    }
}

/// buddy_system_allocator: a linked list for each power of two.
pub(crate) struct Buddy {
    inner: Buddies<40>,
    _shadow: Shadow,
}

impl Buddy {
    pub(crate) fn new(space: u64) -> Outcome<Self> {
        let mut shadow = Shadow::new(space)?;
        let memory = shadow.memory();
        let mut heap = Buddies::new();
        // SAFETY: nobody else uses this memory, and it goes after the allocator.
        unsafe { heap.init(memory.as_mut_ptr() as usize, memory.len()) };
        Ok(Self { inner: heap, _shadow: shadow })
    }
}

impl Allocator for Buddy {
    type Handle = SizedBlock;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<SizedBlock> {
        Some((self.inner.alloc(layout(granules)?).ok()?, granules))
    }

    #[inline]
    fn free(&mut self, (handle, granules): SizedBlock) -> bool {
        let Some(layout) = layout(granules) else { return false };
        // SAFETY: `handle` comes from `alloc` with this layout; a workload frees it once.
        unsafe { self.inner.dealloc(handle, layout) };
        true
    }
}

/// good_memory_allocator (galloc): small bins by size and alignment, and a list.
pub(crate) struct Good {
    inner: Box<good_memory_allocator::Allocator>,
    _shadow: Shadow,
}

impl Good {
    pub(crate) fn new(space: u64) -> Outcome<Self> {
        let mut shadow = Shadow::new(space)?;
        let memory = shadow.memory();
        // In a box: its blocks point back at it, so it must not move.
        let mut good = Box::new(good_memory_allocator::Allocator::empty());
        // SAFETY: nobody else uses this memory, and it goes after the allocator.
        unsafe { good.init(memory.as_mut_ptr() as usize, memory.len()) };
        Ok(Self { inner: good, _shadow: shadow })
    }
}

impl Allocator for Good {
    type Handle = NonNull<u8>;

    #[inline]
    fn alloc(&mut self, granules: u32, _: Lifetime) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { self.inner.alloc(layout(granules)?) })
    }

    #[inline]
    fn free(&mut self, handle: NonNull<u8>) -> bool {
        // SAFETY: `handle` comes from `alloc`; a workload frees it once.
        unsafe { self.inner.dealloc(handle.as_ptr()) };
        true
    }
}
