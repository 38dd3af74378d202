//! The pool's books: who has which region, who runs, who waits. Pure state, no device calls.
//!
//! [`Pool`](crate::Pool) keeps the ledger behind its one lock, does the device calls that a change
//! of the books asks for after it has let go of the lock, and reports back how they went.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::account::{Account, Batch, Fence};
use crate::banker::Claim;
use crate::choose::Backing;
use crate::desk::Desk;
use crate::device::Device;
use crate::policy::Policy;
use crate::pool::HandOver;
use crate::region::{JobKey, Mapping, Place, Region, State};
use crate::run::Phase;
use crate::signature::Signature;
use crate::snapshot::Counts;
use crate::space::Space;
use crate::sync::Arc;
use crate::units::{MemoryTime, Ticks};
use crate::zone::Zone;

/// A batch of given-up regions is fenced when it has come to this many bytes (Zico's T, 8 MiB) ...
const BATCH_BYTES: u64 = 8 << 20;
/// ... or this many entries, so that a batch of regions that come and go stays small.
const BATCH_REGIONS: usize = 64;

/// What may be done with a region.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// It may be mapped at several pages at a time.
    pub(crate) aliases: bool,
    pub(crate) hand_over: HandOver,
}

pub(crate) struct Ledger<D: Device> {
    pub(crate) page_bytes: u64,
    pub(crate) regions: Vec<Region<D::Memory>>,
    /// The budget, in regions.
    pub(crate) target: u32,
    /// What may be leased and drain now: more than the target while a lowered one is not reached.
    pub(crate) limit: u32,
    /// Regions that are not closed: more than the limit while some of them have yet to become free.
    pub(crate) open: u32,
    pub(crate) accounts: BTreeMap<JobKey, Account<D>>,
    pub(crate) waiting: VecDeque<JobKey>,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) rules: Rules,
    /// Scratch for the banker's test.
    pub(crate) claims: Vec<Claim>,
    /// Scratch for leases.
    pub(crate) backings: Vec<Backing>,
    /// An empty list, for the next batch.
    list: Vec<usize>,
    /// A running iteration may hold more than its job's share has come to be.
    pub(crate) owed: bool,
    /// Nothing starts, so that a running iteration gets the memory that it waits for.
    pub(crate) making_way: bool,
    /// Scratch for decisions.
    pub(crate) desk: Desk,
    /// Jobs that have left and whose regions are free; their mappings and ranges have yet to go.
    pub(crate) departed: Vec<(JobKey, Zone, Space<D::Range>)>,
    pub(crate) counts: Counts,
    /// Pages whose mappings are being changed, and whether somebody was refused because of that.
    pub(crate) claimed: u32,
    pub(crate) refused_claimed: bool,
    /// The epoch in which those who wait were last told that nothing can go on.
    pub(crate) told: Option<u64>,
    /// Regions whose memory is being given back to the device.
    pub(crate) retiring: usize,
    /// Counts the changes that could let a denied lease be granted.
    pub(crate) epoch: u64,
    next: JobKey,
}

impl<D: Device> Ledger<D> {
    pub(crate) fn new(
        page_bytes: u64,
        regions: u32,
        policy: Box<dyn Policy>,
        rules: Rules,
    ) -> Self {
        Self {
            page_bytes,
            regions: (0..regions).map(|_| Region::absent()).collect(),
            target: regions,
            limit: regions,
            open: regions,
            accounts: BTreeMap::new(),
            waiting: VecDeque::new(),
            policy,
            rules,
            claims: Vec::new(),
            backings: Vec::new(),
            list: Vec::new(),
            owed: false,
            making_way: false,
            desk: Desk::default(),
            departed: Vec::new(),
            counts: Counts::default(),
            claimed: 0,
            refused_claimed: false,
            told: None,
            retiring: 0,
            epoch: 0,
            next: 0,
        }
    }

    /// A key that no job has had.
    pub(crate) fn new_key(&mut self) -> JobKey {
        self.next += 1;
        self.next
    }

    /// Lets a job in, if what is to be reserved for it can be had. Else its ranges are to go.
    pub(crate) fn join(&mut self, key: JobKey, account: Account<D>) -> bool {
        if !self.has_room_for(account.terms.floor) {
            account.spaces.into_iter().for_each(|space| self.abandon(space));
            return false;
        }
        // The newcomer has had nothing yet: it is not to be served alone until it has caught up.
        self.accounts.values_mut().for_each(|account| account.used = MemoryTime::ZERO);
        self.accounts.insert(key, account);
        self.share_out();
        true
    }

    /// A range that was reserved for a job which could not join is to go.
    pub(crate) fn abandon(&mut self, space: Space<D::Range>) {
        let nobody = self.new_key();
        self.departed.push((nobody, Zone::Persistent, space));
    }

