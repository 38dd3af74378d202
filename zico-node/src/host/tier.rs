//! The host tier: memory that the device's ranges do not reach, and copies to it and back.
//!
//! A piece of it is a file in memory that is mapped nowhere. The kernel copies from file to file:
//! no address is touched on the way. A copy has been made when its call returns, as any work of a
//! CPU, and an event behind it passes when the stream's launches have.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::copy_file_range;
use rustix::io::Errno;
use zico_core::{Bytes, HostMemory, HostTier, Link, Refused};

use super::device::{HostDevice, HostRange, HostStream};
use super::error::HostError;
use super::pieces;

/// The pieces that there are, by number.
#[derive(Debug)]
pub(super) struct Tier {
    capacity: Bytes,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    used: Bytes,
    pieces: BTreeMap<u64, (Arc<OwnedFd>, Bytes)>,
    last: u64,
}

impl Tier {
    pub(super) fn new(capacity: Bytes) -> Self {
        Self { capacity, books: Mutex::default() }
    }

    /// A poisoned lock is used: no panic can happen within an update.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes as used, if there are so many left.
    fn take(&self, asked: Bytes) -> Result<(), HostError> {
        let (mut books, capacity) = (self.books(), self.capacity);
        let used = books.used;
        match used.checked_add(asked) {
            Some(sum) if sum <= capacity => books.used = sum,
            _ => return Err(HostError::HostExceeded { asked, used, capacity }),
        }
        Ok(())
    }

    fn put_back(&self, bytes: Bytes) {
        let mut books = self.books();
        books.used = books.used.saturating_sub(bytes);
    }

    fn add(&self, file: OwnedFd, len: Bytes) -> HostMemory {
        let mut books = self.books();
        books.last += 1;
        let number = books.last;
        books.pieces.insert(number, (Arc::new(file), len));
        HostMemory::new(number, len)
    }

    fn find(&self, memory: &HostMemory) -> Result<Arc<OwnedFd>, HostError> {
        let books = self.books();
        let found = books.pieces.get(&memory.number()).filter(|(_, len)| *len == memory.len());
        found.map(|(file, _)| file.clone()).ok_or(HostError::Foreign { what: "host memory" })
    }
}

/// Copies `len` bytes from one file to another. A signal may cut that short.
fn copy((from, at): (&OwnedFd, u64), (to, there): (&OwnedFd, u64), len: u64) -> Result<(), Errno> {
    let (mut at, mut there, mut left) = (at, there, len);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        match copy_file_range(from.as_fd(), Some(&mut at), to.as_fd(), Some(&mut there), most) {
            // Both files are as long as they have to be.
            Ok(0) => return Err(Errno::IO),
            Ok(copied) => left = left.saturating_sub(copied as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Which way a copy goes.
#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

impl HostDevice {
    fn transfer(
        &self,
        way: Way,
        stream: HostStream,
        (range, at): (&HostRange, Bytes),
        memory: &HostMemory,
    ) -> Result<(), HostError> {
        self.check_stream(stream)?;
        let file = self.tier().find(memory)?;
        let pieces = self.files(range, at, memory.len())?;
        let mut done = 0;
        for (piece, offset, len) in pieces {
            let (here, there) = ((&*piece, offset), (&*file, done));
            let copied = match way {
                Way::Out => copy(here, there, len),
                Way::In => copy(there, here, len),
            };
            copied.map_err(|error| HostError::Kernel { call: "copy_file_range", error })?;
            done += len;
        }
        Ok(())
    }
}

impl HostTier<HostRange, HostStream, HostError> for HostDevice {
    /// Not known: as fast as the machine copies.
    fn link(&self) -> Option<Link> {
        None
    }

    fn allocate(&self, len: Bytes) -> Result<HostMemory, HostError> {
        self.registry().check_length(len)?;
        self.tier().take(len)?;
        match pieces::create(len) {
            Ok(file) => Ok(self.tier().add(file, len)),
            Err(error) => {
                self.tier().put_back(len);
                Err(error)
            }
        }
    }

    fn free(&self, memory: HostMemory) -> Result<(), Refused<HostMemory, HostError>> {
        if let Err(error) = self.tier().find(&memory) {
            return Err(Refused { resource: memory, error });
        }
        self.tier().books().pieces.remove(&memory.number());
        self.tier().put_back(memory.len());
        Ok(())
    }

    fn copy_out(
        &self,
        stream: HostStream,
        range: &HostRange,
        at: Bytes,
        to: &HostMemory,
    ) -> Result<(), HostError> {
        self.transfer(Way::Out, stream, (range, at), to)
    }

    fn copy_in(
        &self,
        stream: HostStream,
        range: &HostRange,
        at: Bytes,
        from: &HostMemory,
    ) -> Result<(), HostError> {
        self.transfer(Way::In, stream, (range, at), from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::{Class, DeviceError, Job, Lifetime, Pool, PoolConfig, Request, Resume};

    use super::*;
    use crate::host::HostConfig;

    const UNIT: Bytes = Bytes::kib(64);

    fn job(host: Bytes) -> (HostDevice, Pool<HostDevice>, Job<HostDevice>) {
        let device = HostDevice::new(HostConfig::new().capacity(Bytes::mib(4)).host(host)).unwrap();
        let config = PoolConfig::new(Bytes::mib(4)).region_size(UNIT);
        let pool = Pool::new(device.clone(), config).unwrap();
        let job = pool.join("job", device.add_stream()).unwrap();
        (device, pool, job)
    }

    #[test]
    fn a_job_goes_and_comes_back_as_it_was() {
        let (device, pool, job) = job(Bytes::MAX);
        let sizes = [Bytes::kib(8), Bytes::kib(700), Bytes::mib(2)];
        let blocks = sizes.map(|size| job.alloc(Request::new(size, Lifetime::Persistent)).unwrap());
        for (seed, block) in blocks.iter().enumerate() {
            device.fill(block.address(), block.bytes(), seed as u64).unwrap();
        }
        let gone = job.suspend().unwrap();
        pool.poll().unwrap();
        assert_eq!((pool.snapshot().free, job.held().total()), (gone, Bytes::ZERO));
        let other = pool.join("other", device.add_stream()).unwrap();
        let all = other.alloc(Request::new(gone, Lifetime::Iteration)).unwrap();
        device.fill(all.address(), all.bytes(), 9).unwrap();
        other.free(all).unwrap();
        drop(other);
        pool.poll().unwrap();
        assert_eq!(job.resume().unwrap(), Resume::Done);
        for (seed, block) in blocks.iter().enumerate() {
            assert!(device.verify(block.address(), block.bytes(), seed as u64).unwrap());
        }
        drop((job, pool));
        assert_eq!(device.tier().books().used, Bytes::ZERO);
    }

    #[test]
    fn a_tier_that_is_full_keeps_the_job_where_it_is() {
        let (device, _pool, job) = job(UNIT);
        let block = job.alloc(Request::new(Bytes::mib(1), Lifetime::Persistent)).unwrap();
        device.fill(block.address(), block.bytes(), 1).unwrap();
        let refused = job.suspend().unwrap_err();
        assert!(refused.to_string().contains("of host memory are more than is left"), "{refused}");
        assert!(device.verify(block.address(), block.bytes(), 1).unwrap());
        assert_eq!(device.tier().books().used, Bytes::ZERO);
        let error = HostError::HostExceeded { asked: UNIT, used: UNIT, capacity: UNIT };
        assert_eq!(error.class(), Class::OutOfMemory);
    }
}
