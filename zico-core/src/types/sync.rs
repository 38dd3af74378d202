//! The primitives that threads meet on, and the only place that knows about the model checker.
//!
//! Under `--cfg zico_loom` these are loom's, so that every interleaving can be explored; otherwise
//! a spin lock (no operating system is needed) and the core atomics. No lock is ever held across a
//! device call. Where there is an operating system, who waits for a lock lets other threads run:
//! the one that has it may have been interrupted, and need this very core.

#[cfg(zico_loom)]
extern crate std;

pub(crate) use alloc::sync::Arc;
#[cfg(not(zico_loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(zico_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

#[cfg(all(feature = "std", not(zico_loom)))]
type Relax = spin::Yield;
#[cfg(all(not(feature = "std"), not(zico_loom)))]
type Relax = spin::Spin;

/// A lock for short, device-free critical sections.
#[cfg(not(zico_loom))]
pub(crate) struct Mutex<T>(spin::mutex::SpinMutex<T, Relax>);

#[cfg(not(zico_loom))]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        loop {
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
            self.wait();
        }
    }

    /// Apart, so that it costs nothing where nobody has the lock.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        while self.0.is_locked() {
            <Relax as spin::RelaxStrategy>::relax();
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A lock whose interleavings the model checker explores.
#[cfg(zico_loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(zico_loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