    /// The job gives up all it has. The account stays until the device has passed it.
    pub(crate) fn leave(&mut self, job: JobKey, streams: Vec<D::Stream>, now: Ticks) {
        for region in 0..self.regions.len() {
            if let State::Leased(place) = self.regions[region].state
                && place.job == job
            {
                self.drain(place, region);
            }
        }
        self.waiting.retain(|&waiting| waiting != job);
        if let Some(account) = self.accounts.get_mut(&job) {
            account.end(now, Signature::default());
            account.phase = Phase::Idle;
            account.gone = true;
            account.joins.extend(streams);
            account.terms.floor = 0;
        }
        self.epoch += 1;
        self.tighten();
        self.depart(job);
        self.share_out();
    }

    /// Takes back pages that an arena has emptied.
    pub(crate) fn give_back(&mut self, job: JobKey, zone: Zone, pages: impl Iterator<Item = u64>) {
        for page in pages {
            let space = self.accounts.get(&job).map(|account| &account.spaces[zone.index()]);
            if let Some(region) = space.and_then(|space| space.page(page).region) {
                self.drain(Place { job, zone, page }, region);
            }
        }
    }

    /// A job has given pages back: notes what is charged to it now. Whether it is time to fence them,
    /// and whether iterations have more room.
    pub(crate) fn note_given(&mut self, job: JobKey, zone: Zone, now: Ticks) -> (bool, bool) {
        let Some(account) = self.accounts.get_mut(&job) else { return (false, false) };
        account.note(now);
        let more_room = zone == Zone::Persistent || !account.is_running();
        (Self::is_full(account, self.page_bytes), more_room && !self.waiting.is_empty())
    }

    /// Moves a leased region to its job's open batch.
    fn drain(&mut self, place: Place, region: usize) {
        if self.regions[region].state != State::Leased(place) {
            return;
        }
        let Some(account) = self.accounts.get_mut(&place.job) else { return };
        account.leased[place.zone.index()] -= 1;
        account.draining += 1;
        account.pending.push(region);
        let batch = account.batch;
        let moment = account.moment();
        let mut parts = 0;
        account.spaces[place.zone.index()].set(place.page, |page| {
            page.last = batch;
            page.usage.end(moment);
            parts = page.usage.parts();
        });
        self.epoch += 1;
        let region = &mut self.regions[region];
        region.state = State::Draining { job: place.job, batch };
        let here = region.mappings.iter_mut().find(|mapping| mapping.place == place);
        if let Some(mapping) = here {
            mapping.parts = parts;
        }
    }

    fn is_full(account: &Account<D>, page_bytes: u64) -> bool {
        let regions = account.pending.len();
        regions >= BATCH_REGIONS || regions as u64 * page_bytes >= BATCH_BYTES
    }

    /// The jobs whose open batch is to be fenced now: it is full, the job will not fill it soon, or
    /// somebody waits for memory.
    pub(crate) fn due(&self) -> Vec<JobKey> {
        let pressure = self.accounts.values().any(|account| account.denied);
        let due = |account: &Account<D>| {
            !account.pending.is_empty()
                && (pressure || !account.is_running() || Self::is_full(account, self.page_bytes))
        };
        self.accounts.iter().filter(|(_, account)| due(account)).map(|(&job, _)| job).collect()
    }

    /// Closes a job's open batch: its regions are to be fenced by an event recorded from now on.
    pub(crate) fn close_batch(&mut self, job: JobKey) -> Option<Batch<D::Stream>> {
        let account = self.accounts.get_mut(&job).filter(|account| !account.pending.is_empty())?;
        let number = account.batch;
        account.batch += 1;
        Some(Batch {
            number,
            regions: core::mem::replace(&mut account.pending, core::mem::take(&mut self.list)),
            stream: account.stream,
            joins: core::mem::take(&mut account.joins),
        })
    }

    /// A batch has been fenced. Whether somebody who was denied memory may have it now, behind the
    /// fence.
    pub(crate) fn fenced(&mut self, job: JobKey, fence: Fence<D::Event>) -> bool {
        if let Some(account) = self.accounts.get_mut(&job) {
            // Another thread may have fenced a later one meanwhile.
            let at = account.fences.partition_point(|other| other.batch < fence.batch);
            account.fences.insert(at, fence);
            self.counts.fences += 1;
        }
        let ordered = self.rules.hand_over == HandOver::Ordered;
        self.epoch += u64::from(ordered);
        ordered && self.accounts.values().any(|account| account.denied)
    }

