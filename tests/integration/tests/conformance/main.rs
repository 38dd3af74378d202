//! The conformance suite on the devices that need no hardware, and on devices with a defect, each
//! of which has to fail.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod broken;
mod host;

use std::panic::{AssertUnwindSafe, catch_unwind};

use broken::{Broken, Defect};
use zico_conformance::{check_all, checks};
use zico_core::Bytes;
use zico_mock::{FaultPlan, Faulty, MockConfig, MockDevice, Operation};
use zico_node::host::{HostConfig, HostDevice};

fn mock() -> MockDevice {
    MockDevice::new(MockConfig::new(Bytes::mib(64)).host(Bytes::mib(128))).unwrap()
}

#[test]
fn the_mock_conforms() {
    check_all(mock);
}

#[test]
fn one_device_stands_all_checks_in_a_row_and_is_left_empty() {
    let device = mock();
    check_all(|| device.clone());
    let usage = device.usage();
    assert_eq!((usage.physical, usage.ranges, usage.mappings), (Bytes::ZERO, 0, 0));
    assert_eq!(device.violations(), []);
    assert!(device.idle());
}

#[test]
fn the_mock_conforms_at_other_granularities() {
    for granularity in [1, 4 << 10, 32 << 20] {
        let config = MockConfig::new(Bytes::gib(2)).granularity(Bytes::new(granularity));
        check_all(|| MockDevice::new(config).unwrap());
    }
}

#[test]
fn a_faulty_device_without_faults_conforms() {
    check_all(|| Faulty::new(mock(), FaultPlan::none()));
    check_all(|| Faulty::new(Faulty::new(mock(), FaultPlan::none()), FaultPlan::none()));
}

#[test]
fn host_memory_conforms() {
    for granularity in [4 << 10, 64 << 10, 2 << 20] {
        let config =
            HostConfig::new().granularity(Bytes::new(granularity)).capacity(Bytes::mib(64));
        check_all(|| HostDevice::new(config).unwrap());
        let device = HostDevice::new(config).unwrap();
        check_all(|| Faulty::new(device.clone(), FaultPlan::none()));
    }
}

#[test]
fn every_check_fails_on_some_broken_device() {
    let fails = |check: fn(&Broken), defect| {
        let device = Broken::new(mock(), defect);
        catch_unwind(AssertUnwindSafe(|| check(&device))).is_err()
    };
    for (name, check) in checks::<Broken>() {
        // With an odd granularity most checks fail on the way to what they are about.
        let odd = Defect::GranularityIsNoPowerOfTwo;
        let mut defects = Defect::ALL.into_iter().filter(|d| *d != odd || name.contains("caps"));
        let failed = defects.any(|defect| fails(check, defect));
        assert!(failed, "no defect makes the check fail that {name}");
    }
    for defect in Defect::ALL {
        let failed = checks::<Broken>().into_iter().any(|(_, check)| fails(check, defect));
        assert!(failed, "no check finds {defect:?}");
    }
}

fn run(defect: Defect) {
    check_all(|| Broken::new(mock(), defect));
}

#[test]
fn a_wrapper_without_a_defect_conforms() {
    run(Defect::Nothing);
}

#[test]
#[should_panic(expected = "an event must not pass before the work before it")]
fn events_that_pass_at_once_are_found() {
    run(Defect::EventsPassAtOnce);
}

#[test]
#[should_panic(expected = "work ordered after an event must not run before it has passed")]
fn waits_that_do_nothing_are_found() {
    run(Defect::WaitsDoNothing);
}

#[test]
#[should_panic(expected = "unmap must not wait for work on a stream to finish")]
fn calls_that_wait_are_found() {
    run(Defect::UnmapWaits);
}

#[test]
#[should_panic(expected = "the clock must not go back")]
fn a_clock_that_goes_back_is_found() {
    run(Defect::ClockGoesBack);
}

#[test]
#[should_panic(expected = "mapping where something is mapped must be refused")]
fn mapping_over_a_mapping_is_found() {
    run(Defect::NeverRefuses(Operation::Map));
}

#[test]
#[should_panic(expected = "creating what was destroyed must succeed")]
fn memory_that_leaks_is_found() {
    run(Defect::DestroyLeaks);
}

#[test]
#[should_panic(expected = "a range must begin at a multiple of its alignment")]
fn ranges_that_are_not_aligned_are_found() {
    run(Defect::AlignmentIsIgnored);
}

#[test]
#[should_panic(expected = "unmapping nothing must be refused")]
fn an_unmap_that_swallows_errors_is_found() {
    run(Defect::NeverRefuses(Operation::Unmap));
}

#[test]
#[should_panic(expected = "mapping after a refusal must succeed")]
fn pieces_that_stay_mapped_after_a_refusal_are_found() {
    run(Defect::MapsTheFirst);
}

#[test]
#[should_panic(expected = "what comes back must be what was copied out")]
fn copies_that_are_not_made_are_found() {
    run(Defect::CopiesNothing);
}

#[test]
#[should_panic(expected = "a copy must see what was enqueued before it")]
fn copies_out_of_turn_are_found() {
    run_one("a copy has its turn in its stream", Defect::CopiesOutOfTurn);
}

#[test]
#[should_panic(expected = "a copy must not wait for work before it")]
fn copies_that_wait_are_found() {
    run_one("no copy waits for work", Defect::CopyWaits);
}

#[test]
#[should_panic(expected = "copying out what is not mapped must be refused")]
fn copies_of_nothing_are_found() {
    run(Defect::NeverRefuses(Operation::CopyOut));
}

fn run_one(name: &str, defect: Defect) {
    let checks = checks::<Broken>();
    let (_, check) = checks.iter().find(|(other, _)| *other == name).unwrap();
    check(&Broken::new(mock(), defect));
}

#[test]
fn a_device_without_a_host_tier_conforms() {
    check_all(|| MockDevice::new(MockConfig::new(Bytes::mib(64)).link(None)).unwrap());
}
