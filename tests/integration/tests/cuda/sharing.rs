//! Memory shared by jobs and by processes, checked by patterns.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use zico_core::{Bytes, Device, HandOver, Ticks};
use zico_cuda::{CudaDevice, CudaError, Options, Pattern, Share};
use zico_gpu::CudaBench;
use zico_gpu::patterns::{Waves, share};

use crate::bench;
use crate::driver::on_driver;

const UNIT: Bytes = Bytes::mib(2);

#[test]
fn jobs_that_share_find_what_they_wrote() {
    let Some(log) = on_driver("sharing::jobs_that_share_find_what_they_wrote", &[], || {
        for hand_over in [HandOver::Fenced, HandOver::Isolated] {
            let budget = Bytes::mib(48);
            let (jobs, iterations, work) = (3, 15, Ticks::micros(200));
            let block = Bytes::mib(4);
            let waves = Waves { budget, block, hand_over, jobs, iterations, work };
            let outcome = share(&bench(), &waves).unwrap();
            println!("{hand_over:?}: {outcome:?}");
            assert_eq!(outcome.mismatches, 0, "{hand_over:?}");
            assert_eq!(outcome.checked, 3 * (1 + 15 * 8));
            assert!(outcome.most_held <= budget, "{outcome:?}");
            assert!(outcome.sum_of_peaks > budget, "nothing was shared: {outcome:?}");
        }
    }) else {
        return;
    };
    log.all_came_back();
}

/// What tells the second process what to do.
const SEED: &str = "ZICO_TEST_SEED";
/// How much memory goes from one process to the other, and what it is filled with there and back.
const LEN: Bytes = Bytes::mib(6);

#[test]
fn a_region_goes_to_another_process_and_back() {
    let test = "sharing::a_region_goes_to_another_process_and_back";
    let Some(log) = on_driver(test, &[], || match std::env::var(SEED) {
        Ok(seed) => in_the_other_process(seed.parse().unwrap()),
        Err(_) => with_another_process(test),
    }) else {
        return;
    };
    log.all_came_back();
    let imports = log.count("cuMemImportFromShareableHandle");
    assert_eq!((imports, log.count("cuMemExportToShareableHandle")), (1, 1));
}

fn with_another_process(test: &str) {
    let bench = CudaBench::open(0, Options::new().shareable(true)).unwrap();
    let memory = bench.create(LEN).unwrap();
    let (range, pattern) = mapped(&bench, &memory);
    let stream = bench.device.add_stream().unwrap();
    bench.probe.fill(stream, pattern(11)).unwrap();
    bench.device.synchronize().unwrap();
    let descriptor = bench.device.export(&memory).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(SEED, "11")
        .stdin(Stdio::from(descriptor))
        .status()
        .unwrap();
    assert!(status.success());
    bench.probe.check(stream, pattern(12)).unwrap();
    assert_eq!(bench.probe.mismatches(), Ok(0), "what the other process wrote is here");
    bench.unmap(&range, Bytes::ZERO, LEN).unwrap();
    bench.destroy(memory).unwrap();
    bench.release(range).unwrap();
}

fn in_the_other_process(seed: u32) {
    let bench = CudaBench::open(0, Options::new().shareable(true)).unwrap();
    let memory = bench.device.import(std::io::stdin().as_fd(), LEN).unwrap();
    let (_range, pattern) = mapped(&bench, &memory);
    let stream = bench.device.add_stream().unwrap();
    bench.probe.check(stream, pattern(seed)).unwrap();
    assert_eq!(bench.probe.mismatches(), Ok(0), "what the first process wrote is here");
    bench.probe.fill(stream, pattern(seed + 1)).unwrap();
    bench.device.synchronize().unwrap();
}

/// Maps memory and says how to write patterns to it.
fn mapped(
    bench: &CudaBench,
    memory: &zico_cuda::CudaMemory,
) -> (zico_cuda::CudaRange, impl Fn(u32) -> Pattern + use<>) {
    let range = bench.reserve(LEN, UNIT).unwrap();
    bench.map(&range, Bytes::ZERO, &[memory]).unwrap();
    let addr = bench.base(&range);
    (range, move |seed| Pattern { addr, len: LEN, stride: 4, seed })
}

#[test]
fn memory_is_shared_only_where_that_was_asked_for() {
    let test = "sharing::memory_is_shared_only_where_that_was_asked_for";
    let Some(log) = on_driver(test, &[], || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let memory = device.create(UNIT).unwrap();
        assert_eq!(device.export(&memory).map(drop), Err(CudaError::NotShareable));
        // A descriptor that is none of the driver's, and a length that is none.
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(device.import(file.as_fd(), UNIT), Err(CudaError::Driver { .. })));
        let refused = device.import(file.as_fd(), Bytes::new(5));
        assert!(matches!(refused, Err(CudaError::BadSize { .. })));
        // One that says more than there is, is found out when it is mapped.
        let shareable = CudaDevice::open(0, Options::new().shareable(true)).unwrap();
        let own = shareable.create(UNIT).unwrap();
        let descriptor = shareable.export(&own).unwrap();
        let imported = device.import(descriptor.as_fd(), LEN).unwrap();
        let range = device.reserve(LEN, UNIT).unwrap();
        assert!(device.map(&range, Bytes::ZERO, &[&imported]).is_err());
        device.destroy(imported).unwrap();
        shareable.destroy(own).unwrap();
    }) else {
        return;
    };
    log.all_came_back();
}
