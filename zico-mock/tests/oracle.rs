//! The oracle: each kind of violation alone, and legal sequences close to it.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use zico_core::{Addr, Bytes, Device, Passed, Ticks};
use zico_mock::{
    Access, Claim, MockConfig, MockDevice, MockMemory, MockRange, MockStream, Utilisation,
    Violation, ViolationKind,
};

const UNIT: Bytes = Bytes::mib(2);

/// A device with two streams and four units of memory mapped side by side.
struct Bench {
    device: MockDevice,
    streams: [MockStream; 2],
    range: MockRange,
    memory: Vec<MockMemory>,
}

impl Bench {
    fn new() -> Self {
        let device = MockDevice::new(MockConfig::new(Bytes::mib(64))).unwrap();
        let streams = [device.add_stream(), device.add_stream()];
        let range = device.reserve(Bytes::mib(16), UNIT).unwrap();
        let memory: Vec<_> = (0..4).map(|_| device.create(UNIT).unwrap()).collect();
        for (at, memory) in (0u64..).zip(&memory) {
            device.map(&range, Bytes::mib(2 * at), &[memory]).unwrap();
        }
        Self { device, streams, range, memory }
    }

    /// The address `kib` KiB into the range.
    fn at(&self, kib: u64) -> Addr {
        self.device.base(&self.range).checked_add(Bytes::kib(kib)).unwrap()
    }

    fn own(&self, stream: usize, owner: u32, kib: u64, len_kib: u64) -> Claim {
        let len = Bytes::kib(len_kib);
        self.device.own(self.streams[stream], owner, self.at(kib), len).unwrap()
    }

    fn disown(&self, stream: usize, claim: Claim) {
        self.device.disown(self.streams[stream], claim).unwrap();
    }

    fn launch(&self, stream: usize, work: u64) {
        let full = Utilisation::FULL;
        self.device.launch(self.streams[stream], Ticks::new(work), full).unwrap();
    }

    fn touch(&self, stream: usize, owner: u32, kib: u64, len_kib: u64) {
        let access = Access { owner, addr: self.at(kib), len: Bytes::kib(len_kib) };
        let (full, work) = (Utilisation::FULL, Ticks::new(10));
        self.device.launch_touching(self.streams[stream], work, full, &[access]).unwrap();
    }

    fn advance(&self, moment: u64) {
        self.device.advance_to(Ticks::new(moment));
    }

    /// The only violation, which must be one.
    fn only(&self) -> Violation {
        let violations = self.device.violations();
        assert_eq!(violations.len(), 1, "{violations:#?}");
        assert_eq!(self.device.violation_count(), 1);
        violations[0].clone()
    }

    fn none(&self) {
        assert_eq!(self.device.violations(), []);
    }
}

#[test]
fn two_owners_of_a_byte() {
    let bench = Bench::new();
    let _first = bench.own(0, 1, 0, 1024);
    bench.launch(1, 30);
    let second = bench.own(1, 2, 1023, 512);
    bench.none();
    bench.advance(30);
    let Violation { at, kind } = bench.only();
    assert_eq!(at, Ticks::new(30));
    let (len, held_len) = (Bytes::kib(512), Bytes::kib(1024));
    let (addr, held) = (bench.at(1023), bench.at(0));
    let expected = ViolationKind::Overlap { owner: 2, addr, len, holder: 1, held, held_len };
    assert_eq!(kind, expected);
    // What was refused is not the second's to give up: the first's bytes stay its own.
    bench.disown(1, second);
    bench.touch(0, 1, 0, 1024);
    bench.only();
}

#[test]
fn neighbours_do_not_overlap() {
    let bench = Bench::new();
    let middle = bench.own(0, 1, 1024, 1024);
    let _before = bench.own(1, 2, 0, 1024);
    let _after = bench.own(1, 2, 2048, 1);
    bench.disown(0, middle);
    let _whole = bench.own(0, 3, 1024, 1024);
    bench.none();
}

