//! Calls that must not allocate host memory once they are warm: a decision, and an allocation from
//! room in the arena.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use zico_core::policy::{Policy, Tenant, TimeShift, View};
use zico_core::{
    Activity, Block, Bytes, Lifetime, Pool, PoolConfig, Profile, Progress, Regions, Request,
};
use zico_core::{Step, Ticks};
use zico_mock::{MockConfig, MockDevice};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of its allocations by thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is; the count is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator asks
        // for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` comes from `alloc` above, which took it from the system's allocator with
        // the same layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(act: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    act();
    COUNT.get() - before
}

/// A wave of 200 steps, the higher the nearer to its middle, and a little ragged.
fn profile(seed: u32) -> Arc<Profile> {
    let steps = (0..200_u32).map(|i| {
        let demand = Regions::new(i.min(199 - i) + (i * 7 + seed) % 5);
        let at = Ticks::micros(u64::from(i) * (100 + u64::from(seed)));
        Step { progress: Progress::new(10 * i), at, demand, leased: demand }
    });
    Arc::new(Profile::of(steps, Progress::new(2000), Ticks::millis(25)))
}

#[test]
fn a_decision_allocates_nothing() {
    let mut policy = TimeShift::default();
    let mut jobs: Vec<Tenant> = (0..8)
        .map(|seed| Tenant {
            profile: Some(profile(seed)),
            activity: if seed == 0 { Activity::Waiting } else { Activity::Running },
            ..Tenant::default()
        })
        .collect();
    let mut decide = |moment: u32, room: u32| {
        for (i, job) in (0..).zip(&mut jobs[1..]) {
            job.progress = Progress::new((moment * 37 + i * 251) % 2000);
        }
        policy.decide(&View::new(Regions::new(room), &jobs, 0))
    };
    (0..50).for_each(|moment| _ = decide(moment, 300));
    for room in [120, 200, 300, 500, 900] {
        let count = allocations(|| (50..100).for_each(|moment| _ = decide(moment, room)));
        assert_eq!(count, 0, "with room for {room} regions");
    }
    // Where one runs, the others that wait are looked at as well.
    jobs[2..].iter_mut().for_each(|job| job.activity = Activity::Waiting);
    let mut decide = |moment: u32, room: u32| {
        jobs[1].progress = Progress::new(moment * 37 % 2000);
        policy.decide(&View::new(Regions::new(room), &jobs, 0))
    };
    for room in [120, 150, 200] {
        let count = allocations(|| (0..50).for_each(|moment| _ = decide(moment, room)));
        assert_eq!(count, 0, "one runs, with room for {room} regions");
    }
}

#[test]
fn an_allocation_from_an_arena_allocates_nothing() {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::gib(1))).unwrap();
    let job = pool.join("job", device.add_stream()).unwrap();
    let request = |i: u64| Request::new(Bytes::new(512 + i * 7919 % 100_000), Lifetime::Iteration);
    // Every other block stays, so that the arena keeps its pages.
    let blocks: Vec<Block> = (0..2000).map(|i| job.alloc(request(i)).unwrap()).collect();
    let (stay, go): (Vec<_>, Vec<_>) = (0..).zip(blocks).partition(|(i, _)| i % 2 == 0);
    go.into_iter().for_each(|(_, block)| job.free(block).unwrap());
    let mut blocks = Vec::with_capacity(1000);
    let mut round = || {
        blocks.extend((0..1000).map(|i| job.alloc(request(2 * i + 1)).unwrap()));
        blocks.drain(..).for_each(|block| job.free(block).unwrap());
    };
    (0..3).for_each(|_| round());
    let count = allocations(&mut round);
    assert_eq!(count, 0, "host allocations in 1000 allocations and frees");
    stay.into_iter().for_each(|(_, block)| job.free(block).unwrap());
}
