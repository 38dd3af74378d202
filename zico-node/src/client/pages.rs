//! Pages for pulses. A pool's jobs point into its page for as long as they are there, so a page is
//! never unmapped; the next pool of the process gets it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use zico_core::broker::Pulse;

use crate::page::Page;

/// Those that no pool has.
static FREE: Mutex<Vec<&'static Shared>> = Mutex::new(Vec::new());

struct Shared {
    page: Page,
    descriptor: OwnedFd,
}

/// A page that is one pool's, until this is dropped.
pub(super) struct OwnPage(&'static Shared);

/// A page that no pool has.
pub(super) fn take() -> Result<OwnPage, Errno> {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if let Some(shared) = free {
        return Ok(OwnPage(shared));
    }
    let (page, descriptor) = Page::create()?;
    Ok(OwnPage(Box::leak(Box::new(Shared { page, descriptor }))))
}

impl OwnPage {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }

    /// The pulse in a place, as new.
    pub(super) fn pulse(&self, slot: usize) -> Option<&'static Pulse> {
        let pulse = self.0.page.pulse(slot)?;
        pulse.reset();
        Some(pulse)
    }
}

impl Drop for OwnPage {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}
