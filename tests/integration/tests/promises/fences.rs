//! Memory that the device still uses (I1, I3).

use zico_core::policy::TimeShift;
use zico_core::{
    AllocError, Begin, Block, Bytes, FreeError, HandOver, Job, Lifetime, Request, Ticks,
};
use zico_mock::{Access, Claim, MockDevice, MockStream, Operation, Utilisation};
use zico_tests::waves::{REGION, Waves, regions};

use super::{pool, pool_of};

/// I1: memory freed by the program but not yet passed by the device stays charged.
#[test]
fn freed_memory_is_charged_until_its_fence_has_passed() {
    let (device, pool) = pool(10, TimeShift::default());
    let mut one = Waves::join(&device, &pool, 0, &[8], 1);
    (0..3).for_each(|_| assert!(one.step(&device)));
    assert_eq!((one.job.held().iteration, one.job.held().draining), (Bytes::ZERO, regions(8)));
    let two = pool.join("two", device.add_stream()).unwrap();
    let request = Request::new(regions(4), Lifetime::Persistent);
    assert!(matches!(two.alloc(request), Err(AllocError::Busy(_))));
    // The job itself may have it again at once: work on one stream runs in order.
    one.job.alloc(Request::new(regions(8), Lifetime::Iteration)).unwrap();
    assert_eq!(one.job.held().draining, Bytes::ZERO);
}

/// A block with its owner known to the oracle.
fn owned(
    device: &MockDevice,
    job: &Job<MockDevice>,
    stream: MockStream,
    owner: u32,
    count: u64,
) -> (Block, Claim) {
    let block = job.alloc(Request::new(regions(count), Lifetime::Iteration)).unwrap();
    (block, device.own(stream, owner, block.address(), block.bytes()).unwrap())
}

/// Isolated jobs cannot reach each other's memory by an address that they had before.
#[test]
fn isolated_jobs_lose_their_addresses() {
    for (hand_over, reachable) in [(HandOver::Fenced, true), (HandOver::Isolated, false)] {
        let (device, pool) = pool_of(1, |config| config.hand_over(hand_over));
        let (first, second) = (device.add_stream(), device.add_stream());
        let (one, two) = (pool.join("one", first).unwrap(), pool.join("two", second).unwrap());
        let block = one.alloc(Request::new(REGION, Lifetime::Iteration)).unwrap();
        one.free(block).unwrap();
        let (_, claim) = owned(&device, &two, second, 2, 1);
        device.disown(second, claim).unwrap();
        let stale = Access { owner: 2, addr: block.address(), len: block.bytes() };
        let again = device.own(first, 2, block.address(), block.bytes()).unwrap();
        device.launch_touching(first, Ticks::ZERO, Utilisation::FULL, &[stale]).unwrap();
        device.disown(first, again).unwrap();
        assert_eq!(device.violation_count() == 0, reachable, "{hand_over:?}");
    }
}

/// I3: a block that another stream uses comes back only after that stream's work, and if memory is
/// short the job's own stream waits for it instead of the host.
#[test]
fn a_block_that_another_stream_uses_waits_for_it() {
    let (device, pool) = pool(2, TimeShift::default());
    let (own, side) = (device.add_stream(), device.add_stream());
    let job = pool.join("job", own).unwrap();
    assert_eq!(job.begin(None), Ok(Begin::Started));
    let (block, claim) = owned(&device, &job, own, 1, 1);
    let access = Access { owner: 1, addr: block.address(), len: block.bytes() };
    job.record_use(block, side).unwrap();
    let work = Ticks::micros(100);
    device.launch_touching(side, work, Utilisation::FULL, &[access]).unwrap();
    device.disown(side, claim).unwrap();
    job.free(block).unwrap();
    assert_eq!(job.free(block), Err(FreeError::NotLive(block.address())));
    let stats = job.snapshot().stats;
    assert_eq!((stats.allocated.current, stats.active.current), (Bytes::ZERO, REGION));
    // There is another region: nothing waits.
    let (second, second_claim) = owned(&device, &job, own, 1, 1);
    assert_ne!(second.address(), block.address());
    assert_eq!(device.calls().of(Operation::OrderAfter), 0);
    // There is none left: the job's stream waits.
    let (third, third_claim) = owned(&device, &job, own, 1, 1);
    assert_eq!(third.address(), block.address());
    assert_eq!(device.calls().of(Operation::OrderAfter), 1);
    assert_eq!(job.snapshot().stats.active.current, regions(2));
    for (block, claim) in [(second, second_claim), (third, third_claim)] {
        device.disown(own, claim).unwrap();
        job.free(block).unwrap();
    }
    device.run_until_idle();
    assert_eq!(device.violations(), []);
}
