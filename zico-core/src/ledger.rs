//! The pool's books: who has which region, who runs, who waits. Pure state, no device calls.
//!
//! [`Pool`](crate::Pool) keeps the ledger behind its one lock, does the device calls that a change
//! of the books asks for after it has let go of the lock, and reports back how they went.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::account::{Account, Batch, Fence, Stake};
use crate::banker::Claim;
use crate::choose::{Backing, Chosen};
use crate::desk::Desk;
use crate::device::Device;
use crate::first_wave::FirstWave;
use crate::policy::Policy;
use crate::pool::HandOver;
use crate::region::{JobKey, Place, Regions, State};
use crate::run::Phase;
use crate::signature::Signature;
use crate::snapshot::Counts;
use crate::space::{Moment, Space};
use crate::sync::Arc;
use crate::units::Ticks;
use crate::zone::Zone;

/// A batch of given-up regions is fenced when it has come to this many bytes (Zico's T, 8 MiB) ...
const BATCH_BYTES: u64 = 8 << 20;
/// ... or this many entries, so that a batch of regions that come and go stays small.
const BATCH_REGIONS: usize = 64;
/// The most regions or pages that are looked at while the lock is held, where a call has to do with any
/// number of them.
pub(crate) const AT_A_TIME: usize = 1024;

/// What may be done with a region.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) hand_over: HandOver,
}

