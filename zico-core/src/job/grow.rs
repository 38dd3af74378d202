//! An allocation for which the job's arenas have no room.

use alloc::vec::Vec;

use super::Job;
use crate::ledger::Denied;
use crate::types::block::{Block, Request};
use crate::types::device::Device;
use crate::types::error::{AllocError, ResumeError};
use crate::types::lifetime::Lifetime;
use crate::types::report::Resume;
use crate::types::want::{Demand, Needed, Want};
use crate::types::zone::Zone;

/// No budget is less than that: whether more could ever be had is asked before pages are listed,
/// and before what is parked counts as memory that may come back.
const FEW_PAGES: u64 = 1;

/// What one try to grow has come to.
enum Grown<E> {
    Placed(Block),
    /// Worth another try at once.
    Again,
    Refused(AllocError<E>),
}

/// An allocation on its way, from one try to the next.
struct Growing {
    request: Request,
    size: u64,
    align: u64,
    /// Its arena, once something has been leased for it: what is leased for one is of no use to
    /// another.
    decided: Option<Lifetime>,
    /// The job's stream has been made to wait for those that use parked blocks.
    ordered: bool,
    /// Pages may be backed in which nothing lies.
    loose: bool,
}

impl<D: Device> Job<D> {
    /// Leases the pages that the block needs and places it there. The job's lock is not held
    /// meanwhile: another thread may place blocks where there is room, and if that takes the place
    /// away, it goes round once more.
    #[cold]
    pub(super) fn grow_and_place(
        &self,
        request: Request,
        size: u64,
        align: u64,
    ) -> Result<Block, AllocError<D::Error>> {
        self.can_ever_fit(request, size)?;
        if self.interruptible {
            self.shared.give_way(self.key, self.stream, &self.heap);
        }
        let (decided, ordered, loose) = (None, false, false);
        let mut growing = Growing { request, size, align, decided, ordered, loose };
        let result = loop {
            match self.try_to_grow(&mut growing) {
                Grown::Placed(block) => break Ok(block),
                Grown::Again => {}
                Grown::Refused(AllocError::Suspended) if self.comes_back() => {
                    if let Err(error) = self.bring_back(request) {
                        break Err(error);
                    }
                }
                Grown::Refused(error) => break Err(error),
            }
        };
        if growing.loose {
            self.give_up_loose();
        }
        if self.preemptible && matches!(result, Err(AllocError::Busy(_))) {
            // Others may wait for this very job to give way.
            self.shared.preempt(Some(self.key));
        }
        result
    }

    /// A job that has given way comes back for what it allocates.
    fn bring_back(&self, request: Request) -> Result<(), AllocError<D::Error>> {
        match self.resume() {
            Ok(Resume::Done) => Ok(()),
            Ok(Resume::Wait) => Err(self.shared.busy(self.key, request.bytes)),
            Err(ResumeError::Left) => Err(AllocError::Left),
            Err(ResumeError::Device(error)) => Err(AllocError::Device(error)),
            Err(ResumeError::Broker(error)) => Err(AllocError::Broker(error)),
        }
    }

    /// Refuses what is larger than all there is, before its pages are listed.
    fn can_ever_fit(&self, request: Request, size: u64) -> Result<(), AllocError<D::Error>> {
        let pages = size.div_ceil(self.shared.region.value().max(1));
        if pages <= FEW_PAGES {
            return Ok(());
        }
        let demand = Demand { asked: request.bytes, pages, persists: false, told: false };
        let refused = self.shared.is_beyond_all(self.key, demand);
        match refused {
            Some(Denied::Never(why)) => Err(AllocError::OutOfMemory(why)),
            Some(Denied::BeyondCap(shortage, cap)) => Err(AllocError::BeyondCap { cap, shortage }),
            Some(Denied::Busy(_)) | None => Ok(()),
        }
    }

