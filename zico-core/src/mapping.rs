//! The pool's device work: fences, physical memory, mappings.
//!
//! Everything here runs without the ledger's lock and reports each finished step to the ledger, so
//! that a call that fails leaves the books true to the device.

use alloc::vec::Vec;
use core::ops::{DerefMut, Range};

use crate::account::{Batch, Fence};
use crate::choose::{Backing, Grant};
use crate::device::{Device, Passed};
use crate::error::AllocError;
use crate::lease::{Denied, Want};
use crate::lifetime::Lifetime;
use crate::memory::Memory;
use crate::region::{JobKey, Place};
use crate::shared::Shared;
use crate::space::Space;
use crate::sync::Arc;
use crate::units::Bytes;

impl<D: Device> Shared<D> {
    /// Backs pages of an arena that has no room.
    ///
    /// If the regions cannot be had now, everything that has been given up is fenced, what the
    /// device has passed is freed, and they are asked for once more.
    pub(crate) fn lease(&self, job: JobKey, want: &Want) -> Result<(), AllocError<D::Error>> {
        self.reap(job).map_err(AllocError::Device)?;
        let mut last = false;
        let grant = loop {
            let now = self.device.now();
            let mut ledger = self.ledger.lock();
            match ledger.lease(job, want, last, now) {
                Ok(grant) => break grant,
                Err(Denied::Never(why)) => return Err(AllocError::OutOfMemory(why)),
                Err(Denied::BeyondCap(shortage, cap)) => {
                    return Err(AllocError::BeyondCap { cap, shortage });
                }
                Err(Denied::Busy(shortage)) if last => {
                    let stuck = ledger.is_news_that_stuck();
                    drop(ledger);
                    if stuck {
                        // One of those who wait is to be told that it is out of memory.
                        self.changed();
                    }
                    return Err(AllocError::Busy(shortage));
                }
                Err(Denied::Busy(_)) => last = true,
            }
            drop(ledger);
            // What the device refuses of others' business is theirs to hear of, or the next poll's.
            let _ = self.reclaim();
        };
        let done = self.furnish(job, want.lifetime, &grant);
        let now = self.device.now();
        let mut ledger = self.ledger.lock();
        if done.is_err() {
            ledger.revoke(job, want.lifetime, &grant.backings, now);
        }
        let refused = ledger.end_claims(&grant.claimed);
        drop(ledger);
        if refused || grant.relief || done.is_err() {
            self.changed();
        }
        done.map_err(AllocError::Device)
    }

    /// Sees to it that granted regions are mapped at their pages, and that the job's stream waits
    /// for what they were used for before.
    fn furnish(
        &self,
        job: JobKey,
        lifetime: Lifetime,
        grant: &Grant<D::Event>,
    ) -> Result<(), D::Error> {
        if !grant.after.is_empty() {
            let stream = self.ledger.lock().accounts.get(&job).map(|account| account.stream);
            let order = |event: &Arc<D::Event>| match stream {
                Some(stream) => self.device.order_after(stream, event),
                None => Ok(()),
            };
            grant.after.iter().try_for_each(order)?;
        }
        let mut unmapped = grant.backings.iter().filter(|backing| !backing.mapped);
        unmapped.try_for_each(|backing| self.back(job, lifetime, backing))
    }

    /// Maps a granted region at its page.
    fn back(&self, job: JobKey, lifetime: Lifetime, backing: &Backing) -> Result<(), D::Error> {
        let place = Place { job, lifetime, page: backing.page };
        let (memory, stale) = {
            let ledger = self.ledger.lock();
            let region = &ledger.regions[backing.region];
            (region.memory.clone(), ledger.stale(place, backing.region))
        };
        for (place, region) in stale {
            self.unmap(place, region)?;
        }
        let memory = match memory {
            Some(memory) => memory,
            None => self.create(backing.region)?,
        };
        let Some(range) = self.range(place) else { return Ok(()) };
        self.device.map(&range, self.offset(place.page), &memory)?;
        self.ledger.lock().mapped(place, backing.region);
        Ok(())
    }

    fn create(&self, region: usize) -> Result<Arc<D::Memory>, D::Error> {
        let memory = Arc::new(self.device.create(self.region)?);
        self.ledger.lock().create(region, memory.clone());
        Ok(memory)
    }

    /// Takes away the mapping at a page that no work uses.
    pub(crate) fn unmap(&self, place: Place, region: usize) -> Result<(), D::Error> {
        if let Some(range) = self.range(place) {
            self.device.unmap(&range, self.offset(place.page), self.region)?;
            self.ledger.lock().unmapped(place, region);
        }
        Ok(())
    }

    fn range(&self, place: Place) -> Option<Arc<D::Range>> {
        self.ledger.lock().space(place).map(|space| space.range.clone())
    }

    fn offset(&self, page: u64) -> Bytes {
        Bytes::new(page.saturating_mul(self.region.value()))
    }

