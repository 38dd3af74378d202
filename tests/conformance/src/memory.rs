//! Clauses about address ranges, physical memory and mappings.

use zico_core::{Addr, Bytes, Class, Device};

use super::{Check, Workload, must, must_not, must_not_by};

pub(super) fn checks<D: Workload>() -> Vec<Check<D>> {
    vec![
        ("caps make sense", caps_make_sense),
        ("ranges are aligned and disjoint", ranges_are_aligned_and_disjoint),
        ("bad ranges are refused", bad_ranges_are_refused),
        ("a range in use is given back", a_range_in_use_is_given_back),
        ("memory is limited", memory_is_limited),
        ("destroyed memory can be had again", destroyed_memory_can_be_had_again),
        ("memory in use is given back", memory_in_use_is_given_back),
        ("an address has one mapping", an_address_has_one_mapping),
        (
            "pieces are mapped side by side or not at all",
            pieces_are_mapped_side_by_side_or_not_at_all,
        ),
        ("a mapping must fit", a_mapping_must_fit),
        ("a refused map changes nothing", a_refused_map_changes_nothing),
        ("unmap takes whole mappings", unmap_takes_whole_mappings),
        ("unmap frees the address", unmap_frees_the_address),
        ("memory may have two addresses", memory_may_have_two_addresses),
        ("two calls may run at once", two_calls_may_run_at_once),
    ]
}

/// A range of some units, and memory of one, two and one of them.
struct Bench<'d, D: Device> {
    device: &'d D,
    range: D::Range,
    one: D::Memory,
    two: D::Memory,
    other: D::Memory,
}

impl<'d, D: Device> Bench<'d, D> {
    fn new(device: &'d D) -> Self {
        Self {
            device,
            range: must(device.reserve(units(device, 8), units(device, 1)), "reserving"),
            one: must(device.create(units(device, 1)), "creating one unit"),
            two: must(device.create(units(device, 2)), "creating two units"),
            other: must(device.create(units(device, 1)), "creating one unit"),
        }
    }

    fn map(&self, at: u64, memory: &D::Memory) -> Result<(), D::Error> {
        self.map_all(at, &[memory])
    }

    fn map_all(&self, at: u64, memory: &[&D::Memory]) -> Result<(), D::Error> {
        self.device.map(&self.range, units(self.device, at), memory)
    }

    fn unmap(&self, at: u64, len: u64) -> Result<(), D::Error> {
        self.device.unmap(&self.range, units(self.device, at), units(self.device, len))
    }

    /// Gives everything back; `mapped` are the units that are mapped.
    fn clear(self, mapped: &[u64]) {
        for &at in mapped {
            must(self.unmap(at, 1), "unmapping");
        }
        for memory in [self.one, self.two, self.other] {
            must(self.device.destroy(memory), "destroying memory that is mapped nowhere");
        }
        must(self.device.release(self.range), "releasing an empty range");
    }
}

fn units<D: Device>(device: &D, n: u64) -> Bytes {
    Bytes::new(device.caps().granularity.value().saturating_mul(n))
}

fn caps_make_sense<D: Workload>(device: &D) {
    let caps = device.caps();
    assert!(caps.granularity.value().is_power_of_two(), "the granularity must be a power of two");
    assert!(caps.capacity >= caps.granularity, "the capacity must hold one unit");
    assert_eq!(caps, device.caps(), "the properties of a device must not change");
}

fn ranges_are_aligned_and_disjoint<D: Workload>(device: &D) {
    let mut ranges: Vec<(Addr, D::Range, u64)> = Vec::new();
    for (len, align) in [(1, 1), (3, 4), (2, 32), (5, 1), (1, 16)] {
        let align = units(device, align);
        let range = must(device.reserve(units(device, len), align), "reserving");
        let base = device.base(&range);
        let aligned = base.value().is_multiple_of(align.value());
        assert!(aligned, "a range must begin at a multiple of its alignment");
        assert_eq!(base, device.base(&range), "the base of a range must not change");
        ranges.push((base, range, len));
    }
    ranges.sort_by_key(|(base, ..)| *base);
    for pair in ranges.windows(2) {
        let end = pair[0].0.checked_add(units(device, pair[0].2));
        assert!(end.is_some_and(|end| end <= pair[1].0), "two ranges must not overlap");
    }
    for (_, range, _) in ranges {
        must(device.release(range), "releasing an empty range");
    }
}

fn bad_ranges_are_refused<D: Workload>(device: &D) {
    let unit = units(device, 1);
    let part = Bytes::new(unit.value() / 2);
    if !part.is_zero() {
        must_not(device.reserve(part, unit), "a range of a part of a unit");
        must_not(device.reserve(unit, part), "an alignment of less than the granularity");
    }
    must_not(device.reserve(unit, units(device, 3)), "an alignment that is no power of two");
}

fn a_range_in_use_is_given_back<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(1, &bench.one), "mapping");
    let base = device.base(&bench.range);
    let Bench { range, one, two, other, .. } = bench;
    let range = must_not(device.release(range), "releasing a range in use").resource;
    assert_eq!(device.base(&range), base, "a refused release must give the same range back");
    Bench { device, range, one, two, other }.clear(&[1]);
}