pub(crate) struct Ledger<D: Device> {
    pub(crate) page_bytes: u64,
    pub(crate) regions: Regions<D::Memory>,
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
    /// How long others wait for a job that is between iterations and does nothing.
    pub(crate) patience: Ticks,
    /// Scratch for the banker's test.
    pub(crate) claims: Vec<Claim>,
    /// And for what they are made of.
    pub(crate) stakes: Vec<Stake>,
    /// Scratch for leases.
    pub(crate) backings: Vec<Backing>,
    /// Those of them that a lease has chosen so far.
    pub(crate) chosen: Chosen,
    /// An empty list, for the next batch.
    list: Vec<usize>,
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
    /// The epoch in which those who wait were told that nothing can go on, if nobody has gone on since.
    pub(crate) told: Option<u64>,
    /// Those who wait are to be told of something that has changed.
    pub(crate) wake: bool,
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
        patience: Ticks,
    ) -> Self {
        Self {
            page_bytes,
            regions: Regions::new(regions as usize),
            target: regions,
            limit: regions,
            open: regions,
            accounts: BTreeMap::new(),
            waiting: VecDeque::new(),
            policy,
            rules,
            patience,
            claims: Vec::new(),
            stakes: Vec::new(),
            backings: Vec::new(),
            chosen: Chosen::default(),
            list: Vec::new(),
            making_way: false,
            desk: Desk::default(),
            departed: Vec::new(),
            counts: Counts::default(),
            claimed: 0,
            refused_claimed: false,
            told: None,
            wake: false,
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
        for account in self.accounts.values_mut() {
            account.served = Ticks::ZERO;
        }
        self.accounts.insert(key, account);
        self.regions.join(key);
        true
    }

    /// A range that was reserved for a job which could not join is to go.
    pub(crate) fn abandon(&mut self, space: Space<D::Range>) {
        let nobody = self.new_key();
        self.departed.push((nobody, Zone::Persistent, space));
    }

    /// The job leaves, and is to give up all it has: [`leave_pages`](Self::leave_pages). The account stays
    /// until the device has passed that. Whether it had not left before.
    pub(crate) fn leave(&mut self, job: JobKey, streams: Vec<D::Stream>, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job).filter(|account| !account.gone) else {
            return false;
        };
        account.end(now, Signature::default());
        account.phase = Phase::Idle;
        account.gone = true;
        account.stall = None;
        account.first_wave = FirstWave::over();
        account.joins.extend(streams);
        account.terms.floor = 0;
        self.waiting.retain(|&waiting| waiting != job);
        self.epoch += 1;
        true
    }

    /// A job that has left gives up some of its pages, those from one on. Where to go on, if there are
    /// more.
    pub(crate) fn leave_pages(&mut self, job: JobKey, from: (usize, u64)) -> Option<(usize, u64)> {
        let (mut zone, mut page) = from;
        for _ in 0..AT_A_TIME {
            let (which, account) = (*Zone::ALL.get(zone)?, self.accounts.get_mut(&job)?);
            if page >= account.spaces[zone].pages() {
                (zone, page) = (zone + 1, 0);
                continue;
            }
            let moment = account.moment();
            let place = Place { job, zone: which, page };
            self.epoch += u64::from(Self::drain(&mut self.regions, account, place, moment));
            page += 1;
        }
        Some((zone, page))
    }

    /// A job that has left has given up all it had.
    pub(crate) fn left(&mut self, job: JobKey) {
        self.epoch += 1;
        self.tighten();
        self.depart(job);
    }

    /// Takes back pages that an arena has emptied.
    pub(crate) fn give_back(&mut self, job: JobKey, zone: Zone, pages: impl Iterator<Item = u64>) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let moment = account.moment();
        for page in pages {
            let place = Place { job, zone, page };
            self.epoch += u64::from(Self::drain(&mut self.regions, account, place, moment));
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

    /// Moves the region that is leased at a page of a job, if one is, to the job's open batch. Whether one
    /// was.
    fn drain(
        regions: &mut Regions<D::Memory>,
        account: &mut Account<D>,
        place: Place,
        moment: Moment,
    ) -> bool {
        let space = &mut account.spaces[place.zone.index()];
        let Some(region) = space.page(place.page).region else { return false };
        if regions[region].state != State::Leased(place) {
            return false;
        }
        account.leased[place.zone.index()] -= 1;
        account.draining += 1;
        account.pending.push(region);
        let batch = account.batch;
        let mut parts = 0;
        space.set(place.page, |page| {
            page.last = batch;
            page.usage.end(moment);
            parts = page.usage.parts();
        });
        regions.set_state(region, State::Draining { job: place.job, batch });
        regions.set_parts(region, place, parts);
        true
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
            joins: account.joins.clone(),
        })
    }

    /// A batch has been fenced.
    pub(crate) fn fenced(&mut self, job: JobKey, fence: Fence<D::Event>) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        // Another thread may have fenced a later one meanwhile.
        let at = account.fences.partition_point(|other| other.batch < fence.batch);
        account.fences.insert(at, fence);
        self.counts.fences += 1;
    }

    /// No event could be recorded: the regions join the batch that is open now.
    pub(crate) fn reopen(&mut self, job: JobKey, closed: Batch<D::Stream>) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        for &region in &closed.regions {
            if self.regions[region].state == (State::Draining { job, batch: closed.number }) {
                self.regions.set_state(region, State::Draining { job, batch: account.batch });
            }
        }
        // One that has come and gone meanwhile stands there already: however often recording fails,
        // the batch does not outgrow the budget.
        account.pending.extend(closed.regions);
        account.pending.sort_unstable();
        account.pending.dedup();
    }

    /// The oldest fence of a job, to be looked at outside the lock: its batch and its event.
    pub(crate) fn oldest_fence(&self, job: JobKey) -> Option<(u64, Arc<D::Event>)> {
        let fence = self.accounts.get(&job)?.fences.front()?;
        Some((fence.batch, fence.event.clone()))
    }

    /// The device has passed a job's oldest fence, that of this batch: what is still draining in it is
    /// free. Whether another thread has not told of it before. Of a large batch some regions at a time: the
    /// fence stays until all of them are.
    pub(crate) fn passed(&mut self, job: JobKey, batch: u64, now: Ticks) -> bool {
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        let Some(fence) = account.fences.front_mut().filter(|fence| fence.batch == batch) else {
            return false;
        };
        self.epoch += 1;
        // From here on nothing may be added to it: a lease that is taken back finds that it has passed.
        account.passed = account.passed.max(batch);
        let rest = fence.regions.len().saturating_sub(AT_A_TIME);
        for region in fence.regions.drain(rest..) {
            if let State::Draining { job: owner, batch: last } = self.regions[region].state
                && owner == job
                && last <= batch
            {
                self.regions.set_state(region, State::Free);
                account.draining -= 1;
            }
        }
        if rest == 0 {
            self.list = account.fences.pop_front().map_or_else(Vec::new, |fence| fence.regions);
        }
        account.note(now);
        self.tighten();
        self.depart(job);
        if self.making_way {
            self.admit();
        }
        true
    }

    /// Closes the account of a job that has left, once the device has passed all it had.
    pub(crate) fn depart(&mut self, job: JobKey) {
        let is_done = |account: &Account<D>| {
            account.gone && account.claims == 0 && account.charged() == 0 && account.is_quiet()
        };
        if self.accounts.get(&job).is_some_and(is_done)
            && let Some(account) = self.accounts.remove(&job)
        {
            self.regions.leave(job);
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
        let stays = |other: &Place| !isolated || other.job == place.job;
        let others = self.regions[region].mappings.iter().map(|mapping| mapping.place);
        let others = others.filter(|other| !stays(other)).map(|other| (other, region));
        let occupied = self.space(place).and_then(|space| space.page(place.page).region);
        others.chain(occupied.map(|region| (place, region))).collect()
    }

    /// The device has memory for a region.
    pub(crate) fn create(&mut self, region: usize, memory: Arc<D::Memory>) {
        self.regions.set_memory(region, Some(memory));
        self.counts.creates += 1;
    }

    /// A region has been mapped at a place.
    pub(crate) fn mapped(&mut self, place: Place, region: usize) {
        self.counts.maps += 1;
        self.regions.map(region, place);
        self.set_mapping(place, Some(region));
    }

    /// Nothing is mapped at a place any more.
    pub(crate) fn unmapped(&mut self, place: Place, region: usize) {
        self.counts.unmaps += 1;
        self.regions.unmap(region, place);
        self.set_mapping(place, None);
    }

    fn set_mapping(&mut self, place: Place, region: Option<usize>) {
        if let Some(account) = self.accounts.get_mut(&place.job) {
            account.spaces[place.zone.index()].set(place.page, |page| page.region = region);
        }
    }
}
