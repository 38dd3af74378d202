//! The page that a client shares with the broker: the pulses of its jobs.
//!
//! The client makes it, a sealed file in memory, and sends a descriptor. What it writes there is
//! progress, a hint that decisions use; the broker writes how far each job may come before it is to
//! be told.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zico_core::broker::Pulse;

use crate::wire::Fault;

/// The length of the page, whatever the kernel's is.
pub(crate) const LEN: usize = 4096;
/// The jobs that have a place in it.
pub(crate) const SLOTS: usize = 64;

const _: () = assert!(SLOTS * size_of::<Pulse>() <= LEN && align_of::<Pulse>() <= 8);

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
const REFUSED: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// A mapping of the page.
#[derive(Debug)]
pub(crate) struct Page {
    base: NonNull<Pulse>,
}

// SAFETY: what is in the page is atomics, which threads may share.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A new one, and its descriptor.
    pub(crate) fn create() -> Result<(Self, OwnedFd), Errno> {
        let file = memfd_create("zico-pulse", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LEN as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let page = Self::map(file.as_fd())?;
        (0..SLOTS).filter_map(|slot| page.pulse(slot)).for_each(Pulse::reset);
        Ok((page, file))
    }

    /// One that a client has sent. No client can take it away again: its size is sealed.
    pub(crate) fn import(file: &OwnedFd) -> Result<Self, Fault> {
        let fault = Fault::Page { len: LEN };
        let seals = fcntl_get_seals(file).map_err(|_| fault)?;
        let stat = fstat(file).map_err(|_| fault)?;
        let fits = usize::try_from(stat.st_size) == Ok(LEN);
        if !fits || !seals.contains(SEALS) || seals.intersects(REFUSED) {
            return Err(fault);
        }
        Self::map(file.as_fd()).map_err(|_| fault)
    }

    fn map(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, of a file that is as long
        // and whose length is sealed.
        let base = unsafe { mmap(std::ptr::null_mut(), LEN, access, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base })
    }

    /// The pulse in a place.
    pub(crate) fn pulse(&self, slot: usize) -> Option<&Pulse> {
        if slot >= SLOTS {
            return None;
        }
        // SAFETY: the place lies within the mapping, which is aligned to a page and readable and
        // writable as long as `self` is there; all bytes are valid for atomics.
        Some(unsafe { self.base.add(slot).as_ref() })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing that was borrowed from it is there
        // any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), LEN) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::Progress;

    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (own, file) = Page::create().unwrap();
        let other = Page::import(&file).unwrap();
        other.pulse(SLOTS - 1).unwrap().watch(Progress::new(7));
        assert_eq!(own.pulse(SLOTS - 1).unwrap().watched(), Progress::new(7));
        assert_eq!(own.pulse(0).unwrap().watched(), Progress::MAX, "each has its own");
        assert!(own.pulse(SLOTS).is_none());
    }

    #[test]
    fn what_is_no_sealed_page_is_refused() {
        let fault = Fault::Page { len: LEN };
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(Page::import(&pipe).unwrap_err(), fault);
        let file = |len, seals| {
            let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, len).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            file
        };
        let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        assert_eq!(Page::import(&file(4096, SealFlags::SHRINK)).unwrap_err(), fault);
        assert_eq!(Page::import(&file(4095, all)).unwrap_err(), fault);
        assert_eq!(Page::import(&file(4096, all | SealFlags::WRITE)).unwrap_err(), fault);
        assert!(Page::import(&file(4096, all)).is_ok());
    }
}
