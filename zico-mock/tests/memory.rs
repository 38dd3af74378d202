//! Memory of the mock device: refused calls, their errors, and that they change nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use zico_core::{Bytes, Class, Device, DeviceError};
use zico_mock::{MockConfig, MockDevice, MockError, MockRange, Operation};

const UNIT: Bytes = Bytes::mib(2);

fn device() -> MockDevice {
    MockDevice::new(MockConfig::new(units(16))).unwrap()
}

fn units(n: u64) -> Bytes {
    Bytes::mib(2 * n)
}

fn range(device: &MockDevice, n: u64) -> MockRange {
    device.reserve(units(n), UNIT).unwrap()
}

#[test]
fn granularity_must_be_a_power_of_two() {
    for granularity in [Bytes::ZERO, Bytes::new(3), Bytes::mib(3)] {
        let error = MockDevice::new(MockConfig::new(UNIT).granularity(granularity)).unwrap_err();
        assert_eq!(error, MockError::BadGranularity { granularity });
    }
}

#[test]
fn ranges_are_aligned_and_disjoint() {
    let device = device();
    let mut end = 0;
    for (len, align) in [(1, 1), (3, 8), (1, 64), (5, 1)] {
        let range = device.reserve(units(len), units(align)).unwrap();
        let base = device.base(&range).value();
        assert!(base.is_multiple_of(units(align).value()) && base > end);
        end = base + units(len).value();
    }
    assert_eq!(device.usage().ranges, 4);
}

#[test]
fn arguments_are_checked() {
    let device = device();
    let half = Bytes::mib(1);
    let bad_size = |size| MockError::BadSize { size, granularity: UNIT };
    assert_eq!(device.reserve(half, UNIT).unwrap_err(), bad_size(half));
    assert_eq!(device.reserve(Bytes::ZERO, UNIT).unwrap_err(), bad_size(Bytes::ZERO));
    assert_eq!(device.create(Bytes::ZERO).unwrap_err(), bad_size(Bytes::ZERO));
    assert_eq!(device.create(half).unwrap_err(), bad_size(half));
    for align in [half, Bytes::mib(6), Bytes::ZERO] {
        let error = MockError::BadAlignment { align, granularity: UNIT };
        assert_eq!(device.reserve(UNIT, align).unwrap_err(), error);
        assert_eq!(error.class(), Class::Misuse);
    }
    let huge = Bytes::new(1 << 63);
    let error = device.reserve(huge, UNIT).unwrap_err();
    assert_eq!(error, MockError::OutOfAddresses { asked: huge, align: UNIT });
    assert_eq!(error.class(), Class::OutOfMemory);
    assert_eq!(device.reserve(UNIT, huge).unwrap_err().class(), Class::OutOfMemory);
    assert_eq!(device.usage(), zico_mock::Usage::default());
}

#[test]
fn capacity_limits_what_exists_at_one_time() {
    let device = device();
    let most = device.create(units(12)).unwrap();
    let error = device.create(units(5)).unwrap_err();
    assert_eq!(error, MockError::OutOfMemory { asked: units(5), left: units(4) });
    assert_eq!(error.class(), Class::OutOfMemory);
    device.destroy(most).unwrap();
    let all = device.create(units(16)).unwrap();
    device.destroy(all).unwrap();
    let usage = device.usage();
    assert_eq!((usage.physical, usage.peak_physical, usage.memories), (Bytes::ZERO, units(16), 0));
}

#[test]
fn nothing_is_mapped_twice_at_an_address() {
    let device = device();
    let range = range(&device, 8);
    let (one, three) = (device.create(UNIT).unwrap(), device.create(units(3)).unwrap());
    device.map(&range, units(2), &[&three]).unwrap();
    let mapped = device.base(&range).checked_add(units(2)).unwrap();
    for at in 2..5 {
        let error = device.map(&range, units(at), &[&one]).unwrap_err();
        assert_eq!(error, MockError::Occupied { mapped }, "unit {at}");
    }
    let other = device.create(units(3)).unwrap();
    assert_eq!(device.map(&range, units(0), &[&other]), Err(MockError::Occupied { mapped }));
    device.map(&range, units(1), &[&one]).unwrap();
    device.map(&range, units(5), &[&other]).unwrap();
    let error = device.map(&range, units(6), &[&three]).unwrap_err();
    let beyond = MockError::BeyondRange { at: units(6), len: units(3), range: units(8) };
    assert_eq!(error, beyond);
    let error = device.map(&range, Bytes::mib(1), &[&one]).unwrap_err();
    assert_eq!(error, MockError::BadSize { size: Bytes::mib(1), granularity: UNIT });
    assert_eq!(device.usage().mappings, 3);
}

