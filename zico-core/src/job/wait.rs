//! Waiting, as thin views of the calls that answer at once.
//!
//! [`Job::begin`] and [`Job::alloc`] never wait: they say so, and the pool's generation changes
//! when asking again may help. Whoever would rather sleep awaits that change. No executor is
//! assumed, and no clock: the device passes fences without telling anybody, so somebody has to
//! look, by [`Pool::poll`](crate::Pool::poll). The blocking forms (feature `std`) do so themselves.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Job;
use crate::executor::Shared;
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::{AllocError, BeginError};
use crate::types::report::Begin;
use crate::types::sync::Ordering;

/// Resolves when something has happened in a pool that a waiting job may have waited for:
/// [`Pool::changed`](crate::Pool::changed).
#[must_use = "a future does nothing unless it is awaited"]
pub struct Changed<'a, D: Device> {
    shared: &'a Shared<D>,
    seen: u32,
    /// Under which it is to be woken, once it has been polled.
    ticket: Option<u64>,
}

impl<'a, D: Device> Changed<'a, D> {
    pub(crate) fn new(shared: &'a Shared<D>, seen: u32) -> Self {
        Self { shared, seen, ticket: None }
    }

    fn has_come(&self) -> bool {
        self.shared.generation.load(Ordering::Acquire) != self.seen
    }
}

impl<D: Device> Future for Changed<'_, D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_come() {
            return Poll::Ready(());
        }
        self.ticket = Some(self.shared.register(context.waker(), self.ticket));
        // A change before the waker was there has woken nobody; one after it will.
        if self.has_come() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<D: Device> Drop for Changed<'_, D> {
    /// Nobody is woken who no longer waits, and nothing of it is kept.
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.unregister(ticket);
        }
    }
}

impl<D: Device> fmt::Debug for Changed<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changed").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Gives up a job's place in the queue when it is dropped, if the job still waits.
pub(super) struct Place<'a, D: Device>(pub(super) &'a Job<D>);

impl<D: Device> Drop for Place<'_, D> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

impl<D: Device> Job<D> {
    /// Starts an iteration as soon as it may. Dropping the future while it waits gives up the place
    /// in the queue.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_async(&self, shape: impl Into<Option<u64>>) -> Result<(), BeginError> {
        let (_place, shape) = (Place(self), shape.into());
        loop {
            let seen = self.shared.generation.load(Ordering::Acquire);
            if self.ask(shape)? == Begin::Started {
                return Ok(());
            }
            Changed::new(&self.shared, seen).await;
        }
    }

    /// Allocates as soon as the memory can be had.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc), but never [`Busy`](AllocError::Busy).
    pub async fn alloc_async(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        loop {
            let seen = self.shared.generation.load(Ordering::Acquire);
            match self.alloc(request) {
                Err(AllocError::Busy(_)) => Changed::new(&self.shared, seen).await,
                done => return done,
            }
        }
    }
}

#[cfg(feature = "std")]
mod blocking {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;

    use alloc::sync::Arc;
    use alloc::task::Wake;
    use std::thread::{self, Thread};

    use super::{AllocError, BeginError, Block, Device, Job, Request};
    use crate::types::error::ResumeError;

    /// Wakes the thread that waits.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    impl<D: Device> Job<D> {
        /// Starts an iteration as soon as it may, and blocks the thread until then. While it waits
        /// it looks at the fences every `look` (a millisecond is a good choice). The device has to
        /// run by itself: under a simulated one somebody else lets its time pass.
        ///
        /// # Errors
        /// As [`begin`](Self::begin).
        pub fn begin_blocking(
            &self,
            shape: impl Into<Option<u64>>,
            look: Duration,
        ) -> Result<(), BeginError> {
            // Fences that cannot be looked at now hold up memory, not the end of iterations.
            self.block_on(self.begin_async(shape), look, |_| None)
        }

        /// Brings a suspended job back as soon as there is room for it, and blocks the thread until
        /// then, as [`begin_blocking`](Self::begin_blocking).
        ///
        /// # Errors
        /// As [`resume`](Self::resume).
        pub fn resume_blocking(&self, look: Duration) -> Result<(), ResumeError<D::Error>> {
            self.block_on(self.resume_async(), look, |error| Some(Err(ResumeError::Device(error))))
        }

        /// Allocates as soon as the memory can be had, and blocks the thread until then, as
        /// [`begin_blocking`](Self::begin_blocking).
        ///
        /// # Errors
        /// As [`alloc`](Self::alloc), but never [`Busy`](AllocError::Busy). What the device refuses
        /// while this waits ends the wait only if it is of this job's own stream, or if the device
        /// is [lost](crate::Class::Lost): another job's trouble is waited out.
        pub fn alloc_blocking(
            &self,
            request: Request,
            look: Duration,
        ) -> Result<Block, AllocError<D::Error>> {
            self.block_on(self.alloc_async(request), look, |error| {
                Some(Err(AllocError::Device(error)))
            })
        }

        /// Runs a future on this thread and looks at the fences while it waits. If the device
        /// refuses that, `failed` says what comes of it, if the wait is to end.
        pub(crate) fn block_on<F: Future>(
            &self,
            future: F,
            look: Duration,
            failed: impl Fn(D::Error) -> Option<F::Output>,
        ) -> F::Output {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let mut context = Context::from_waker(&waker);
            let mut future = pin!(future);
            loop {
                if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                    return done;
                }
                thread::park_timeout(look);
                if let Some(done) = self.shared.reclaim(Some(self.key)).err().and_then(&failed) {
                    return done;
                }
            }
        }
    }
}
