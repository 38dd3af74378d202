//! The pool's books: who has which region, who runs, who waits. Pure state, no device calls.
//!
//! [`Pool`](crate::Pool) keeps the ledger behind its one lock, does the device calls that a change
//! of the books asks for after it has let go of the lock, and reports back how they went.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::account::{Account, Fence, Phase, Pulse};
use crate::alias::Aliases;
use crate::arena::Side;
use crate::banker::Claim;
use crate::device::Device;
use crate::lifetime::Lifetime;
use crate::policy::Policy;
use crate::region::{JobKey, Regions, State};
use crate::sync::Arc;
use crate::units::Ticks;

/// A batch of given-up pages is fenced when it has come to this many bytes (Zico's T, 8 MiB) ...
const BATCH_BYTES: u64 = 8 << 20;
/// ... or this many pages, so that a batch of regions that come and go stays small.
const BATCH_PAGES: usize = 64;

pub(crate) struct Ledger<D: Device> {
    pub(crate) page_bytes: u64,
    /// The first page of the home range.
    pub(crate) home: u64,
    pub(crate) regions: Regions,
    /// The created regions' memory, by slot.
    pub(crate) memory: Vec<Option<Arc<D::Memory>>>,
    /// Created memory that is mapped nowhere: the device refused to map it. Used before any is created.
    pub(crate) spare: Vec<D::Memory>,
    pub(crate) aliases: Aliases<D::Range>,
    pub(crate) accounts: BTreeMap<JobKey, Account<D>>,
    pub(crate) waiting: VecDeque<JobKey>,
    pub(crate) policy: Box<dyn Policy>,
    /// Scratch for the banker's test.
    pub(crate) claims: Vec<Claim>,
    next: JobKey,
}

impl<D: Device> Ledger<D> {
    pub(crate) fn new(page_bytes: u64, home: u64, regions: usize, policy: Box<dyn Policy>) -> Self {
        Self {
            page_bytes,
            home,
            regions: Regions::new(regions),
            memory: (0..regions).map(|_| None).collect(),
            spare: Vec::new(),
            aliases: Aliases::new(),
            accounts: BTreeMap::new(),
            waiting: VecDeque::new(),
            policy,
            claims: Vec::new(),
            next: 0,
        }
    }

