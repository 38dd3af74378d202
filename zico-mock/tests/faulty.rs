//! Fault plans: the right call fails, nothing is lost, and the same seed gives the same failures.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use zico_core::{Bytes, Class, Device, DeviceError};
use zico_mock::{
    FaultPlan, Faulty, FaultyError, MockConfig, MockDevice, MockError, Operation, Operations,
};

const UNIT: Bytes = Bytes::mib(2);

fn faulty(plan: FaultPlan) -> Faulty<MockDevice> {
    Faulty::new(MockDevice::new(MockConfig::new(Bytes::mib(64))).unwrap(), plan)
}

#[test]
fn the_nth_call_fails_and_no_other() {
    let device = faulty(FaultPlan::none().nth(Operation::Create, 3, Class::Transient));
    let results: Vec<_> = (0..5).map(|_| device.create(UNIT)).collect();
    let failed: Vec<_> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, true, false, false]);
    let error = results.into_iter().find_map(Result::err).unwrap();
    let (operation, class) = (Operation::Create, Class::Transient);
    assert_eq!(error, FaultyError::Injected { operation, nth: 3, class });
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(error.to_string(), "injected failure (Transient) of call 3 of create");
    assert_eq!((device.injected(), device.calls().of(Operation::Create)), (1, 5));
    assert_eq!(device.inner().calls().of(Operation::Create), 4, "a failed call is not passed on");
}

#[test]
fn calls_of_several_operations_are_counted_together() {
    let operations = Operations::CREATE | Operations::RESERVE;
    let device = faulty(FaultPlan::none().nth(operations, 2, Class::OutOfMemory));
    let memory = device.create(UNIT).unwrap();
    device.destroy(memory).unwrap();
    assert_eq!(device.reserve(UNIT, UNIT).unwrap_err().class(), Class::OutOfMemory);
    device.reserve(UNIT, UNIT).unwrap();
}

#[test]
fn rules_count_what_others_fail() {
    let plan = FaultPlan::none()
        .nth(Operation::Create, 1, Class::Transient)
        .nth(Operation::Create, 2, Class::OutOfMemory)
        .nth(Operation::Create, 0, Class::Unsupported);
    let device = faulty(plan);
    assert_eq!(device.create(UNIT).unwrap_err().class(), Class::Transient);
    assert_eq!(device.create(UNIT).unwrap_err().class(), Class::OutOfMemory);
    device.create(UNIT).unwrap();
}

#[test]
fn a_refused_call_gives_its_resource_back() {
    let plan = FaultPlan::none().nth(Operation::Destroy, 1, Class::Transient).nth(
        Operation::Release,
        1,
        Class::Transient,
    );
    let device = faulty(plan);
    let (memory, range) = (device.create(UNIT).unwrap(), device.reserve(UNIT, UNIT).unwrap());
    let memory = device.destroy(memory).unwrap_err().resource;
    let range = device.release(range).unwrap_err().resource;
    device.destroy(memory).unwrap();
    device.release(range).unwrap();
    let usage = device.inner().usage();
    assert_eq!((usage.memories, usage.ranges), (0, 0));
}

#[test]
fn every_operation_can_fail() {
    let device = faulty(FaultPlan::none());
    let stream = device.inner().add_stream();
    let (range, memory) = (device.reserve(UNIT, UNIT).unwrap(), device.create(UNIT).unwrap());
    let event = device.record(stream).unwrap();
    let zero = Bytes::ZERO;
    device.set_plan(FaultPlan::none().random(Operations::all(), 1000, 0, Class::Transient));
    let before = device.inner().calls();
    assert!(device.reserve(UNIT, UNIT).is_err() && device.create(UNIT).is_err());
    assert!(device.map(&range, zero, &[&memory]).is_err());
    assert!(device.unmap(&range, zero, UNIT).is_err());
    assert!(device.record(stream).is_err() && device.query(&event).is_err());
    assert!(device.order_after(stream, &event).is_err());
    assert!(device.destroy(memory).is_err() && device.release(range).is_err());
    assert_eq!((device.injected(), device.inner().calls()), (9, before));
}

/// Which of a thousand calls fail.
fn fates(permille: u16, seed: u64) -> Vec<bool> {
    let plan = FaultPlan::none().random(Operations::QUERY, permille, seed, Class::Transient);
    let device = faulty(plan);
    let stream = device.inner().add_stream();
    let event = device.record(stream).unwrap();
    (0..1_000).map(|_| device.query(&event).is_err()).collect()
}

#[test]
fn chance_is_about_right_and_repeats() {
    let failed = fates(250, 7).into_iter().filter(|&failed| failed).count();
    assert!((200..300).contains(&failed), "{failed} of 1000 at 25%");
    assert_eq!(fates(250, 7), fates(250, 7));
    assert_ne!(fates(250, 7), fates(250, 8));
    assert!(fates(0, 7).into_iter().all(|failed| !failed));
}

#[test]
fn a_lost_device_stays_lost() {
    let device = faulty(FaultPlan::none().nth(Operation::Create, 1, Class::Lost));
    device.reserve(UNIT, UNIT).unwrap();
    assert_eq!(device.create(UNIT).unwrap_err().class(), Class::Lost);
    assert_eq!(device.reserve(UNIT, UNIT).unwrap_err().class(), Class::Lost);
    device.set_plan(FaultPlan::none());
    device.create(UNIT).unwrap();
}

#[test]
fn errors_of_the_device_pass_through() {
    let device = faulty(FaultPlan::none());
    let error = device.create(Bytes::gib(1)).unwrap_err();
    let (asked, left) = (Bytes::gib(1), Bytes::mib(64));
    assert_eq!(error, FaultyError::Device(MockError::OutOfMemory { asked, left }));
    assert_eq!(error.class(), Class::OutOfMemory);
    assert_eq!(error.to_string(), "out of memory: 1 GiB asked for, 64 MiB left");
    assert_eq!(device.into_inner().calls().total(), 1);
}
