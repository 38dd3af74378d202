//! A job's way to the host and back.

use super::wait::Place;
use super::{Changed, Job};
use crate::executor::Iteration;
use crate::heap::away::Choices;
use crate::types::device::Device;
use crate::types::error::{ResumeError, SuspendError};
use crate::types::report::{OnSuspend, Resume};
use crate::types::stats::LiveBlock;
use crate::types::sync::Ordering;
use crate::types::units::Bytes;

impl<D: Device> Job<D> {
    /// Takes all memory of the job, which is between iterations, to the host: others may use its
    /// room meanwhile. How much that is.
    ///
    /// Copies are enqueued on the job's stream, after all work that uses its blocks so far; others
    /// get the memory when the device has passed them. The addresses stay the job's. With it comes
    /// a *return ticket*: what the others keep between their iterations, what persists and what is
    /// reserved never comes to so much that the job could not [come back](Self::resume).
    ///
    /// Until it is back nothing can be allocated and no iteration begun; blocks can be freed. A job
    /// that holds nothing has nothing to take anywhere, and is not suspended.
    ///
    /// After "sleep" of serving engines and `torch_memory_saver`, and suspend-resume of Gandiva
    /// (Xiao et al., OSDI 2018). O(pages): the pool's lock for at most 1024 of them at a time, and
    /// copies of up to 16 MiB.
    ///
    /// # Errors
    /// If an iteration runs or has been asked for, a ticket cannot be had, the device has no
    /// [host tier](crate::HostTier) or refuses, or the pool's broker cannot be asked. Nothing has
    /// changed then.
    ///
    /// ```
    /// use zico_core::{Bytes, Lifetime, Pool, PoolConfig, Request, Resume};
    /// use zico_mock::{MockConfig, MockDevice};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
    /// let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(64)))?;
    /// let job = pool.join("serving", device.add_stream())?;
    /// let weights = job.alloc(Request::new(Bytes::mib(40), Lifetime::Persistent))?;
    ///
    /// assert_eq!(job.suspend()?, Bytes::mib(40));
    /// device.run_until_idle();
    /// pool.poll()?;
    /// assert_eq!(job.held().total(), Bytes::ZERO);
    ///
    /// assert_eq!(job.resume()?, Resume::Done);
    /// job.free(weights)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn suspend(&self) -> Result<Bytes, SuspendError<D::Error>> {
        self.suspend_chosen(&Choices::default())
    }

    /// The same, where `choose` says of each live block what becomes of it: some may stay, and be
    /// used meanwhile, and of some nothing is needed any more. How much goes.
    ///
    /// Memory goes by pages of the size of a region. A page stays if anything in it is to stay, and
    /// is copied if anything in it is to be copied. Blocks are told apart by what they have been
    /// [named](crate::Request::named), by lifetime, or by address; one that is made while `choose`
    /// is asked is copied. If all stays the job is not suspended.
    ///
    /// After the levels of sleep of vLLM, and the tags of `torch_memory_saver`. As
    /// [`suspend`](Self::suspend) otherwise, and O(blocks log blocks).
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend), and if a block is to stay and the job
    /// [takes turns](crate::JobConfig::preemptible) with others.
    ///
    /// ```
    /// use zico_core::{Bytes, Lifetime, OnSuspend, Pool, PoolConfig, Request, Resume};
    /// use zico_mock::{MockConfig, MockDevice};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
    /// let config = PoolConfig::new(Bytes::mib(64)).region_size(Bytes::mib(2));
    /// let pool = Pool::new(device.clone(), config)?;
    /// let job = pool.join("rollout", device.add_stream())?;
    /// for (name, mib) in [("weights", 20), ("optimizer", 30), ("cache", 10)] {
    ///     job.alloc(Request::new(Bytes::mib(mib), Lifetime::Persistent).named(name))?;
    /// }
    ///
    /// let gone = job.suspend_with(|block| match block.name {
    ///     Some("weights") => OnSuspend::Keep,
    ///     Some("cache") => OnSuspend::Discard,
    ///     _ => OnSuspend::Copy,
    /// })?;
    /// assert_eq!(gone, Bytes::mib(40));
    /// assert_eq!(device.host_usage().0, Bytes::mib(30));
    /// device.run_until_idle();
    /// pool.poll()?;
    /// assert_eq!(job.held().total(), Bytes::mib(20));
    ///
    /// assert_eq!(job.resume()?, Resume::Done);
    /// # Ok(())
    /// # }
    /// ```
    pub fn suspend_with(
        &self,
        mut choose: impl FnMut(&LiveBlock) -> OnSuspend,
    ) -> Result<Bytes, SuspendError<D::Error>> {
        // What it asks of the job it may: no lock is held.
        let blocks = self.heap.lock().numbered_blocks();
        let chosen = blocks.into_iter().map(|(serial, block)| (serial, choose(&block)));
        let choices = Choices::of(chosen);
        if self.preemptible && choices.keeps_any() {
            return Err(SuspendError::TakesTurns);
        }
        self.suspend_chosen(&choices)
    }

    /// Whether it comes back from the host by itself.
    pub(super) const fn comes_back(&self) -> bool {
        self.preemptible || self.interruptible
    }

    fn suspend_chosen(&self, choices: &Choices) -> Result<Bytes, SuspendError<D::Error>> {
        if !self.shared.end_if_over(self.key, self.stream, &self.heap, false) {
            return Err(SuspendError::Busy);
        }
        // What other streams have passed is not taken anywhere.
        self.unpark(true);
        self.shared.suspend(self.key, self.stream, &self.heap, choices, Iteration::GoesOn)
    }

    /// Brings a suspended job back: all its memory, at its addresses, as it was. If the answer is
    /// to wait, ask again whenever [`Pool::generation`](crate::Pool::generation) has changed; the
    /// place in the queue is kept. [`withdraw`](Self::withdraw) gives it up.
    ///
    /// It waits as an iteration does that needs so much: for iterations that run to end, and for
    /// jobs between iterations to free what they do not keep. [`Pool::waits`](crate::Pool::waits)
    /// says which. Then it has its room before all others, and waits only for the device to pass
    /// what they have given up.
    ///
    /// Work on the job's stream finds the contents. Other streams have to be ordered after it, as
    /// after any work that they depend on. A job that is not suspended is back already.
    ///
    /// # Errors
    /// If the job has left, or the device refuses: nothing is lost, and the call can be repeated.
    pub fn resume(&self) -> Result<Resume, ResumeError<D::Error>> {
        self.shared.resume(self.key, self.stream, &self.heap)
    }

    /// Brings a suspended job back as soon as there is room for it. Dropping the future while it
    /// waits gives up the place in the queue.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub async fn resume_async(&self) -> Result<(), ResumeError<D::Error>> {
        let _place = Place(self);
        loop {
            let seen = self.shared.generation.load(Ordering::Acquire);
            if self.resume()? == Resume::Done {
                return Ok(());
            }
            Changed::new(&self.shared, seen).await;
        }
    }
}
