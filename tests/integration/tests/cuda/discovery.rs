//! Discovery without a driver, without a device, or without the needed features.

use std::fs;
use std::path::PathBuf;

use zico_core::{Bytes, Class, DeviceError};
use zico_cuda::{CudaDevice, CudaError, Options, discover};

use crate::driver::{folder_with, in_child, on_driver};

fn refusal() -> CudaError {
    CudaDevice::open(0, Options::new()).map(drop).unwrap_err()
}

/// A child where nothing is called `libcuda.so` but a file that is no library; the machine's own
/// driver, if it has one, is found nevertheless.
#[test]
fn no_driver_is_no_panic() {
    let _ = in_child("discovery::no_driver_is_no_panic", None, &[], || {
        let found = discover();
        let Some(trouble) = found.trouble else { return };
        println!("{trouble}");
        assert_eq!(trouble.class(), Class::Unsupported);
        assert!(found.devices.is_empty());
        assert_eq!(refusal(), trouble);
        if !PathBuf::from("/dev/nvidiactl").exists() {
            assert_eq!(trouble, CudaError::NoDriver);
        }
    });
}

#[test]
fn a_driver_without_the_functions_is_too_old() {
    let test = "discovery::a_driver_without_the_functions_is_too_old";
    // Any library that is none of CUDA's will do.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().filter_map(|line| line.split_whitespace().last());
    let libc = libc.map(PathBuf::from).find(|path| path.to_string_lossy().contains("/libc.so"));
    let folder = folder_with("old", &libc.expect("the C library is loaded"));
    let _ = in_child(test, Some(&folder), &[], || {
        let error = refusal();
        assert_eq!(error, CudaError::DriverTooOld { symbol: "cuInit", version: None });
        assert_eq!(discover().trouble, Some(error));
    });
}

#[test]
fn a_machine_without_a_device_says_so() {
    let test = "discovery::a_machine_without_a_device_says_so";
    let _ = on_driver(test, &[("ZICO_DRIVER_DEVICES", "0")], || {
        let text = refusal().to_string();
        assert_eq!(text, "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
        assert_eq!(discover().trouble.unwrap().to_string(), text);
        assert_eq!(discover().driver.unwrap().to_string(), "12.4");
    });
}

#[test]
fn a_device_without_virtual_memory_is_listed_and_refused() {
    let test = "discovery::a_device_without_virtual_memory_is_listed_and_refused";
    let Some(log) = on_driver(test, &[("ZICO_DRIVER_NO_VMM", "1")], || {
        assert_eq!(refusal(), CudaError::NoVirtualMemory);
        let found = discover();
        assert_eq!((found.trouble, found.devices[0].granularity), (None, None));
    }) else {
        return;
    };
    log.all_came_back();
}

#[test]
fn devices_are_described_without_a_context() {
    let test = "discovery::devices_are_described_without_a_context";
    let settings = [("ZICO_DRIVER_DEVICES", "2"), ("ZICO_DRIVER_MEMORY", "4294967296")];
    let Some(log) = on_driver(test, &settings, || {
        let found = discover();
        assert_eq!((found.trouble, found.devices.len()), (None, 2));
        let second = &found.devices[1];
        assert_eq!((second.ordinal, second.name.as_str()), (1, "zico test driver"));
        assert_eq!((second.memory, second.compute), (Bytes::gib(4), (9, 0)));
        assert_eq!((second.granularity, second.shareable), (Some(Bytes::mib(2)), true));
        let error = CudaDevice::open(2, Options::new()).map(drop).unwrap_err();
        assert_eq!(error, CudaError::NoSuchDevice { ordinal: 2, count: 2 });
    }) else {
        return;
    };
    assert_eq!(log.count("cuDevicePrimaryCtxRetain"), 0);
}