    /// The budget, in regions.
    pub(crate) fn budget(&self) -> u32 {
        u32::try_from(self.regions.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn join(
        &mut self,
        name: String,
        stream: D::Stream,
        pulse: Arc<Pulse>,
    ) -> (JobKey, Side) {
        let low = self.accounts.values().filter(|account| account.side == Side::Low).count();
        let side = if low * 2 > self.accounts.len() { Side::High } else { Side::Low };
        let key = self.next;
        self.next += 1;
        self.accounts.insert(key, Account::new(name, stream, side, pulse, self.regions.len()));
        (key, side)
    }

    /// The job gives up all it has. The account stays until the device has passed it.
    pub(crate) fn leave(&mut self, job: JobKey, now: Ticks) {
        let slots = self.regions.iter();
        let leased: Vec<(usize, Lifetime)> = slots
            .filter_map(|(slot, state)| match state {
                State::Leased { job: owner, lifetime } if owner == job => Some((slot, lifetime)),
                _ => None,
            })
            .collect();
        for (slot, lifetime) in leased {
            self.drain(job, lifetime, slot, self.home + slot as u64);
        }
        self.waiting.retain(|&waiting| waiting != job);
        if let Some(account) = self.accounts.get_mut(&job) {
            account.end(now);
            account.phase = Phase::Idle;
            account.gone = true;
        }
        self.remove_if_gone(job);
    }

    /// The slot behind a page, at home or stitched.
    pub(crate) fn slot(&self, page: u64) -> Option<usize> {
        page.checked_sub(self.home)
            .and_then(|slot| usize::try_from(slot).ok())
            .filter(|&slot| slot < self.regions.len())
            .or_else(|| self.aliases.slot(page))
    }

    /// Takes back pages that an arena has emptied. Whether it is time to fence them.
    pub(crate) fn give_back(
        &mut self,
        job: JobKey,
        lifetime: Lifetime,
        pages: core::ops::Range<u64>,
        now: Ticks,
    ) -> bool {
        for page in pages {
            if let Some(slot) = self.slot(page) {
                self.drain(job, lifetime, slot, page);
            }
        }
        let Some(account) = self.accounts.get_mut(&job) else { return false };
        account.note(now);
        Self::is_full(account, self.page_bytes)
    }

    fn is_full(account: &Account<D>, page_bytes: u64) -> bool {
        let pages = account.pending.len();
        pages >= BATCH_PAGES || pages as u64 * page_bytes >= BATCH_BYTES
    }

    /// The jobs whose open batch is to be fenced now: it is full, the job will not fill it soon, or
    /// somebody waits for memory.
    pub(crate) fn due(&self) -> Vec<JobKey> {
        let pressure = self.accounts.values().any(Account::is_stalled);
        let due = |account: &Account<D>| {
            !account.pending.is_empty()
                && (pressure || !account.is_running() || Self::is_full(account, self.page_bytes))
        };
        self.accounts.iter().filter(|(_, account)| due(account)).map(|(&job, _)| job).collect()
    }

    fn drain(&mut self, job: JobKey, lifetime: Lifetime, slot: usize, page: u64) {
        let Some(account) = self.accounts.get_mut(&job) else { return };
        account.leased[lifetime.index()] -= 1;
        account.draining += 1;
        account.own.set(slot, true);
        account.pending.push(page);
        self.regions.set(slot, State::Draining { job, batch: account.batch });
        self.aliases.given_back(page);
    }

    /// Closes a job's open batch: its pages are to be fenced by an event recorded from now on.
    pub(crate) fn close_batch(&mut self, job: JobKey) -> Option<(D::Stream, u64, Vec<u64>)> {
        let account = self.accounts.get_mut(&job).filter(|account| !account.pending.is_empty())?;
        let batch = account.batch;
        account.batch += 1;
        Some((account.stream, batch, core::mem::take(&mut account.pending)))
    }

    pub(crate) fn fenced(&mut self, job: JobKey, fence: Fence<D::Event>) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.fences.push_back(fence);
        }
    }

    /// No event could be recorded: the pages join the batch that is open now.
    pub(crate) fn reopen(&mut self, job: JobKey, batch: u64, pages: Vec<u64>) {
        for &page in &pages {
            let Some(slot) = self.slot(page) else { continue };
            let Some(account) = self.accounts.get(&job) else { return };
            if self.regions.state(slot) == (State::Draining { job, batch }) {
                self.regions.set(slot, State::Draining { job, batch: account.batch });
            }
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            account.pending.extend(pages);
        }
    }

    /// The oldest fence of a job, to be looked at outside the lock.
    pub(crate) fn oldest_fence(&mut self, job: JobKey) -> Option<Fence<D::Event>> {
        self.accounts.get_mut(&job)?.fences.pop_front()
    }

    pub(crate) fn not_passed(&mut self, job: JobKey, fence: Fence<D::Event>) {
        if let Some(account) = self.accounts.get_mut(&job) {
            account.fences.push_front(fence);
        }
    }

    /// The device has passed a fence: what is still draining in its batch is free.
    pub(crate) fn passed(&mut self, job: JobKey, fence: &Fence<D::Event>, now: Ticks) {
        for &page in &fence.pages {
            self.aliases.fence_passed(page);
            let Some(slot) = self.slot(page) else { continue };
            if self.regions.state(slot) != (State::Draining { job, batch: fence.batch }) {
                continue;
            }
            self.regions.set(slot, State::Free);
            if let Some(account) = self.accounts.get_mut(&job) {
                account.draining -= 1;
                account.own.set(slot, false);
            }
        }
        if let Some(account) = self.accounts.get_mut(&job) {
            account.note(now);
        }
        self.remove_if_gone(job);
    }

    fn remove_if_gone(&mut self, job: JobKey) {
        if self.accounts.get(&job).is_some_and(|account| account.gone && account.draining == 0) {
            self.accounts.remove(&job);
        }
    }
}
