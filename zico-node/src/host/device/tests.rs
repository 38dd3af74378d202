//! What the conformance suite, which knows no device's contents, cannot see; and what is refused.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::mm::{MsyncFlags, msync};
use zico_core::{Class, DeviceError, Pool, PoolConfig, Request};

use super::*;
use rustix::io::Errno;

const UNIT: Bytes = Bytes::kib(64);

fn device() -> HostDevice {
    HostDevice::new(HostConfig::new().capacity(Bytes::mib(64))).unwrap()
}

/// A byte at an address that this process may write.
fn byte(at: Addr, offset: u64) -> &'static std::sync::atomic::AtomicU8 {
    let address = usize::try_from(at.value() + offset).unwrap();
    // SAFETY: the tests look only where something is mapped, and at no address of Rust's.
    unsafe { std::sync::atomic::AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// A range with a piece of memory of one unit mapped at each of some units.
fn mapped(device: &HostDevice, at: &[u64]) -> (HostRange, HostMemory, Addr) {
    let range = device.reserve(Bytes::mib(1), UNIT).unwrap();
    let memory = device.create(UNIT).unwrap();
    for &at in at {
        device.map(&range, Bytes::new(at * UNIT.value()), &[&memory]).unwrap();
    }
    let base = device.base(&range);
    (range, memory, base)
}

#[test]
fn memory_is_the_same_at_both_of_its_addresses_and_zero_at_first() {
    let device = device();
    let (_range, _memory, base) = mapped(&device, &[0, 3]);
    let far = 3 * UNIT.value();
    assert_eq!(byte(base, far + 5).load(Ordering::Relaxed), 0);
    byte(base, 5).store(7, Ordering::Relaxed);
    assert_eq!(byte(base, far + 5).load(Ordering::Relaxed), 7);
    byte(base, far + UNIT.value() - 1).store(8, Ordering::Relaxed);
    assert_eq!(byte(base, UNIT.value() - 1).load(Ordering::Relaxed), 8);
}

#[test]
fn memory_keeps_its_contents_while_it_is_mapped_nowhere() {
    let device = device();
    let (range, memory, base) = mapped(&device, &[0]);
    byte(base, 9).store(5, Ordering::Relaxed);
    device.unmap(&range, Bytes::ZERO, UNIT).unwrap();
    assert!(!is_there(base), "nothing is mapped there");
    device.map(&range, UNIT, &[&memory]).unwrap();
    assert_eq!(byte(base, UNIT.value() + 9).load(Ordering::Relaxed), 5);
}

#[test]
fn memory_is_the_same_in_two_devices_where_one_exports_and_the_other_imports() {
    let (one, other) = (device(), device());
    let (_range, memory, base) = mapped(&one, &[0]);
    let sent = one.export(&memory).unwrap();
    let imported = other.import(sent.as_fd(), UNIT).unwrap();
    drop(sent);
    let range = other.reserve(UNIT, UNIT).unwrap();
    other.map(&range, Bytes::ZERO, &[&imported]).unwrap();
    byte(other.base(&range), 3).store(4, Ordering::Relaxed);
    assert_eq!(byte(base, 3).load(Ordering::Relaxed), 4);
    // Handles of one are none of the other's.
    let error = other.export(&memory).unwrap_err();
    assert_eq!(error, HostError::Foreign { what: "memory" });
    assert_eq!(error.class(), Class::Misuse);
    assert!(one.map(&range, Bytes::ZERO, &[&memory]).is_err());
}

/// Whether anything is mapped at an address, access or not apart: a reservation has no pages to
/// write back, so that only what was mapped for a child to see counts.
fn is_there(at: Addr) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (span, rest) = line.split_once(' ').unwrap();
        let (start, end) = span.split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        (hex(start)..hex(end)).contains(&at.value()) && rest.starts_with("rw")
    })
}

#[test]
fn a_forked_child_has_none_of_it() {
    let device = device();
    let (_range, _memory, base) = mapped(&device, &[1]);
    let at = usize::try_from(base.value() + UNIT.value()).unwrap();
    let at = std::ptr::with_exposed_provenance_mut(at);
    // SAFETY: nothing is changed there.
    let is_mapped = || unsafe { msync(at, 4096, MsyncFlags::ASYNC) };
    assert_eq!(is_mapped(), Ok(()));
    assert!(is_there(Addr::new(base.value() + UNIT.value())));
    // SAFETY: the child makes two calls of the kernel and nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(is_mapped() != Err(Errno::NOMEM));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a number; the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child can reach what its parent has mapped");
}

