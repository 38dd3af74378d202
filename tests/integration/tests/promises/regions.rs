//! Which regions a job gets and gives back.

use zico_core::policy::TimeShift;
use zico_core::{Begin, Block, Bytes, JobConfig, Lifetime, Request};
use zico_mock::Operation;
use zico_tests::waves::REGION;

use super::pool;

/// Of the regions that are free a job gets those that others use for the least of their time.
#[test]
fn a_job_gets_what_others_use_least() {
    let (device, pool) = pool(2, TimeShift::default());
    let stream = device.add_stream();
    let one = pool.join(JobConfig::new("one").without_plans(), stream).unwrap();
    let two = pool.join("two", device.add_stream()).unwrap();
    let alloc = |kib| one.alloc(Request::new(Bytes::kib(kib), Lifetime::Iteration)).unwrap();
    // Its first page is in use in all of an iteration, the second for a moment.
    for _ in 0..3 {
        assert_eq!(one.begin(None), Ok(Begin::Started));
        let long = alloc(1536);
        one.free(alloc(2048)).unwrap();
        (0..20).for_each(|_| one.free(alloc(1)).unwrap());
        one.free(long).unwrap();
        one.end().unwrap();
        pool.poll().unwrap();
    }
    two.alloc(Request::new(REGION, Lifetime::Iteration)).unwrap();
    let maps = device.calls().of(Operation::Map);
    alloc(1536);
    assert_eq!(device.calls().of(Operation::Map), maps, "its first page has its region still");
}

/// A block that outlives all others strands the region it lies in, and no other.
#[test]
fn a_stray_block_strands_one_region() {
    for kib in [1, 64, 128] {
        for after in 0..40 {
            let (_, pool) = pool(200, TimeShift::default());
            let job = pool.join("job", pool.device().add_stream()).unwrap();
            let request = |kib| Request::new(Bytes::kib(kib), Lifetime::Iteration);
            let block = |i: u64| job.alloc(request(300 + 777 * (i % 7))).unwrap();
            let before: Vec<Block> = (0..after).map(block).collect();
            job.alloc(request(kib)).unwrap();
            let behind: Vec<Block> = (after..40).map(block).collect();
            for block in before.into_iter().chain(behind) {
                job.free(block).unwrap();
            }
            assert_eq!(job.held().iteration, REGION, "{kib} KiB after {after} blocks");
        }
    }
}
