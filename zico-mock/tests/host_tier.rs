//! The host tier of the mock: the link is shared, and the oracle sees what is in memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use zico_core::{Bytes, Class, Device, DeviceError, HostTier, Link, Passed, Ticks};
use zico_mock::{
    Access, MockConfig, MockDevice, MockError, MockMemory, MockRange, MockStream, Operation,
    Utilisation, ViolationKind,
};

const UNIT: Bytes = Bytes::mib(2);

struct Bench {
    device: MockDevice,
    range: MockRange,
    memory: Vec<MockMemory>,
    stream: MockStream,
}

/// Four mapped units, behind a link that takes a millisecond for a unit out and two for one back.
fn bench() -> Bench {
    let rate = UNIT.value() * 1000;
    let link = Link::new(Bytes::new(rate), Bytes::new(rate / 2));
    let config = MockConfig::new(Bytes::mib(64)).host(Bytes::mib(8)).link(Some(link));
    let device = MockDevice::new(config).unwrap();
    let range = device.reserve(Bytes::mib(8), UNIT).unwrap();
    let memory: Vec<MockMemory> = (0..4).map(|_| device.create(UNIT).unwrap()).collect();
    device.map(&range, Bytes::ZERO, &memory.iter().collect::<Vec<_>>()).unwrap();
    let stream = device.add_stream();
    Bench { device, range, memory, stream }
}

impl Bench {
    fn at(&self, unit: u64) -> Access {
        let addr = self.device.base(&self.range).checked_add(Bytes::mib(2 * unit)).unwrap();
        Access { owner: 7, addr, len: UNIT }
    }
}

#[test]
fn each_direction_carries_one_copy_at_a_time() {
    let Bench { device, range, stream, .. } = &bench();
    let other = device.add_stream();
    let host: Vec<_> = (0..3).map(|_| device.allocate(UNIT).unwrap()).collect();
    let start = device.now();
    device.copy_out(*stream, range, Bytes::ZERO, &host[0]).unwrap();
    device.copy_out(other, range, Bytes::mib(2), &host[1]).unwrap();
    let events = [device.record(*stream).unwrap(), device.record(other).unwrap()];
    // The other direction has a link of its own, and launches do not need it.
    let third = device.add_stream();
    device.copy_in(third, range, Bytes::mib(4), &host[2]).unwrap();
    let fourth = device.add_stream();
    device.launch(fourth, Ticks::micros(500), Utilisation::FULL).unwrap();
    let passed = |at: Ticks| {
        device.advance_to(start.saturating_add(at));
        events.each_ref().map(|event| device.query(event).unwrap() == Passed::Yes)
    };
    assert_eq!(passed(Ticks::micros(999)), [false, false]);
    assert_eq!(device.completed(fourth), 1);
    assert_eq!(passed(Ticks::millis(1)), [true, false]);
    assert_eq!(passed(Ticks::micros(1999)), [true, false]);
    assert!(!device.idle());
    assert_eq!(passed(Ticks::millis(2)), [true, true]);
    assert!(device.idle(), "the copy back took as long by itself");
    assert_eq!(device.violations(), []);
}

#[test]
fn what_comes_back_elsewhere_or_not_at_all_is_seen() {
    let bench = bench();
    let Bench { device, range, stream, .. } = &bench;
    let (stream, host) = (*stream, device.allocate(UNIT).unwrap());
    let claim = |unit| device.own(stream, 7, bench.at(unit).addr, UNIT).unwrap();
    let one = claim(0);
    device.write(stream, bench.at(0), 1).unwrap();
    device.disown(stream, one).unwrap();
    device.copy_out(stream, range, Bytes::ZERO, &host).unwrap();
    device.copy_in(stream, range, Bytes::mib(2), &host).unwrap();
    let (one, two, three) = (claim(0), claim(1), claim(2));
    device.expect(stream, bench.at(1), 1).unwrap();
    device.run_until_idle();
    assert_eq!(device.violations(), [], "the same bytes, at another address");
    device.expect(stream, bench.at(1), 2).unwrap();
    device.expect(stream, bench.at(2), 1).unwrap();
    let Access { owner, addr, len } = bench.at(0);
    let shifted = Access { addr: addr.checked_add(Bytes::new(512)).unwrap(), owner, len: UNIT };
    device.expect(stream, Access { len: Bytes::mib(1), ..shifted }, 1).unwrap();
    let found: Vec<_> = device.violations().into_iter().map(|violation| violation.kind).collect();
    let changed = |access: Access, found| ViolationKind::Changed {
        owner,
        addr: access.addr,
        len: access.len,
        offset: Bytes::ZERO,
        found,
    };
    let shifted = Access { len: Bytes::mib(1), ..shifted };
    assert_eq!(
        found,
        [changed(bench.at(1), Some(1)), changed(bench.at(2), None), changed(shifted, Some(1)),]
    );
    assert_eq!(len, UNIT);
    for claim in [one, two, three] {
        device.disown(stream, claim).unwrap();
    }
}

#[test]
fn a_copy_owns_what_it_reads_until_it_is_done() {
    let bench = bench();
    let Bench { device, range, stream, .. } = &bench;
    let (other, host) = (device.add_stream(), device.allocate(UNIT).unwrap());
    device.copy_out(*stream, range, Bytes::ZERO, &host).unwrap();
    // Not ordered after the copy.
    let claim = device.own(other, 7, bench.at(0).addr, UNIT).unwrap();
    device.unmap(range, Bytes::ZERO, UNIT).unwrap();
    let refused = device.free(host).unwrap_err();
    assert_eq!(refused.error, MockError::HostMemoryInUse { copies: 1 });
    let kinds: Vec<_> = device.violations().into_iter().map(|violation| violation.kind).collect();
    assert!(
        matches!(
            kinds[..],
            [
                ViolationKind::Overlap { owner: 7, .. },
                ViolationKind::UnmapInUse { .. },
                ViolationKind::FreedInUse { copies: 1 },
            ]
        ),
        "{kinds:?}"
    );
    device.run_until_idle();
    device.free(refused.resource).unwrap();
    device.disown(other, claim).unwrap();
}

#[test]
fn host_memory_is_limited_and_counted() {
    let Bench { device, memory, .. } = &bench();
    assert_eq!(memory.len(), 4);
    let all = device.allocate(Bytes::mib(8)).unwrap();
    let error = device.allocate(UNIT).unwrap_err();
    assert_eq!(error, MockError::OutOfHostMemory { asked: UNIT, left: Bytes::ZERO });
    assert_eq!(error.class(), Class::OutOfMemory);
    device.free(all).unwrap();
    assert_eq!(device.host_usage(), (Bytes::ZERO, Bytes::mib(8)));
    assert_eq!(device.calls().of(Operation::Allocate), 2);
    assert_eq!(device.calls().of(Operation::Free), 1);
}