#[test]
fn an_owner_overlaps_with_itself() {
    let bench = Bench::new();
    let _first = bench.own(0, 1, 0, 8);
    let _second = bench.own(0, 1, 4, 8);
    assert!(matches!(bench.only().kind, ViolationKind::Overlap { owner: 1, holder: 1, .. }));
}

#[test]
fn handing_over_with_a_fence_is_legal() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 0, 4096);
    bench.launch(0, 100);
    bench.disown(0, claim);
    let fence = bench.device.record(bench.streams[0]).unwrap();
    assert_eq!(bench.device.query(&fence).unwrap(), Passed::NotYet);
    bench.advance(100);
    assert_eq!(bench.device.query(&fence).unwrap(), Passed::Yes);
    let _next = bench.own(1, 2, 1024, 4096);
    bench.none();
}

#[test]
fn handing_over_without_a_fence_is_not() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 0, 4096);
    bench.launch(0, 100);
    bench.disown(0, claim);
    bench.advance(99);
    let _next = bench.own(1, 2, 1024, 4096);
    assert!(matches!(bench.only().kind, ViolationKind::Overlap { owner: 2, holder: 1, .. }));
}

#[test]
fn handing_over_by_a_dependency_on_the_device_is_legal() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 0, 4096);
    bench.launch(0, 100);
    bench.disown(0, claim);
    let fence = bench.device.record(bench.streams[0]).unwrap();
    bench.device.order_after(bench.streams[1], &fence).unwrap();
    let next = bench.own(1, 2, 0, 4096);
    bench.touch(1, 2, 0, 4096);
    bench.disown(1, next);
    bench.device.run_until_idle();
    bench.none();
}

#[test]
fn reuse_on_the_same_stream_needs_no_event() {
    let bench = Bench::new();
    for owner in 0..10 {
        let claim = bench.own(0, owner, 0, 8192);
        bench.touch(0, owner, 1000, 5000);
        bench.disown(0, claim);
    }
    assert_eq!(bench.device.run_until_idle(), Ticks::new(100));
    bench.none();
}

#[test]
fn both_addresses_of_aliased_memory_are_one() {
    let bench = Bench::new();
    // Units 2 and 0 again, side by side, at 8 MiB.
    bench.device.map(&bench.range, Bytes::mib(8), &[&bench.memory[2]]).unwrap();
    bench.device.map(&bench.range, Bytes::mib(10), &[&bench.memory[0]]).unwrap();
    let stitched = bench.own(0, 1, 8192, 4096);
    let _free = bench.own(1, 2, 2048, 2048);
    bench.touch(0, 1, 4096, 2048); // by its other address
    bench.none();
    let last_byte = bench.own(1, 2, 2047, 1);
    assert!(matches!(bench.only().kind, ViolationKind::Overlap { owner: 2, holder: 1, .. }));
    bench.disown(1, last_byte);
    bench.device.run_until_idle();
    bench.disown(0, stitched);
    // Both pieces of it are free now.
    let _start = bench.own(1, 2, 0, 2048);
    let _end = bench.own(1, 3, 4096, 4096);
    bench.only();
}

#[test]
fn one_claim_by_two_addresses_of_the_same_memory() {
    let bench = Bench::new();
    bench.device.map(&bench.range, Bytes::mib(8), &[&bench.memory[3]]).unwrap();
    let twice = bench.own(0, 1, 6144, 4096);
    assert!(matches!(bench.only().kind, ViolationKind::Overlap { owner: 1, holder: 1, .. }));
    // Nothing of it was granted.
    let _other = bench.own(1, 2, 6144, 2048);
    bench.disown(0, twice);
    bench.only();
}

