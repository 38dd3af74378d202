//! Clauses about the host tier: host memory, and copies. A device without one has nothing to keep.

use zico_core::{Addr, Bytes, Device, Host, HostMemory, Passed, Ticks};

use super::{Check, Workload, must, must_not};

pub(super) fn checks<D: Workload>() -> Vec<Check<D>> {
    vec![
        ("host memory can be had again", host_memory_can_be_had_again),
        ("no host memory is none", no_host_memory_is_none),
        ("what is copied out and in is the same", what_is_copied_out_and_in_is_the_same),
        ("a copy leaves what is beside it", a_copy_leaves_what_is_beside_it),
        ("a copy has its turn in its stream", a_copy_has_its_turn_in_its_stream),
        ("an event behind a copy passes with it", an_event_behind_a_copy_passes_with_it),
        ("no copy waits for work", no_copy_waits_for_work),
        ("copies of what is not mapped are refused", copies_of_what_is_not_mapped_are_refused),
        ("foreign handles of copies are refused", foreign_handles_of_copies_are_refused),
    ]
}

/// How long the device is kept busy where something has to be seen meanwhile.
const WHILE: Ticks = Ticks::millis(20);
/// Units in the range; those from 1 on are mapped, the last two are not.
const UNITS: u64 = 6;
const MAPPED: u64 = 3;

/// Some units of mapped memory, and host memory for one of them and for two.
struct Bench<'d, D: Device> {
    device: &'d D,
    host: Host<'d, D>,
    unit: Bytes,
    range: D::Range,
    memory: Vec<D::Memory>,
    one: HostMemory,
    two: HostMemory,
}

impl<'d, D: Workload> Bench<'d, D> {
    fn new(device: &'d D) -> Option<Self> {
        let (host, unit) = (device.host()?, device.caps().granularity);
        let units = |n: u64| Bytes::new(unit.value() * n);
        let range = must(device.reserve(units(UNITS), unit), "reserving");
        let memory: Vec<D::Memory> =
            (0..MAPPED).map(|_| must(device.create(unit), "creating one unit")).collect();
        must(device.map(&range, unit, &memory.iter().collect::<Vec<_>>()), "mapping");
        let one = must(host.allocate(unit), "allocating host memory");
        let two = must(host.allocate(units(2)), "allocating host memory");
        Some(Self { device, host, unit, range, memory, one, two })
    }

    fn offset(&self, unit: u64) -> Bytes {
        Bytes::new(self.unit.value() * unit)
    }

    fn at(&self, unit: u64) -> Addr {
        let base = self.device.base(&self.range);
        must(base.checked_add(self.offset(unit)).ok_or("beyond"), "an address of the range")
    }

    fn fill(&self, stream: D::Stream, unit: u64, seed: u32) {
        self.device.fill(stream, self.at(unit), self.unit, seed);
    }

    fn check(&self, stream: D::Stream, unit: u64, seed: u32) {
        self.device.check(stream, self.at(unit), self.unit, seed);
    }

    fn out(&self, stream: D::Stream, unit: u64, to: &HostMemory) {
        let copied = self.host.copy_out(stream, &self.range, self.offset(unit), to);
        must(copied, "a copy to the host");
    }

    fn back(&self, stream: D::Stream, unit: u64, from: &HostMemory) {
        let copied = self.host.copy_in(stream, &self.range, self.offset(unit), from);
        must(copied, "a copy from the host");
    }

    /// Waits for the device, gives everything back, and looks at what was checked.
    fn clear(self, what: &str) {
        self.device.finish();
        let wrong = self.device.wrong();
        for memory in [self.one, self.two] {
            must(self.host.free(memory), "freeing host memory that no copy uses");
        }
        let mapped = Bytes::new(self.unit.value() * MAPPED);
        must(self.device.unmap(&self.range, self.unit, mapped), "unmapping");
        for memory in self.memory {
            must(self.device.destroy(memory), "destroying memory that is mapped nowhere");
        }
        must(self.device.release(self.range), "releasing an empty range");
        assert_eq!(wrong, 0, "{what}");
    }
}

fn host_memory_can_be_had_again<D: Workload>(device: &D) {
    let Some(host) = device.host() else { return };
    let len = Bytes::new(device.caps().granularity.value().saturating_mul(4));
    let mut numbers = Vec::new();
    for _ in 0..64 {
        let some = [(); 2].map(|()| must(host.allocate(len), "allocating host memory"));
        assert_ne!(some[0].number(), some[1].number(), "two pieces must not be the same");
        assert_eq!([some[0].len(), some[1].len()], [len; 2], "as long as was asked for");
        numbers.extend(some.iter().map(HostMemory::number));
        for memory in some {
            must(host.free(memory), "freeing host memory that no copy uses");
        }
    }
    let freed = HostMemory::new(numbers[0], len);
    let one = must(host.allocate(device.caps().granularity), "allocating host memory");
    if one.number() != freed.number() {
        must_not(host.free(freed), "freeing what has been freed");
    }
    must(host.free(one), "freeing host memory that no copy uses");
}

