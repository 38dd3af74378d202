//! The pool's books: who has which region, who runs, who waits. Pure state behind one lock.
//!
//! The ledger knows no device: memory, mappings and fences are numbers here. It answers a request
//! for memory with a [`WorkOrder`] that says what the device has to do; the
//! [executor](crate::executor) carries it out without the lock, and [settles](Ledger::settle) what
//! has been done. Whenever something has changed that a waiting job may have waited for, the ledger
//! notes that it has to be woken; whoever lets go of the lock does so ([`Ledger::take_wake`]).
//!
//! | file | what it keeps or decides |
//! |---|---|
//! | `region/` | the regions, and which of them are free |
//! | `pages` | what is mapped at each page of an arena |
//! | `account/`, `run`, `first_wave` | one job: charges, fences, iteration |
//! | `fences` | batches of regions that were given up, and their completion |
//! | `lease` | whether a lease is granted, and the work order for it |
//! | `placement` | which region backs which page |
//! | `pins` | pages whose mappings are being changed |
//! | `banker` | the safety test |
//! | `ahead` | pages that are leased before they are asked for |
//! | `ticket` | what is on the host, and its right to come back |
//! | `preempt` | which jobs go there, so that others can go on |
//! | `interrupt` | iterations that go there, where nothing else is left |
//! | `denial`, `shortage` | what a refused request is told |
//! | `quota`, `budget` | floors, caps, the budget |
//! | `iteration`, `pace`, `bucket` | iterations that begin and end; jobs that are held to a rate |
//! | `leaving`, `waits` | jobs that leave; who waits for whom |
//! | `fairness` | how often one that waits has been bypassed |
//! | `awaited` | memory that is about to be had by one that waits for it |
//! | `adopt` | the books of a ledger that is no more, from what its jobs have |
//! | `admission`, `queue` | which iterations start |
//! | `retire` | regions whose memory goes back to the device |
//! | `users` | whose memory is whose, where users do not trust each other |
//! | `report` | snapshots |

pub(crate) mod account;
mod admission;
mod adopt;
mod ahead;
mod awaited;
mod banker;
mod bucket;
mod budget;
mod denial;
mod fairness;
mod fences;
mod first_wave;
mod interrupt;
mod iteration;
mod lease;
mod leaving;
mod pace;
mod pages;
mod pins;
mod placement;
mod preempt;
mod queue;
mod quota;
mod region;
mod report;
mod retire;
mod run;
mod shortage;
mod ticket;
mod users;
mod waits;

pub(crate) use crate::types::tuning::AT_A_TIME;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::policy::Policy;
use crate::types::JobKey;
use crate::types::config::HandOver;
use crate::types::pulse::Pulse;
use crate::types::report::Counts;
use crate::types::units::Ticks;
use account::{Account, Stake};
use banker::Claim;
use pages::Pages;
use placement::{Backing, Chosen};
use queue::Queue;
use region::{RegionTable, State};

pub(crate) use adopt::Use;
pub(crate) use budget::regions_of;
pub(crate) use fences::is_full;
pub(crate) use lease::{Denied, Done, WorkOrder};
pub(crate) use leaving::Departed;
pub(crate) use region::Place;
pub(crate) use retire::{Excess, Retired};

/// A region is mapped at a place.
pub(crate) type Mapped = (Place, usize);

/// How a pool's books are to be kept.
pub(crate) struct Rules {
    /// The size of a region, and of a page.
    pub(crate) page_bytes: u64,
    pub(crate) hand_over: HandOver,
    /// Pages that are mapped anew again and again get regions of their own.
    pub(crate) fewest_calls: bool,
    /// How long others wait for a job that is between iterations and does nothing.
    pub(crate) patience: Ticks,
}

/// The books of one pool. See the [module](self).
pub(crate) struct Ledger {
    page_bytes: u64,
    regions: RegionTable,
    /// The budget, in regions.
    target: u32,
    /// What may be leased and drain now: more than the target while a lowered one is not reached.
    limit: u32,
    /// Regions that are not closed: more than the limit while some of them have yet to become free.
    open: u32,
    accounts: BTreeMap<JobKey, Account>,
    /// The jobs that wait to start an iteration, in the order of asking.
    waiting: VecDeque<JobKey>,
    /// Some job has a pace, or has had one.
    has_paces: bool,
    policy: Box<dyn Policy>,
    hand_over: HandOver,
    fewest_calls: bool,
    patience: Ticks,
    /// Scratch for the banker's test, and for what claims are made of.
    claims: Vec<Claim>,
    stakes: Vec<Stake>,
    /// Scratch for leases: their pages, and the regions chosen so far.
    backings: Vec<Backing>,
    chosen: Chosen,
    /// An empty list, for the next batch.
    list: Vec<usize>,
    /// Scratch for decisions.
    queue: Queue,
    /// Somebody may start once memory is granted, or the device has passed more.
    looks_again: bool,
    /// Some job might start, and does not, so that one that has had much less time goes on.
    holds_off: bool,
    /// Jobs that have left and whose regions are free; their mappings and ranges have yet to go.
    departed: Vec<Departed>,
    counts: Counts,
    /// Pages whose mappings are being changed, and whether somebody was refused because of that.
    pinned: u32,
    refused_pinned: bool,
    /// The epoch in which those who wait were told that nothing can go on, if nobody has gone on
    /// since.
    told: Option<u64>,
    /// Those who wait are to be told of something that has changed.
    wake: bool,
    /// Regions of all jobs that are to come back from the host.
    away: u32,
    /// Some job is preemptible, or there has been one.
    has_turns: bool,
    /// Some job is interruptible, or there has been one.
    has_interruptible: bool,
    /// When the next turn is over that somebody waits for.
    turns_at: Option<Ticks>,
    /// The device's clock, when it was last told.
    now: Ticks,
    /// Regions whose memory is being given back to the device.
    retiring: usize,
    /// Counts the changes that could let a denied lease be granted.
    epoch: u64,
    next: JobKey,
}