#[test]
fn a_claim_of_unmapped_bytes() {
    let bench = Bench::new();
    let claim = bench.own(0, 7, 8191, 2);
    let (addr, len, hole) = (bench.at(8191), Bytes::kib(2), bench.at(8192));
    assert_eq!(bench.only().kind, ViolationKind::ClaimUnmapped { owner: 7, addr, len, hole });
    bench.disown(0, claim);
    let _none_left = bench.own(0, 8, 8190, 2);
    bench.only();
}

#[test]
fn unmapping_what_is_owned() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 2047, 2);
    bench.device.unmap(&bench.range, Bytes::mib(4), UNIT).unwrap();
    bench.none();
    bench.device.unmap(&bench.range, UNIT, UNIT).unwrap();
    let expected = ViolationKind::UnmapInUse {
        owner: 1,
        addr: bench.at(2047),
        len: Bytes::kib(2),
        unmapped: bench.at(2048),
        unmapped_len: UNIT,
    };
    assert_eq!(bench.only().kind, expected);
    bench.disown(0, claim);
    bench.only();
}

#[test]
fn unmapping_what_queued_work_is_to_own() {
    let bench = Bench::new();
    bench.launch(0, 50);
    let claim = bench.own(0, 1, 0, 1);
    bench.disown(0, claim);
    bench.advance(20);
    bench.device.unmap(&bench.range, Bytes::ZERO, UNIT).unwrap();
    let Violation { at, kind } = bench.only();
    assert_eq!(at, Ticks::new(20), "at the unmap, not when the stream gets there");
    assert!(matches!(kind, ViolationKind::UnmapInUse { owner: 1, .. }));
    bench.device.run_until_idle();
    bench.only();
}

#[test]
fn unmapping_what_queued_work_is_to_touch() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 4096, 1);
    bench.disown(0, claim);
    bench.launch(1, 50);
    bench.touch(1, 1, 4096, 1);
    bench.device.unmap(&bench.range, Bytes::mib(4), UNIT).unwrap();
    assert!(matches!(bench.only().kind, ViolationKind::UnmapInUse { owner: 1, .. }));
}

#[test]
fn unmapping_after_the_device_has_passed_is_legal() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 0, 2048);
    bench.touch(0, 1, 0, 2048);
    bench.disown(0, claim);
    bench.device.run_until_idle();
    bench.device.unmap(&bench.range, Bytes::ZERO, UNIT).unwrap();
    bench.none();
}

#[test]
fn unmapping_one_address_leaves_claims_by_another_alone() {
    let bench = Bench::new();
    bench.device.map(&bench.range, Bytes::mib(8), &[&bench.memory[0]]).unwrap();
    let _claim = bench.own(0, 1, 0, 2048);
    bench.device.unmap(&bench.range, Bytes::mib(8), UNIT).unwrap();
    bench.none();
}

#[test]
fn touching_unmapped_bytes() {
    let bench = Bench::new();
    bench.launch(0, 5);
    bench.touch(0, 1, 8192, 1);
    bench.device.run_until_idle();
    let (addr, len) = (bench.at(8192), Bytes::kib(1));
    let kind = ViolationKind::AccessUnmapped { owner: 1, addr, len, hole: addr };
    assert_eq!(bench.only(), Violation { at: Ticks::new(5), kind });
}

#[test]
fn touching_after_giving_up() {
    let bench = Bench::new();
    let claim = bench.own(0, 1, 0, 64);
    bench.disown(0, claim);
    bench.touch(0, 1, 0, 64);
    assert!(matches!(bench.only().kind, ViolationKind::AccessNotOwned { holder: None, .. }));
}

#[test]
fn touching_what_another_owns() {
    let bench = Bench::new();
    let _mine = bench.own(0, 1, 0, 64);
    let _too = bench.own(0, 1, 64, 64);
    let _other = bench.own(0, 2, 128, 64);
    bench.touch(0, 1, 0, 128);
    bench.none();
    bench.touch(0, 1, 0, 129);
    bench.device.run_until_idle();
    let (addr, len) = (bench.at(0), Bytes::kib(129));
    let kind = ViolationKind::AccessNotOwned { owner: 1, addr, len, holder: Some(2) };
    assert_eq!(bench.only(), Violation { at: Ticks::new(10), kind });
}

