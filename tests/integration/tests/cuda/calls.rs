//! The backend with calls that fail half-way, several contexts, and other users of the driver.

use std::time::Duration;

use zico_core::{Bytes, Class, Device, DeviceError, Passed, Ticks};
use zico_cuda::cudarc::driver::{CudaContext, result};
use zico_cuda::{CudaDevice, CudaError, Options, Pattern};

use crate::bench;
use crate::driver::on_driver;

const UNIT: Bytes = Bytes::mib(2);

fn code<T>(result: Result<T, CudaError>) -> (&'static str, u32) {
    match result {
        Err(CudaError::Driver { call, code, .. }) => (call, code),
        Err(other) => panic!("not the driver's: {other}"),
        Ok(_) => panic!("it succeeded"),
    }
}

#[test]
fn a_mapping_without_access_is_taken_back() {
    let test = "calls::a_mapping_without_access_is_taken_back";
    // The first access is that of the memory that kernels count in, which is not loaded here.
    let settings = [(
        "ZICO_DRIVER_FAULTS",
        "cuMemSetAccess:1=2,cuMemSetAccess:2=2,cuMemUnmap:2=304,cuMemUnmap:3=304",
    )];
    let Some(log) = on_driver(test, &settings, || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let range = device.reserve(Bytes::mib(8), UNIT).unwrap();
        let memory = device.create(UNIT).unwrap();
        // Taken back.
        assert_eq!(code(device.map(&range, UNIT, &[&memory])), ("cuMemSetAccess", 2));
        // Left over: the way back fails as well.
        assert_eq!(code(device.map(&range, UNIT, &[&memory])), ("cuMemSetAccess", 2));
        // It is taken away before anything else, which fails once more and changes nothing.
        let refused = device.destroy(memory).unwrap_err();
        assert_eq!(code::<()>(Err(refused.error)), ("cuMemUnmap", 304));
        let unmapped = device.unmap(&range, UNIT, UNIT).unwrap_err();
        assert!(matches!(unmapped, CudaError::NotMapped { .. }), "{unmapped}");
        let memory = refused.resource;
        device.map(&range, UNIT, &[&memory]).unwrap();
        device.unmap(&range, UNIT, UNIT).unwrap();
        device.destroy(memory).unwrap();
        device.release(range).unwrap();
    }) else {
        return;
    };
    log.all_came_back();
    assert_eq!(log.count("cuMemMap"), 3);
    assert_eq!(log.count("cuMemUnmap"), 3);
}

#[test]
fn what_is_left_behind_is_given_back_at_the_end() {
    let test = "calls::what_is_left_behind_is_given_back_at_the_end";
    let Some(log) = on_driver(test, &[], || {
        let bench = bench();
        let stream = bench.device.add_stream().unwrap();
        let range = bench.reserve(Bytes::mib(8), UNIT).unwrap();
        let memory = bench.create(UNIT).unwrap();
        bench.map(&range, UNIT, &[&memory]).unwrap();
        bench.probe.spin(stream, Ticks::millis(50)).unwrap();
        let addr = bench.base(&range).checked_add(UNIT).unwrap();
        let pattern = Pattern { addr, len: UNIT, stride: 4, seed: 1 };
        bench.probe.fill(stream, pattern).unwrap();
        // The work still runs: nothing may be unmapped before it has finished.
    }) else {
        return;
    };
    log.all_came_back();
}

#[test]
fn nothing_is_unmapped_at_the_end_before_the_work_has_finished() {
    let test = "calls::nothing_is_unmapped_at_the_end_before_the_work_has_finished";
    let Some(log) = on_driver(test, &[], || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let range = device.reserve(UNIT, UNIT).unwrap();
        let memory = device.create(UNIT).unwrap();
        device.map(&range, Bytes::ZERO, &[&memory]).unwrap();
    }) else {
        return;
    };
    log.all_came_back();
    let calls = ["cuCtxSynchronize", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree"];
    let made: Vec<&str> = log.calls().filter(|call| calls.contains(call)).collect();
    assert_eq!(made, calls);
}

#[test]
fn addresses_that_are_not_aligned_are_given_back() {
    let test = "calls::addresses_that_are_not_aligned_are_given_back";
    let faults = ("ZICO_DRIVER_FAULTS", "cuMemAddressFree:1=304");
    let Some(log) = on_driver(test, &[faults, ("ZICO_DRIVER_NO_ALIGNMENT", "1")], || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let large = Bytes::mib(64);
        assert_eq!(code(device.reserve(UNIT, large)), ("cuMemAddressFree", 304));
        let range = device.reserve(UNIT, large).unwrap();
        assert!(device.base(&range).value().is_multiple_of(large.value()));
        device.release(range).unwrap();
    }) else {
        return;
    };
    log.all_came_back();
    assert_eq!(log.count("cuMemAddressReserve"), 3);
}