#[test]
fn only_sealed_memory_of_the_right_length_is_imported() {
    let device = device();
    let refused = |file: BorrowedFd<'_>| {
        let error = device.import(file, UNIT).unwrap_err();
        assert_eq!(error.class(), Class::Unsupported, "{error}");
        error
    };
    let memfd = |len: u64, seals: SealFlags| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, len).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    // What would do.
    device.import(memfd(UNIT.value(), all).as_fd(), UNIT).unwrap();
    // Any of the seals missing: somebody could shrink it, and touching it would kill this process.
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let found = all.difference(missing);
        let error = refused(memfd(UNIT.value(), found).as_fd());
        let (needed, refused) = (all.bits(), (SealFlags::WRITE | SealFlags::FUTURE_WRITE).bits());
        assert_eq!(error, HostError::WrongSeals { found: found.bits(), needed, refused });
    }
    let read_only = all | SealFlags::FUTURE_WRITE;
    assert!(matches!(
        refused(memfd(UNIT.value(), read_only).as_fd()),
        HostError::WrongSeals { .. }
    ));
    for (found, expected) in [(UNIT.value() - 1, UNIT.value()), (2 * UNIT.value(), UNIT.value())] {
        let error = refused(memfd(found, all).as_fd());
        assert_eq!(error, HostError::WrongLength { expected, found });
    }
    // No memory at all: a pipe, a device, a file on a disk.
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    assert!(
        matches!(refused(pipe.as_fd()), HostError::NotMemory { mode } if mode & 0o170_000 == 0o10_000)
    );
    let zero = File::open("/dev/zero").unwrap();
    assert!(
        matches!(refused(zero.as_fd()), HostError::NotMemory { mode } if mode & 0o170_000 == 0o20_000)
    );
    let program = File::open(std::env::current_exe().unwrap()).unwrap();
    let error = refused(program.as_fd());
    assert!(matches!(error, HostError::NotMemory { .. } | HostError::WrongSeals { .. }), "{error}");
    assert_eq!(device.import(pipe.as_fd(), Bytes::ZERO).unwrap_err().class(), Class::Misuse);
}

#[test]
fn what_is_exported_cannot_change_its_size() {
    let device = device();
    let memory = device.create(UNIT).unwrap();
    let sent = device.export(&memory).unwrap();
    assert_eq!(ftruncate(&sent, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&sent, 2 * UNIT.value()), Err(Errno::PERM));
    let seals = fcntl_get_seals(&sent).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    // All of it is allocated: no touch of it can fail.
    let blocks = rustix::fs::fstat(&sent).unwrap().st_blocks;
    assert_eq!(blocks * 512, i64::try_from(UNIT.value()).unwrap());
}

#[test]
fn the_capacity_is_a_limit_and_what_is_destroyed_can_be_had_again() {
    let device = device();
    let half = device.create(Bytes::mib(32)).unwrap();
    let error = device.create(Bytes::mib(33)).unwrap_err();
    let (used, capacity) = (Bytes::mib(32), Bytes::mib(64));
    assert_eq!(error, HostError::CapacityExceeded { asked: Bytes::mib(33), used, capacity });
    assert_eq!(error.class(), Class::OutOfMemory);
    device.destroy(half).unwrap();
    assert!(device.create(Bytes::mib(64)).is_ok());
}

#[test]
fn a_configuration_that_cannot_be_is_refused() {
    for granularity in [0, 1, 2048, 4096 + 1, 3 << 16] {
        let config = HostConfig::new().granularity(Bytes::new(granularity));
        let error = HostDevice::new(config).unwrap_err();
        assert!(matches!(error, HostError::BadGranularity { .. }), "{granularity}: {error}");
    }
    let config = HostConfig::new().capacity(Bytes::kib(63));
    assert!(matches!(HostDevice::new(config), Err(HostError::BadCapacity { .. })));
    let caps = HostDevice::new(HostConfig::new()).unwrap().caps();
    assert_eq!(caps.granularity, UNIT);
    assert!(caps.capacity >= Bytes::mib(64), "the machine's memory: {}", caps.capacity);
}

#[test]
fn all_addresses_are_given_back_with_the_device() {
    let device = device();
    let (_range, _memory, base) = mapped(&device, &[0, 2]);
    assert!(is_there(base));
    drop(device);
    assert!(!is_there(base));
}

/// Two jobs in turn, whose blocks are written and read by the CPU.
#[test]
fn a_pool_hands_host_memory_over() {
    let device = device();
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(4))).unwrap();
    let jobs = ["a", "b"].map(|name| pool.join(name, device.add_stream()).unwrap());
    for turn in 0..8 {
        let job = &jobs[turn % 2];
        assert_eq!(job.begin(None).unwrap(), zico_core::Begin::Started);
        let blocks: Vec<_> =
            (0..6).map(|_| job.alloc(Request::learned(Bytes::kib(512))).unwrap()).collect();
        for (i, block) in (0..).zip(&blocks) {
            byte(block.address(), 0).store(i, Ordering::Relaxed);
            byte(block.address(), Bytes::kib(512).value() - 1).store(i, Ordering::Relaxed);
        }
        for (i, block) in (0..).zip(blocks) {
            assert_eq!(byte(block.address(), 0).load(Ordering::Relaxed), i);
            let last = byte(block.address(), Bytes::kib(512).value() - 1);
            assert_eq!(last.load(Ordering::Relaxed), i);
            job.free(block).unwrap();
        }
        job.end().unwrap();
        pool.poll().unwrap();
    }
    assert!(pool.snapshot().held <= Bytes::mib(4));
}
