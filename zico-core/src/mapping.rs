//! The pool's device work: fences, physical memory, mappings.
//!
//! Everything here runs without the ledger's lock and reports each finished step to the ledger, so
//! that a call that fails leaves the books true to the device.

use alloc::vec::Vec;
use core::ops::DerefMut;

use crate::account::{Batch, Fence};
use crate::choose::{Backing, Grant};
use crate::device::{Class, Device, DeviceError, Passed};
use crate::error::AllocError;
use crate::lease::Denied;
use crate::ledger::AT_A_TIME;
use crate::memory::Memory;
use crate::region::{JobKey, Place};
use crate::shared::Shared;
use crate::space::Space;
use crate::sync::Arc;
use crate::units::Bytes;
use crate::want::Want;
use crate::zone::Zone;

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
            let _ = self.reclaim(Some(job));
        };
        let done = self.furnish(job, want.zone, &grant);
        let refused = if done.is_err() || !grant.claimed.is_empty() {
            let now = self.device.now();
            let mut ledger = self.ledger.lock();
            if done.is_err() {
                ledger.revoke(job, want.zone, &grant.backings, now);
            }
            ledger.end_claims(&grant.claimed)
        } else {
            false
        };
        if refused || grant.relief || done.is_err() {
            self.changed();
        }
        done.map_err(AllocError::Device)
    }

    /// Sees to it that granted regions are mapped at their pages.
    fn furnish(&self, job: JobKey, zone: Zone, grant: &Grant) -> Result<(), D::Error> {
        let unmapped = grant.backings.iter().filter(|backing| !backing.mapped);
        let mut unmapped: Vec<Backing> = unmapped.copied().collect();
        unmapped.sort_unstable_by_key(|backing| backing.page);
        let mut runs = unmapped.chunk_by(|one, next| one.page + 1 == next.page);
        runs.try_for_each(|run| self.back(job, zone, run))
    }

    /// Maps granted regions at their pages, which lie side by side.
    fn back(&self, job: JobKey, zone: Zone, run: &[Backing]) -> Result<(), D::Error> {
        let place = |backing: &Backing| Place { job, zone, page: backing.page };
        let stale = {
            let ledger = self.ledger.lock();
            run.iter().flat_map(|backing| ledger.stale(place(backing), backing.region)).collect()
        };
        self.unmap(stale)?;
        let memory = run.iter().map(|backing| self.memory_of(backing.region));
        let memory: Vec<Arc<D::Memory>> = memory.collect::<Result<_, _>>()?;
        let pieces: Vec<&D::Memory> = memory.iter().map(|memory| &**memory).collect();
        let Some(first) = run.first().map(place) else { return Ok(()) };
        let Some(range) = self.range(first) else { return Ok(()) };
        self.device.map(&range, self.offset(first.page), &pieces)?;
        let mut ledger = self.ledger.lock();
        run.iter().for_each(|backing| ledger.mapped(place(backing), backing.region));
        Ok(())
    }

    /// The memory of a granted region, which is created when it is first needed.
    fn memory_of(&self, region: usize) -> Result<Arc<D::Memory>, D::Error> {
        let known = self.ledger.lock().regions[region].memory.clone();
        if let Some(memory) = known {
            return Ok(memory);
        }
        let memory = Arc::new(self.device.create(self.region)?);
        self.ledger.lock().create(region, memory.clone());
        Ok(memory)
    }

    /// Takes away the mappings at pages that no work uses, those side by side in one call.
    pub(crate) fn unmap(&self, mut mapped: Vec<(Place, usize)>) -> Result<(), D::Error> {
        mapped.sort_unstable_by_key(|&(place, _)| (place.job, place.zone.index(), place.page));
        for run in mapped.chunk_by(|(one, _), (next, _)| one.is_beside(*next)) {
            let Some(range) = self.range(run[0].0) else { continue };
            self.device.unmap(&range, self.offset(run[0].0.page), self.length(run.len()))?;
            let mut ledger = self.ledger.lock();
            run.iter().for_each(|&(place, region)| ledger.unmapped(place, region));
        }
        Ok(())
    }

    fn range(&self, place: Place) -> Option<Arc<D::Range>> {
        self.ledger.lock().space(place).map(|space| space.range.clone())
    }

    fn offset(&self, page: u64) -> Bytes {
        Bytes::new(page.saturating_mul(self.region.value()))
    }

    fn length(&self, pages: usize) -> Bytes {
        self.offset(u64::try_from(pages).unwrap_or(u64::MAX))
    }

    /// Gives back pages that an arena has emptied: in the books before the arena's lock is let go, so
    /// that no other thread of the job can ask for these very pages before they are. Of very many some at
    /// a time, so that other jobs do not wait for all of them.
    #[inline]
    pub(crate) fn give_back(
        &self,
        job: JobKey,
        memory: impl DerefMut<Target = Memory<D>>,
        zone: Zone,
        pages: impl IntoIterator<Item = u64>,
    ) {
        let mut pages = pages.into_iter().peekable();
        if pages.peek().is_some() {
            while pages.peek().is_some() {
                self.ledger.lock().give_back(job, zone, pages.by_ref().take(AT_A_TIME));
            }
            drop(memory);
            self.given_back(job, zone);
        }
    }

    /// A job has given back pages of an arena: fences them if they are many, and looks at the jobs that
    /// wait if they have more room.
    fn given_back(&self, job: JobKey, zone: Zone) {
        let now = self.device.now();
        let (full, more_room) = self.ledger.lock().note_given(job, zone, now);
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
                self.ledger.lock().fenced(job, Fence { batch, regions, event });
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
    /// after the jobs that have left. All is tried. What the device refuses of one job is no matter of the
    /// others, and is tried again the next time: the error is the first that is of `own`, of what is
    /// nobody's, or of a device that is lost.
    pub(crate) fn reclaim(&self, own: Option<JobKey>) -> Result<(), D::Error> {
        let mut result = Ok(());
        let mut first = |job: Option<JobKey>, done: Result<(), D::Error>| {
            let matters =
                |error: &D::Error| job.is_none() || job == own || error.class() == Class::Lost;
            if result.is_ok() && done.as_ref().is_err_and(matters) {
                result = done;
            }
        };
        self.unpark_idle();
        let due = self.ledger.lock().due();
        due.into_iter().for_each(|job| first(Some(job), self.fence(job)));
        let jobs: Vec<JobKey> = self.ledger.lock().accounts.keys().copied().collect();
        jobs.into_iter().for_each(|job| first(Some(job), self.reap(job)));
        first(None, self.clear_up());
        let now = self.device.now();
        let (shrinking, news) = {
            let mut ledger = self.ledger.lock();
            (ledger.is_shrinking(), ledger.look(now))
        };
        if news {
            self.changed();
        }
        if shrinking {
            first(None, self.shrink());
        }
        result
    }

    /// Frees what a job has given up and the device has passed.
    fn reap(&self, job: JobKey) -> Result<(), D::Error> {
        loop {
            let oldest = self.ledger.lock().oldest_fence(job);
            let Some((batch, event)) = oldest else { return Ok(()) };
            if self.device.query(&event)? == Passed::NotYet {
                return Ok(());
            }
            let now = self.device.now();
            // The event goes after the lock has been let go: it is the device's.
            if self.ledger.lock().passed(job, batch, now) {
                self.changed();
            }
        }
    }

    /// Takes away the mappings and ranges of jobs that have left. What the device refuses stays for
    /// the next time.
    pub(crate) fn clear_up(&self) -> Result<(), D::Error> {
        let departed = self.ledger.lock().take_departed();
        let count = departed.len();
        let mut result = Ok(());
        for (job, zone, mut space) in departed {
            let emptied = self.empty(job, zone, &mut space);
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
            self.ledger.lock().departed.push((job, zone, space));
        }
        if count > 0 {
            self.ledger.lock().cleared(count);
            self.changed();
        }
        result
    }

    fn empty(&self, job: JobKey, zone: Zone, space: &mut Space<D::Range>) -> Result<(), D::Error> {
        let pages: Vec<(u64, usize)> = space.mapped().collect();
        for run in pages.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            self.device.unmap(&space.range, self.offset(run[0].0), self.length(run.len()))?;
            for some in run.chunks(AT_A_TIME) {
                let mut ledger = self.ledger.lock();
                for &(page, region) in some {
                    space.set(page, |page| page.region = None);
                    ledger.unmapped(Place { job, zone, page }, region);
                }
            }
        }
        Ok(())
    }
}