#[test]
fn patterns_are_checked_for_real() {
    let test = "calls::patterns_are_checked_for_real";
    let Some(log) = on_driver(test, &[], || {
        let bench = bench();
        let stream = bench.device.add_stream().unwrap();
        let range = bench.reserve(Bytes::mib(8), UNIT).unwrap();
        let memory = bench.create(UNIT).unwrap();
        // The same memory twice.
        bench.map(&range, Bytes::ZERO, &[&memory]).unwrap();
        bench.map(&range, Bytes::mib(4), &[&memory]).unwrap();
        let at = |mib, seed| {
            let addr = bench.base(&range).checked_add(Bytes::mib(mib)).unwrap();
            Pattern { addr, len: UNIT, stride: 512, seed }
        };
        bench.probe.fill(stream, at(0, 7)).unwrap();
        bench.probe.check(stream, at(4, 7)).unwrap();
        assert_eq!(bench.probe.mismatches(), Ok(0));
        bench.probe.check(stream, at(4, 8)).unwrap();
        assert_eq!(bench.probe.mismatches(), Ok(4096));
        assert_eq!(bench.probe.mismatches(), Ok(0), "counted once");
        let refused = bench.probe.fill(stream, at(2, 7)).unwrap_err();
        assert!(matches!(refused, CudaError::NotMapped { .. }), "{refused}");
        let mut odd = at(0, 7);
        odd.stride = 0;
        assert!(bench.probe.fill(stream, odd).is_err());
    }) else {
        return;
    };
    log.all_came_back();
}

#[test]
fn work_on_what_was_unmapped_loses_the_device() {
    let test = "calls::work_on_what_was_unmapped_loses_the_device";
    let _ = on_driver(test, &[], || {
        let bench = bench();
        let stream = bench.device.add_stream().unwrap();
        let range = bench.reserve(UNIT, UNIT).unwrap();
        let memory = bench.create(UNIT).unwrap();
        bench.map(&range, Bytes::ZERO, &[&memory]).unwrap();
        bench.probe.spin(stream, Ticks::millis(100)).unwrap();
        let addr = bench.base(&range);
        bench.probe.fill(stream, Pattern { addr, len: UNIT, stride: 4, seed: 1 }).unwrap();
        bench.unmap(&range, Bytes::ZERO, UNIT).unwrap();
        let error = bench.device.synchronize().unwrap_err();
        assert_eq!(
            (error.class(), code::<()>(Err(error))),
            (Class::Lost, ("cuCtxSynchronize", 700))
        );
        assert_eq!(code(bench.create(UNIT)).1, 700);
    });
}

#[test]
fn a_thread_keeps_its_context() {
    let test = "calls::a_thread_keeps_its_context";
    let Some(log) = on_driver(test, &[("ZICO_DRIVER_DEVICES", "2")], || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let stream = device.add_stream().unwrap();
        assert_eq!(result::ctx::get_current(), Ok(None));
        let other = CudaContext::new(1).unwrap();
        let event = device.record(stream).unwrap();
        assert!(device.order_after(stream, &event).is_ok());
        device.memory_info().unwrap();
        assert_eq!(result::ctx::get_current(), Ok(Some(other.cu_ctx())));
        // The context that is current already is not pushed.
        let same = CudaContext::new(0).unwrap();
        device.query(&event).unwrap();
        assert_eq!(result::ctx::get_current(), Ok(Some(same.cu_ctx())));
    }) else {
        return;
    };
    log.all_came_back();
    assert_eq!(log.count("cuCtxPushCurrent_v2"), log.count("cuCtxPopCurrent_v2"));
}

#[test]
fn a_runtime_that_uses_cudarc_passes_its_own() {
    let test = "calls::a_runtime_that_uses_cudarc_passes_its_own";
    let Some(log) = on_driver(test, &[("ZICO_DRIVER_DEVICES", "2")], || {
        let context = CudaContext::new(0).unwrap();
        let device = CudaDevice::with_context(context.clone(), Options::new()).unwrap();
        let theirs = context.new_stream().unwrap();
        let stream = device.adopt_stream(theirs.clone()).unwrap();
        assert_eq!(device.adopt_stream(theirs).unwrap(), stream, "one stream has one name");
        let elsewhere = CudaContext::new(1).unwrap().default_stream();
        assert!(matches!(device.adopt_stream(elsewhere), Err(CudaError::Foreign { .. })));
        let default = device.adopt_stream(context.default_stream()).unwrap();
        assert_ne!(default, stream);
        let raw = context.new_stream().unwrap();
        // SAFETY: a stream of the device's context, dropped after the device.
        let raw_stream = unsafe { device.adopt_raw_stream(raw.cu_stream().cast()) };
        assert!(![stream, default].contains(&raw_stream));
        for stream in [stream, default, raw_stream] {
            let event = device.record(stream).unwrap();
            device.synchronize().unwrap();
            assert_eq!(device.query(&event), Ok(Passed::Yes));
        }
        device.close_stream(stream).unwrap();
        assert!(matches!(device.record(stream), Err(CudaError::Foreign { .. })));
        assert!(device.close_stream(stream).is_err());
        drop(device);
    }) else {
        return;
    };
    log.all_came_back();
    assert_eq!(log.count("cuDevicePrimaryCtxRetain"), 3 - 1);
    assert_eq!(log.count("cuStreamDestroy_v2"), log.count("cuStreamCreate"));
}

#[test]
fn events_are_used_again() {
    let test = "calls::events_are_used_again";
    let Some(log) = on_driver(test, &[], || {
        let device = CudaDevice::open(0, Options::new()).unwrap();
        let stream = device.add_stream().unwrap();
        for _ in 0..100 {
            let (one, two) = (device.record(stream).unwrap(), device.record(stream).unwrap());
            while device.query(&two) == Ok(Passed::NotYet) {
                std::thread::sleep(Duration::from_micros(50));
            }
            assert_eq!(device.query(&one), Ok(Passed::Yes));
        }
    }) else {
        return;
    };
    log.all_came_back();
    assert_eq!((log.count("cuEventRecord"), log.count("cuEventCreate")), (200, 2));
}