#[test]
fn only_whole_mappings_are_unmapped() {
    let device = device();
    let range = range(&device, 8);
    let base = device.base(&range);
    let at = |n| base.checked_add(units(n)).unwrap();
    let (one, three) = (device.create(UNIT).unwrap(), device.create(units(3)).unwrap());
    device.map(&range, units(1), &[&three]).unwrap();
    device.map(&range, units(4), &[&one]).unwrap();
    let cut = MockError::CutsMapping { mapped: at(1), len: units(3) };
    for (from, len) in [(1, 2), (2, 2), (2, 3), (3, 2), (0, 2)] {
        let error = device.unmap(&range, units(from), units(len)).unwrap_err();
        assert!(error == cut || error == MockError::NotMapped { hole: at(0) }, "{from} {len}");
    }
    for (from, len, hole) in [(0, 5, 0), (1, 5, 5), (6, 1, 6)] {
        let error = device.unmap(&range, units(from), units(len)).unwrap_err();
        assert_eq!(error, MockError::NotMapped { hole: at(hole) });
    }
    let beyond = device.unmap(&range, units(4), units(5)).unwrap_err();
    assert_eq!(beyond, MockError::BeyondRange { at: units(4), len: units(5), range: units(8) });
    assert_eq!(device.usage().mappings, 2, "a refused call changes nothing");
    device.unmap(&range, units(1), units(4)).unwrap();
    assert_eq!(device.usage().mappings, 0);
    device.map(&range, units(1), &[&one]).unwrap();
}

#[test]
fn what_is_mapped_is_neither_destroyed_nor_released() {
    let device = device();
    let (range, memory) = (range(&device, 2), device.create(UNIT).unwrap());
    let base = device.base(&range);
    device.map(&range, Bytes::ZERO, &[&memory]).unwrap();
    device.map(&range, UNIT, &[&memory]).unwrap();
    let refused = device.destroy(memory).unwrap_err();
    assert_eq!(refused.error, MockError::MemoryInUse { mappings: 2 });
    let memory = refused.resource;
    device.unmap(&range, Bytes::ZERO, UNIT).unwrap();
    let refused = device.release(range).unwrap_err();
    let mapped = base.checked_add(UNIT).unwrap();
    assert_eq!(refused.error, MockError::RangeInUse { mapped });
    let range = refused.resource;
    device.unmap(&range, UNIT, UNIT).unwrap();
    device.destroy(memory).unwrap();
    device.release(range).unwrap();
    let usage = device.usage();
    assert_eq!((usage.physical, usage.ranges, usage.mappings), (Bytes::ZERO, 0, 0));
}

#[test]
fn handles_of_another_device_are_refused() {
    let (here, there) = (device(), device());
    let (range_here, range_there) = (range(&here, 1), range(&there, 1));
    let (memory_here, memory_there) = (here.create(UNIT).unwrap(), there.create(UNIT).unwrap());
    let stream = there.add_stream();
    let event = there.record(stream).unwrap();
    let foreign = |what| MockError::Foreign { what };
    assert_eq!(here.map(&range_there, Bytes::ZERO, &[&memory_here]), Err(foreign("range")));
    assert_eq!(here.map(&range_here, Bytes::ZERO, &[&memory_there]), Err(foreign("memory")));
    assert_eq!(here.unmap(&range_there, Bytes::ZERO, UNIT), Err(foreign("range")));
    assert_eq!(here.record(stream).unwrap_err(), foreign("stream"));
    assert_eq!(here.query(&event), Err(foreign("event")));
    assert_eq!(here.order_after(here.add_stream(), &event), Err(foreign("event")));
    assert_eq!(here.order_after(stream, &event), Err(foreign("stream")));
    assert_eq!(here.outstanding(stream), 0);
    let memory_there = here.destroy(memory_there).unwrap_err().resource;
    let range_there = here.release(range_there).unwrap_err().resource;
    there.destroy(memory_there).unwrap();
    there.release(range_there).unwrap();
    assert_eq!((here.usage().memories, here.usage().ranges), (1, 1));
}

#[test]
fn calls_are_counted_refused_ones_too() {
    let device = device();
    let before = device.calls();
    let range = range(&device, 1);
    assert!(device.create(Bytes::new(1)).is_err());
    let memory = device.create(UNIT).unwrap();
    device.map(&range, Bytes::ZERO, &[&memory]).unwrap();
    let stream = device.add_stream();
    let event = device.record(stream).unwrap();
    for _ in 0..3 {
        device.query(&event).unwrap();
    }
    device.order_after(stream, &event).unwrap();
    device.unmap(&range, Bytes::ZERO, UNIT).unwrap();
    device.destroy(memory).unwrap();
    device.release(range).unwrap();
    let calls = device.calls().since(&before);
    let counts = Operation::ALL.map(|operation| calls.of(operation));
    assert_eq!(counts, [1, 1, 2, 1, 1, 1, 1, 3, 1, 0, 0, 0, 0]);
    assert_eq!(calls.total(), 12);
}