    /// No event could be recorded: the regions join the batch that is open now.
    pub(crate) fn reopen(&mut self, job: JobKey, closed: Batch<D::Stream>) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for &region in &closed.regions {
            if let State::Draining { job: owner, batch } = &mut self.regions[region].state
                && (*owner, *batch) == (job, closed.number)
            {
                *batch = account.batch;
            }
        }
        // One that has come and gone meanwhile stands there already: however often recording fails,
        // the batch does not outgrow the budget.
        account.pending.extend(closed.regions);
        account.pending.sort_unstable();
        account.pending.dedup();
        account.joins.extend(closed.joins);
    }

    /// The oldest fence of a job, to be looked at outside the lock: its batch and its event.
    pub(crate) fn oldest_fence(&self, job: JobKey) -> Option<(u64, Arc<D::Event>)> {
        let fence = self.accounts.get(&job)?.fences.front()?;
        Some((fence.batch, fence.event.clone()))
    }

    /// The device has passed a job's oldest fence, that of this batch: what is still draining in it is
    /// free. Whether another thread has not told of it before.
    pub(crate) fn passed(&mut self, job: JobKey, batch: u64, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        if account.fences.front().is_none_or(|fence| fence.batch != batch) {
            return false;
        }
        let Some(mut fence) = account.fences.pop_front() else { return false };
        self.epoch += 1;
        account.passed = account.passed.max(batch);
        for region in fence.regions.drain(..) {
            let state = &mut self.regions[region].state;
            if let State::Draining { job: owner, batch: last } = *state
                && owner == job
                && last <= batch
            {
                *state = State::Free;
                account.draining -= 1;
            }
        }
        account.note(now);
        self.tighten();
        self.depart(job);
        if self.making_way {
            self.admit();
        }
        self.list = fence.regions;
        true
    }

    /// Closes the account of a job that has left, once the device has passed all it had.
    pub(crate) fn depart(&mut self, job: JobKey) {
        let is_done = |account: &Account<D>| {
            account.gone && account.claims == 0 && account.draining == 0 && account.is_quiet()
        };
        if self.accounts.get(&job).is_some_and(is_done)
            && let Some(account) = self.accounts.remove(&job)
        {
            let spaces = Zone::ALL.into_iter().zip(account.spaces);
            self.departed.extend(spaces.map(|(zone, space)| (job, zone, space)));
        }
    }

    /// The ranges of jobs that have left, to be cleared up. That counts as claims on their pages.
    pub(crate) fn take_departed(&mut self) -> Vec<(JobKey, Zone, Space<D::Range>)> {
        let departed = core::mem::take(&mut self.departed);
        self.claimed += u32::try_from(departed.len()).unwrap_or(u32::MAX);
        departed
    }

    /// So many of them have been dealt with.
    pub(crate) fn cleared(&mut self, count: usize) {
        self.claimed = self.claimed.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        self.epoch += 1;
    }

    pub(crate) fn space(&self, place: Place) -> Option<&Space<D::Range>> {
        Some(&self.accounts.get(&place.job)?.spaces[place.zone.index()])
    }

    /// What has to be unmapped before a region is mapped at a place: what is mapped there, and the
    /// region from other places where it may not stay.
    pub(crate) fn stale(&self, place: Place, region: usize) -> Vec<(Place, usize)> {
        let isolated = self.rules.hand_over == HandOver::Isolated;
        let stays = |other: &Place| self.rules.aliases && (!isolated || other.job == place.job);
        let others = self.regions[region].mappings.iter().map(|mapping| mapping.place);
        let others = others.filter(|other| !stays(other)).map(|other| (other, region));
        let occupied = self.space(place).and_then(|space| space.page(place.page).region);
        others.chain(occupied.map(|region| (place, region))).collect()
    }

    /// The device has memory for a region.
    pub(crate) fn create(&mut self, region: usize, memory: Arc<D::Memory>) {
        self.regions[region].memory = Some(memory);
        self.counts.creates += 1;
    }

    /// A region has been mapped at a place.
    pub(crate) fn mapped(&mut self, place: Place, region: usize) {
        self.counts.maps += 1;
        self.regions[region].mappings.push(Mapping { place, parts: 0 });
        self.set_mapping(place, Some(region));
    }

    /// Nothing is mapped at a place any more.
    pub(crate) fn unmapped(&mut self, place: Place, region: usize) {
        self.counts.unmaps += 1;
        self.regions[region].mappings.retain(|mapping| mapping.place != place);
        self.set_mapping(place, None);
    }

    fn set_mapping(&mut self, place: Place, region: Option<usize>) {
        if let Some(account) = self.accounts.get_mut(&place.job) {
            account.spaces[place.zone.index()].set(place.page, |page| page.region = region);
        }
    }
}