#[test]
fn giving_up_on_another_stream_before_it_began() {
    let bench = Bench::new();
    bench.launch(0, 10);
    let claim = bench.own(0, 1, 0, 64);
    bench.disown(1, claim);
    assert!(matches!(bench.only().kind, ViolationKind::DisownedTooSoon { owner: 1, .. }));
    bench.advance(10);
    let _free = bench.own(1, 2, 0, 64);
    bench.only();
}

#[test]
fn a_claim_that_is_spoilt_and_given_up_too_soon_is_gone_when_its_stream_gets_there() {
    let bench = Bench::new();
    bench.launch(0, 10);
    let spoilt = bench.own(0, 1, 0, 64);
    bench.device.unmap(&bench.range, Bytes::ZERO, UNIT).unwrap();
    bench.disown(1, spoilt);
    bench.launch(1, 20);
    let next = bench.own(1, 2, 2048, 64);
    bench.touch(1, 2, 2048, 64);
    bench.disown(1, next);
    bench.device.run_until_idle();
    let _free = bench.own(0, 3, 2048, 64);
    assert!(matches!(bench.only().kind, ViolationKind::UnmapInUse { owner: 1, .. }));
}

#[test]
fn more_memory_than_the_budget() {
    let config = MockConfig::new(Bytes::mib(64)).budget(Bytes::mib(4));
    let device = MockDevice::new(config).unwrap();
    let first = device.create(Bytes::mib(4)).unwrap();
    assert_eq!(device.violation_count(), 0, "the budget itself is within the budget");
    device.advance_to(Ticks::new(3));
    let second = device.create(UNIT).unwrap();
    let kind = ViolationKind::OverBudget { physical: Bytes::mib(6), budget: Bytes::mib(4) };
    assert_eq!(device.violations(), [Violation { at: Ticks::new(3), kind }]);
    device.destroy(first).unwrap();
    device.destroy(second).unwrap();
    device.set_budget(Some(UNIT));
    let _third = device.create(UNIT).unwrap();
    assert_eq!(device.violation_count(), 1);
    assert_eq!(device.usage().peak_physical, Bytes::mib(6));
}

#[test]
fn violations_are_counted_but_not_all_kept() {
    let bench = Bench::new();
    for _ in 0..1_500 {
        let claim = bench.own(0, 1, 9000, 1);
        bench.disown(0, claim);
    }
    assert_eq!(bench.device.violation_count(), 1_500);
    assert_eq!(bench.device.violations().len(), 1_000);
}

#[test]
fn violations_read_well() {
    let bench = Bench::new();
    let _claim = bench.own(0, 1, 0, 4096);
    let _other = bench.own(1, 2, 2048, 1);
    let text = bench.only().to_string();
    let (a, b) = (bench.at(2048), bench.at(0));
    let expected = format!(
        "at 0 ns: 2 was given 1 KiB at {a}, of which 1 still held a part by its 4 MiB at {b}"
    );
    assert_eq!(text, expected);
}

#[test]
fn strays_of_another_device_are_refused() {
    let (bench, other) = (Bench::new(), Bench::new());
    let stream = other.streams[0];
    assert!(bench.device.launch(stream, Ticks::ZERO, Utilisation::FULL).is_err());
    assert!(bench.device.launch_touching(stream, Ticks::ZERO, Utilisation::FULL, &[]).is_err());
    assert!(bench.device.own(stream, 1, bench.at(0), UNIT).is_err());
    let claim = bench.own(0, 1, 0, 1);
    let claim = other.device.disown(other.streams[0], claim).unwrap_err().resource;
    let claim = bench.device.disown(other.streams[0], claim).unwrap_err().resource;
    bench.disown(0, claim);
    let _free = bench.own(1, 2, 0, 1);
    bench.none();
}