fn memory_is_limited<D: Workload>(device: &D) {
    let caps = device.caps();
    let beyond = caps.capacity.round_up(caps.granularity).and_then(|all| {
        // One unit more than all there is.
        all.checked_add(caps.granularity)
    });
    if let Some(beyond) = beyond {
        let what = "creating more memory than the capacity";
        must_not_by(device.create(beyond), Class::OutOfMemory, what);
    }
    let part = Bytes::new(caps.granularity.value() / 2);
    if !part.is_zero() {
        must_not(device.create(part), "creating a part of a unit");
    }
}

fn destroyed_memory_can_be_had_again<D: Workload>(device: &D) {
    let quarter = (device.caps().capacity.value() / device.caps().granularity.value() / 4).max(1);
    // Twice the capacity in all.
    for _ in 0..8 {
        let memory = must(device.create(units(device, quarter)), "creating what was destroyed");
        must(device.destroy(memory), "destroying memory that is mapped nowhere");
    }
}

fn memory_in_use_is_given_back<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(0, &bench.one), "mapping");
    let Bench { range, one, two, other, .. } = bench;
    let one = must_not(device.destroy(one), "destroying memory in use").resource;
    Bench { device, range, one, two, other }.clear(&[0]);
}

fn an_address_has_one_mapping<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(2, &bench.one), "mapping");
    must_not(bench.map(2, &bench.other), "mapping where something is mapped");
    must_not(bench.map(1, &bench.two), "mapping partly where something is mapped");
    must_not(bench.map(2, &bench.two), "mapping partly where something is mapped");
    must(bench.map(3, &bench.other), "mapping beside a mapping");
    bench.clear(&[2, 3]);
}

fn pieces_are_mapped_side_by_side_or_not_at_all<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map_all(2, &[]), "mapping nothing");
    must(bench.map_all(1, &[&bench.one, &bench.two, &bench.other]), "mapping three pieces");
    must(bench.unmap(2, 2), "unmapping the second of three pieces");
    must(bench.map(2, &bench.two), "mapping the second piece again");
    must(bench.unmap(1, 4), "unmapping three pieces at once");
    must(bench.map(4, &bench.other), "mapping one piece");
    let pieces = [&bench.one, &bench.two, &bench.other];
    must_not(bench.map_all(2, &pieces), "mapping pieces of which one is in the way of a mapping");
    must_not(bench.map_all(6, &pieces), "mapping pieces across the end of a range");
    // Nothing of what was refused may be in the way.
    must(bench.map_all(1, &[&bench.one, &bench.two]), "mapping after a refusal");
    must(bench.unmap(1, 4), "unmapping what lies side by side");
    bench.clear(&[]);
}

fn a_mapping_must_fit<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must_not(bench.map(8, &bench.one), "mapping behind the end of a range");
    must_not(bench.map(7, &bench.two), "mapping across the end of a range");
    must_not(bench.map(u64::MAX, &bench.one), "mapping at the end of all addresses");
    let part = Bytes::new(device.caps().granularity.value() / 2);
    if !part.is_zero() {
        let result = device.map(&bench.range, part, &[&bench.one]);
        must_not(result, "mapping between two units");
    }
    must(bench.map(7, &bench.one), "mapping at the end of a range");
    bench.clear(&[7]);
}

fn a_refused_map_changes_nothing<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(0, &bench.one), "mapping");
    must_not(bench.map(0, &bench.other), "mapping where something is mapped");
    let Bench { range, one, two, other, .. } = bench;
    must(device.destroy(other), "destroying memory whose only mapping was refused");
    must_not(device.unmap(&range, units(device, 1), units(device, 1)), "unmapping nothing");
    let other = must(device.create(units(device, 1)), "creating one unit");
    Bench { device, range, one, two, other }.clear(&[0]);
}

fn unmap_takes_whole_mappings<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(1, &bench.two), "mapping");
    must(bench.map(3, &bench.one), "mapping");
    must_not(bench.unmap(1, 1), "cutting a mapping");
    must_not(bench.unmap(2, 2), "cutting a mapping");
    must_not(bench.map(1, &bench.other), "mapping where a refused unmap left a mapping");
    must_not(bench.unmap(5, 2), "unmapping nothing");
    must_not(bench.unmap(8, 1), "unmapping behind the end of a range");
    must(bench.unmap(1, 3), "unmapping two mappings at once");
    bench.clear(&[]);
}

fn unmap_frees_the_address<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    for memory in [&bench.one, &bench.other, &bench.one] {
        must(bench.map(4, memory), "mapping where something was unmapped");
        must(bench.unmap(4, 1), "unmapping");
        must_not(bench.unmap(4, 1), "unmapping what was unmapped");
    }
    bench.clear(&[]);
}

fn memory_may_have_two_addresses<D: Workload>(device: &D) {
    let bench = Bench::new(device);
    must(bench.map(0, &bench.one), "mapping");
    must(bench.map(4, &bench.one), "a second mapping");
    must(bench.unmap(0, 1), "unmapping one of two mappings");
    let Bench { range, one, two, other, .. } = bench;
    let one = must_not(device.destroy(one), "destroying memory with a mapping left").resource;
    Bench { device, range, one, two, other }.clear(&[4]);
}

fn two_calls_may_run_at_once<D: Workload>(device: &D) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let bench = Bench::new(device);
                    must(bench.map(0, &bench.one), "mapping from several threads");
                    bench.clear(&[0]);
                }
            });
        }
    });
}
