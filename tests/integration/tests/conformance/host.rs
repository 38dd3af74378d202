//! The worked example of a backend, `bring_your_own_device` of `zico-mock`, under the suite.

#[path = "../../../../zico-mock/examples/bring_your_own_device/host.rs"]
mod device;

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zico_conformance::{Workload, check_all};
use zico_core::{Bytes, Device, Passed, Ticks};

use device::{Host, Stream};

/// All streams of all devices here: the device does not list its own.
static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

impl Workload for Host {
    fn idle_stream(&self) -> Stream {
        let stream = self.add_stream();
        STREAMS.lock().unwrap().push(stream);
        stream
    }

    fn foreign_stream(&self) -> Option<Stream> {
        // A device that is kept: its name would be given to another one.
        let other = Box::leak(Box::new(Host::new(Bytes::mib(1))));
        Some(other.add_stream())
    }

    fn enqueue(&self, stream: Stream, time: Ticks) {
        let time = Duration::from_nanos(time.value());
        Host::enqueue(self, stream, Box::new(move || std::thread::sleep(time))).unwrap();
    }

    fn pass(&self, time: Ticks) {
        std::thread::sleep(Duration::from_nanos(time.value()));
    }

    fn finish(&self) {
        let streams = STREAMS.lock().unwrap().clone();
        // Those of other devices are refused.
        let ends: Vec<_> = streams.into_iter().filter_map(|s| self.record(s).ok()).collect();
        while ends.iter().any(|end| self.query(end).unwrap() == Passed::NotYet) {
            self.pass(Ticks::micros(50));
        }
    }
}

#[test]
fn the_device_of_the_example_conforms() {
    check_all(|| Host::new(Bytes::mib(4)));
}

/// What the suite, which knows no device's contents, cannot see.
#[test]
fn memory_is_the_same_at_both_of_its_addresses() {
    let (device, page) = (Host::new(Bytes::mib(1)), Bytes::kib(64));
    let range = device.reserve(Bytes::mib(1), page).unwrap();
    let memory = device.create(page).unwrap();
    device.map(&range, Bytes::ZERO, &[&memory]).unwrap();
    device.map(&range, page, &[&memory]).unwrap();
    let at = |offset: u64| device.base(&range).checked_add(Bytes::new(offset)).unwrap();
    assert!(device.with_byte(at(5), |byte| byte.store(7, Ordering::Relaxed)).is_some());
    let found = device.with_byte(at(page.value() + 5), |byte| byte.load(Ordering::Relaxed));
    assert_eq!(found, Some(7));
    assert!(device.with_byte(at(2 * page.value()), |_| ()).is_none());
}

/// What the book says of it.
#[test]
fn it_has_less_than_200_lines() {
    let text = include_str!("../../../../zico-mock/examples/bring_your_own_device/host.rs");
    assert!(text.lines().count() < 200);
}