fn no_host_memory_is_none<D: Workload>(device: &D) {
    let Some(host) = device.host() else { return };
    must_not(host.allocate(Bytes::ZERO), "allocating nothing");
    let part = Bytes::new(device.caps().granularity.value() / 2);
    if !part.is_zero() {
        must_not(host.allocate(part), "host memory of a part of a unit");
    }
}

fn what_is_copied_out_and_in_is_the_same<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let stream = device.idle_stream();
    for unit in 1..=MAPPED {
        bench.fill(stream, unit, u32::try_from(unit).unwrap_or(0));
    }
    // One unit, and two in one copy; what was there is lost meanwhile.
    bench.out(stream, 1, &bench.one);
    bench.out(stream, 2, &bench.two);
    (1..=MAPPED).for_each(|unit| bench.fill(stream, unit, 99));
    bench.back(stream, 2, &bench.two);
    bench.back(stream, 1, &bench.one);
    for unit in 1..=MAPPED {
        bench.check(stream, unit, u32::try_from(unit).unwrap_or(0));
    }
    bench.clear("what comes back must be what was copied out");
}

fn a_copy_leaves_what_is_beside_it<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let stream = device.idle_stream();
    (1..=MAPPED).for_each(|unit| bench.fill(stream, unit, 5));
    bench.out(stream, 2, &bench.one);
    bench.fill(stream, 1, 6);
    bench.fill(stream, 3, 7);
    bench.back(stream, 2, &bench.one);
    for (unit, seed) in [(1, 6), (2, 5), (3, 7)] {
        bench.check(stream, unit, seed);
    }
    bench.clear("what is beside a copy must stay as it is");
}

fn a_copy_has_its_turn_in_its_stream<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let stream = device.idle_stream();
    bench.fill(stream, 1, 1);
    device.enqueue(stream, WHILE);
    bench.fill(stream, 1, 2);
    bench.out(stream, 1, &bench.one);
    bench.fill(stream, 1, 3);
    bench.back(stream, 1, &bench.one);
    bench.check(stream, 1, 2);
    bench.clear("a copy must see what was enqueued before it, and nothing that comes later");
}

fn an_event_behind_a_copy_passes_with_it<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let (stream, other) = (device.idle_stream(), device.idle_stream());
    bench.fill(stream, 1, 1);
    device.enqueue(stream, WHILE);
    bench.fill(stream, 1, 2);
    bench.out(stream, 1, &bench.one);
    let event = must(device.record(stream), "recording an event behind a copy");
    let passed = must(device.query(&event), "looking at an event");
    assert_eq!(passed, Passed::NotYet, "an event behind a copy must wait for its turn");
    // Another stream may use the host's copy from there on.
    must(device.order_after(other, &event), "waiting for an event behind a copy");
    bench.back(other, 2, &bench.one);
    bench.check(other, 2, 2);
    device.finish();
    let passed = must(device.query(&event), "looking at an event");
    assert_eq!(passed, Passed::Yes, "an event behind a copy must pass when it has been made");
    bench.clear("what waits for a copy must see all of it");
}

fn no_copy_waits_for_work<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let stream = device.idle_stream();
    device.enqueue(stream, WHILE);
    let event = must(device.record(stream), "recording an event");
    bench.out(stream, 1, &bench.one);
    bench.back(stream, 1, &bench.one);
    let passed = must(device.query(&event), "looking at an event");
    assert_eq!(passed, Passed::NotYet, "a copy must not wait for work before it");
    bench.clear("nothing was checked");
}

fn copies_of_what_is_not_mapped_are_refused<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let stream = device.idle_stream();
    let Bench { host, range, one, two, .. } = &bench;
    // Before what is mapped, behind it, across its ends, and beyond the range.
    for (unit, memory) in [(0, one), (0, two), (MAPPED, two), (MAPPED + 1, one), (UNITS, one)] {
        let at = bench.offset(unit);
        must_not(host.copy_out(stream, range, at, memory), "copying out what is not mapped");
        must_not(host.copy_in(stream, range, at, memory), "copying in where nothing is mapped");
    }
    let last = Bytes::new(!(bench.unit.value() - 1));
    must_not(host.copy_out(stream, range, last, one), "copying from the end of all addresses");
    bench.clear("nothing was checked");
}

fn foreign_handles_of_copies_are_refused<D: Workload>(device: &D) {
    let Some(bench) = Bench::new(device) else { return };
    let (stream, at) = (device.idle_stream(), bench.unit);
    let none = HostMemory::new(u64::MAX - 1, bench.unit);
    let longer = HostMemory::new(bench.one.number(), bench.offset(2));
    for memory in [none, longer] {
        let result = bench.host.copy_out(stream, &bench.range, at, &memory);
        must_not(result, "copying to host memory that is none");
        let result = bench.host.copy_in(stream, &bench.range, at, &memory);
        must_not(result, "copying from host memory that is none");
        must_not(bench.host.free(memory), "freeing host memory that is none");
    }
    if let Some(foreign) = device.foreign_stream() {
        let result = bench.host.copy_out(foreign, &bench.range, at, &bench.one);
        must_not(result, "a copy on another device's stream");
    }
    bench.clear("nothing was checked");
}