    fn try_to_grow(&self, growing: &mut Growing) -> Grown<D::Error> {
        let &mut Growing { request, size, align, decided, .. } = growing;
        let want = match self.want(request, size, align, decided) {
            Ok(want) => want,
            Err(error) => return Grown::Refused(error),
        };
        if !want.planned {
            growing.decided = Some(want.zone.lifetime());
        }
        let leased = match want.pages[..] {
            [] => Ok(()),
            _ => self.shared.lease(self.key, &want),
        };
        let mut heap = self.heap.lock();
        let awaited = core::mem::take(&mut heap.awaited);
        heap.growing = false;
        if heap.closed {
            drop(heap);
            return self.left_meanwhile();
        }
        if leased.is_ok() {
            heap.back(want.zone, &want.pages);
        }
        // Even if there was nothing to be had: another thread may have freed something.
        let block = heap.alloc(request, size, align, growing.decided);
        growing.loose |= leased.is_ok() && !block.is_some_and(|block| heap.touches(block, &want));
        heap.wanted = want.pages;
        // What is parked will be the job's again, when the streams that use it let it be.
        let parked = heap.unparking > 0 || !heap.parked.is_empty();
        let busy = matches!(leased, Err(AllocError::Busy(_))) || parked;
        heap.has_waiters |= busy && block.is_none();
        let order = !growing.ordered && !heap.parked.is_empty();
        let mark = heap.mark().filter(|_| block.is_some());
        let watched = block.is_some() && self.pulse.tick();
        let short = matches!(
            leased,
            Err(AllocError::Busy(_) | AllocError::OutOfMemory(_) | AllocError::BeyondCap { .. })
        );
        // What a plan keeps for those who come next is of more use now.
        let spare = if short { heap.give_up_spare(Lifetime::Iteration) } else { Vec::new() };
        let spared = !spare.is_empty();
        if spared {
            self.shared.give_back(self.key, heap, Zone::Iteration, spare);
        } else {
            drop(heap);
        }
        if awaited {
            self.shared.changed();
        }
        if let Some(block) = block {
            self.made(mark, watched);
            return Grown::Placed(block);
        }
        match leased {
            Ok(()) => Grown::Again,
            Err(_) if short && spared => Grown::Again,
            Err(_) if short && order => {
                growing.ordered = true;
                self.unpark(true);
                Grown::Again
            }
            // There may be room beside what the plan has foreseen.
            Err(AllocError::OutOfMemory(_) | AllocError::BeyondCap { .. }) if want.planned => {
                growing.decided = Some(want.zone.lifetime());
                Grown::Again
            }
            // What is parked, or what another thread is about to release, may be enough.
            Err(AllocError::OutOfMemory(why)) if busy => {
                Grown::Refused(AllocError::Busy(why.shortage))
            }
            Err(AllocError::BeyondCap { shortage, .. }) if parked => {
                Grown::Refused(AllocError::Busy(shortage))
            }
            Err(AllocError::OutOfMemory(mut why)) => {
                why.largest_free = self.heap.lock().largest_free_in(want.zone);
                Grown::Refused(AllocError::OutOfMemory(why))
            }
            Err(error) => Grown::Refused(error),
        }
    }

    /// The job has been made to leave while this thread leased for it: what it got goes with the
    /// rest.
    fn left_meanwhile(&self) -> Grown<D::Error> {
        self.shared.finish_leaving(self.key, &self.heap);
        Grown::Refused(AllocError::Left)
    }

    /// Gives back pages that have been leased and in which nothing has come to lie, since another
    /// thread has made room elsewhere or has taken it.
    fn give_up_loose(&self) {
        for lifetime in Lifetime::ALL {
            let mut heap = self.heap.lock();
            let pages = heap.give_up_spare(lifetime);
            self.shared.give_back(self.key, heap, lifetime.into(), pages);
        }
    }

    fn want(
        &self,
        request: Request,
        size: u64,
        align: u64,
        decided: Option<Lifetime>,
    ) -> Result<Want, AllocError<D::Error>> {
        let mut heap = self.heap.lock();
        if !heap.parked.is_empty() {
            drop(heap);
            self.unpark(false);
            heap = self.heap.lock();
        }
        if heap.closed {
            return Err(AllocError::Left);
        }
        if heap.is_away() {
            return Err(AllocError::Suspended);
        }
        if heap.growing {
            heap.awaited = true;
            drop(heap);
            return Err(self.shared.busy(self.key, request.bytes));
        }
        let asked = request.bytes;
        let Needed { zone, pages, planned } = heap
            .want(request, size, align, decided)
            .map_err(|range| AllocError::OutOfAddresses { bytes: asked, range })?;
        heap.growing = true;
        let told = heap.told(request, zone);
        Ok(Want { zone, pages, planned, asked, told })
    }
}