    /// Gives back pages that an arena has emptied: in the books before the arena's lock is let go, so
    /// that no other thread of the job can ask for these very pages before they are.
    #[inline]
    pub(crate) fn give_back(
        &self,
        job: JobKey,
        memory: impl DerefMut<Target = Memory<D>>,
        lifetime: Lifetime,
        pages: Range<u64>,
    ) {
        if !pages.is_empty() {
            self.ledger.lock().give_back(job, lifetime, pages);
            drop(memory);
            self.given_back(job, lifetime);
        }
    }

    /// A job has given back pages of an arena: fences them if they are many, and looks at the jobs that
    /// wait if they have more room.
    fn given_back(&self, job: JobKey, lifetime: Lifetime) {
        let now = self.device.now();
        let (full, more_room) = self.ledger.lock().note_given(job, lifetime, now);
        if more_room {
            self.admit();
        }
        if full {
            // A failure leaves them in the open batch, which the next poll fences.
            let _ = self.fence(job);
        }
    }

    /// Fences a job's open batch.
    pub(crate) fn fence(&self, job: JobKey) -> Result<(), D::Error> {
        let closed = self.ledger.lock().close_batch(job);
        let Some(batch) = closed else { return Ok(()) };
        match self.record(&batch) {
            Ok(event) => {
                let Batch { number: batch, regions, .. } = batch;
                let event = Arc::new(event);
                let relief = self.ledger.lock().fenced(job, Fence { batch, regions, event });
                if relief {
                    self.changed();
                }
                Ok(())
            }
            Err(error) => {
                self.ledger.lock().reopen(job, batch);
                Err(error)
            }
        }
    }

    /// An event after all work that uses the regions of a batch.
    fn record(&self, batch: &Batch<D::Stream>) -> Result<D::Event, D::Error> {
        for &other in &batch.joins {
            let event = self.device.record(other)?;
            self.device.order_after(batch.stream, &event)?;
        }
        self.device.record(batch.stream)
    }

    /// Fences the open batches that are due, frees all that the device has passed, and clears up
    /// after the jobs that have left. What the device refuses of one job is no matter of the others:
    /// all is tried, and the first error returned.
    pub(crate) fn reclaim(&self) -> Result<(), D::Error> {
        let mut result = Ok(());
        let mut first = |done: Result<(), D::Error>| {
            if result.is_ok() {
                result = done;
            }
        };
        self.unpark_idle();
        let due = self.ledger.lock().due();
        due.into_iter().for_each(|job| first(self.fence(job)));
        let jobs: Vec<JobKey> = self.ledger.lock().accounts.keys().copied().collect();
        jobs.into_iter().for_each(|job| first(self.reap(job)));
        first(self.clear_up());
        let shrinking = self.ledger.lock().is_shrinking();
        if shrinking {
            first(self.shrink());
        }
        result
    }

    /// Frees what a job has given up and the device has passed.
    fn reap(&self, job: JobKey) -> Result<(), D::Error> {
        loop {
            let oldest = self.ledger.lock().oldest_fence(job);
            let Some(fence) = oldest else { return Ok(()) };
            match self.device.query(&fence.event) {
                Ok(Passed::Yes) => {
                    let now = self.device.now();
                    self.ledger.lock().passed(job, &fence, now);
                    self.changed();
                }
                result => {
                    self.ledger.lock().not_passed(job, fence);
                    return result.map(|_| ());
                }
            }
        }
    }

    /// Takes away the mappings and ranges of jobs that have left. What the device refuses stays for
    /// the next time.
    pub(crate) fn clear_up(&self) -> Result<(), D::Error> {
        let departed = self.ledger.lock().take_departed();
        let count = departed.len();
        let mut result = Ok(());
        for (job, lifetime, mut space) in departed {
            let emptied = self.empty(job, lifetime, &mut space);
            let range = match (&emptied, Arc::try_unwrap(space.range)) {
                (Ok(()), Ok(range)) => match self.device.release(range) {
                    Ok(()) => continue,
                    Err(refused) => {
                        result = Err(refused.error);
                        Arc::new(refused.resource)
                    }
                },
                // Something is still mapped, or another thread is about to use the range.
                (_, range) => {
                    result = emptied.and(result);
                    range.map_or_else(|shared| shared, Arc::new)
                }
            };
            space.range = range;
            self.ledger.lock().departed.push((job, lifetime, space));
        }
        if count > 0 {
            self.ledger.lock().cleared(count);
            self.changed();
        }
        result
    }

    fn empty(
        &self,
        job: JobKey,
        lifetime: Lifetime,
        space: &mut Space<D::Range>,
    ) -> Result<(), D::Error> {
        let pages: Vec<(u64, usize)> = space.mapped().collect();
        pages.into_iter().try_for_each(|(page, region)| {
            self.device.unmap(&space.range, self.offset(page), self.region)?;
            space.set(page, |page| page.region = None);
            self.ledger.lock().unmapped(Place { job, lifetime, page }, region);
            Ok(())
        })
    }
}