impl Ledger {
    /// The books of a pool of so many regions.
    pub(crate) fn new(regions: u32, policy: Box<dyn Policy>, rules: &Rules) -> Self {
        Self {
            page_bytes: rules.page_bytes,
            regions: RegionTable::new(regions as usize),
            target: regions,
            limit: regions,
            open: regions,
            accounts: BTreeMap::new(),
            waiting: VecDeque::new(),
            has_paces: false,
            policy,
            hand_over: rules.hand_over,
            fewest_calls: rules.fewest_calls,
            patience: rules.patience,
            claims: Vec::new(),
            stakes: Vec::new(),
            backings: Vec::new(),
            chosen: Chosen::default(),
            list: Vec::new(),
            queue: Queue::default(),
            looks_again: false,
            holds_off: false,
            departed: Vec::new(),
            counts: Counts::default(),
            pinned: 0,
            refused_pinned: false,
            told: None,
            wake: false,
            away: 0,
            has_turns: false,
            has_interruptible: false,
            turns_at: None,
            now: Ticks::ZERO,
            retiring: 0,
            epoch: 0,
            next: 0,
        }
    }

    /// Whether those who wait are to be woken since this was asked last.
    pub(crate) fn take_wake(&mut self) -> bool {
        core::mem::take(&mut self.wake)
    }

    /// Something has changed that lets a denied request be granted, maybe: those who wait ask
    /// again.
    pub(crate) fn notify(&mut self) {
        self.epoch += 1;
        self.wake = true;
    }

    /// A key that no job has had.
    pub(crate) fn new_key(&mut self) -> JobKey {
        self.next += 1;
        self.next
    }

    /// Lets a job in, if what is to be reserved for it can be had.
    pub(crate) fn join(&mut self, key: JobKey, account: Account) -> bool {
        let has_room = self.has_room_for(account.terms.floor);
        if has_room {
            self.let_join(key, account);
        }
        has_room
    }

    pub(super) fn let_join(&mut self, key: JobKey, mut account: Account) {
        // The newcomer has had nothing yet: it is not to be served alone until it has caught up.
        for account in self.accounts.values_mut() {
            account.time.forget();
        }
        account.turn_changes(self.now);
        self.has_turns |= account.is_preemptible();
        self.has_interruptible |= account.terms.interruptible;
        self.accounts.insert(key, account);
        self.regions.join(key);
    }

    /// The jobs that are there, those included that have left and whose memory drains.
    pub(crate) fn jobs(&self) -> Vec<JobKey> {
        self.accounts.keys().copied().collect()
    }

    /// Those whose freed blocks are to be looked at: they run no iteration, or wait for memory.
    pub(crate) fn at_rest(&self) -> Vec<JobKey> {
        let waits = |account: &Account| !account.is_running() || account.stall.is_some();
        let at_rest = self.accounts.iter().filter(|(_, account)| waits(account) && !account.gone);
        at_rest.map(|(&job, _)| job).collect()
    }

    /// All jobs but one, those included that have left and whose memory drains.
    fn others(&self, job: JobKey) -> impl Iterator<Item = &Account> {
        self.accounts.iter().filter(move |&(&key, _)| key != job).map(|(_, other)| other)
    }

    /// Whether a job is there and has not left.
    pub(crate) fn has(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(|account| !account.gone)
    }

    /// Whether anything is known of a job still, be it that its memory drains.
    pub(crate) fn knows(&self, job: JobKey) -> bool {
        self.accounts.contains_key(&job)
    }

    /// What a job and the books share.
    pub(crate) fn pulse(&self, job: JobKey) -> Option<&Pulse> {
        Some(&self.accounts.get(&job)?.pulse)
    }

    /// Whether a job waits, to start, for memory, or for its pace.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
            || self.accounts.values().any(|account| account.denied)
            || self.has_resting()
    }

    /// Whether a page is backed.
    pub(crate) fn is_leased(&self, place: Place) -> bool {
        let region = self.pages(place).and_then(|pages| pages.page(place.page).region);
        region.is_some_and(|region| self.regions[region].state == State::Leased(place))
    }

    fn pages(&self, place: Place) -> Option<&Pages> {
        Some(&self.accounts.get(&place.job)?.pages[place.zone.index()])
    }

    /// What has to be unmapped before a region is mapped at a place: what is mapped there, and the
    /// region from other places where it may not stay.
    fn stale(&self, place: Place, region: usize) -> impl Iterator<Item = Mapped> + use<> {
        let isolated = self.hand_over == HandOver::Isolated;
        let others = self.regions[region].mappings.iter().map(|mapping| mapping.place);
        let others = others.filter(|other| isolated && other.job != place.job);
        let others: Vec<Mapped> = others.map(|other| (other, region)).collect();
        let occupied = self.pages(place).and_then(|pages| pages.page(place.page).region);
        others.into_iter().chain(occupied.map(|region| (place, region)))
    }

    /// A region has been mapped at a place.
    fn mapped(&mut self, place: Place, region: usize) {
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
            account.pages[place.zone.index()].set(place.page, |page| page.region = region);
        }
    }
}

#[cfg(test)]
mod tests;
