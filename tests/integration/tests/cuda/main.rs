//! The CUDA backend on the driver in software of `tests/cuda-driver`: on any machine, with or
//! without a GPU.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]
#![allow(clippy::panic, reason = "helpers of tests, where a panic is the report")]

mod calls;
mod discovery;
mod driver;
mod faults;
mod physical;
mod sharing;

use driver::on_driver;
use zico_conformance::check_all;
use zico_cuda::Options;
use zico_gpu::CudaBench;

fn bench() -> CudaBench {
    CudaBench::open(0, Options::new()).unwrap()
}

#[test]
fn the_device_conforms() {
    let Some(log) = on_driver("the_device_conforms", &[], || check_all(bench)) else { return };
    log.all_came_back();
}

#[test]
fn one_device_stands_all_checks_in_a_row_and_is_left_empty() {
    let test = "one_device_stands_all_checks_in_a_row_and_is_left_empty";
    let Some(log) = on_driver(test, &[], || {
        let device = bench();
        for (name, check) in zico_conformance::checks() {
            println!("checking that {name}");
            check(&device);
        }
        // What the checks have left behind, the device would give back when it ends.
        std::process::exit(0)
    }) else {
        return;
    };
    let left = |made: &str, gone: &str| log.count(made) - log.count(gone);
    // What the kernels count in.
    assert_eq!(left("cuMemCreate", "cuMemRelease"), 1);
    assert_eq!(left("cuMemAddressReserve", "cuMemAddressFree"), 1);
}

#[test]
fn the_device_conforms_with_memory_to_be_shared() {
    let shareable = || CudaBench::open(0, Options::new().shareable(true)).unwrap();
    let test = "the_device_conforms_with_memory_to_be_shared";
    let Some(log) = on_driver(test, &[], || check_all(shareable)) else { return };
    log.all_came_back();
}

#[test]
fn the_device_conforms_where_alignments_are_ignored() {
    let settings = [("ZICO_DRIVER_NO_ALIGNMENT", "1")];
    let test = "the_device_conforms_where_alignments_are_ignored";
    let Some(log) = on_driver(test, &settings, || check_all(bench)) else { return };
    log.all_came_back();
}
