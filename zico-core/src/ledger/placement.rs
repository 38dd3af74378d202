//! Which regions back the pages of a lease.
//!
//! A page that gets the region that is mapped there needs no device call. For the others regions
//! are looked for in this order:
//!
//! 1. free ones that the job had last, or nobody who is there;
//! 2. its own that the device has yet to pass: its work runs in order, so it may have them back at
//!    once;
//! 3. such as have no memory yet;
//! 4. free ones that other jobs had last, which will want them again.
//!
//! Those of other users' jobs are not among them: what these have left behind is theirs
//! ([`users`](super::users)).
//!
//! So memory is created for a job only when it uses all that it has: it never holds more than what
//! it has leased at its peak, however far the device is behind. Unless few calls are what counts
//! ([`fewest_calls`](crate::PoolConfig::fewest_calls)): then pages that are mapped anew in each
//! iteration have regions of their own, if there are some to spare.
//!
//! Of the free ones those are taken that will not have to be changed again: pages that are never in
//! use at the same time can share a region ([`Usage`](super::pages::Usage) tells), which is
//! colouring an interval graph greedily; and a region that other jobs use for less of their time is
//! less likely to be taken when it is needed. When the budget has room for all, each job settles on
//! regions of its own and no page is ever mapped anew.

use alloc::vec::Vec;

use super::Ledger;
use super::account::Account;
use super::region::{RegionTable, State};
use crate::types::JobKey;
use crate::types::tuning::{REGIONS_COMPARED, SORTS_OF_PAGES};
use crate::types::want::Want;
use crate::types::zone::Zone;

/// One page of a grant.
#[derive(Clone, Copy)]
pub(super) struct Backing {
    pub(crate) page: u64,
    pub(crate) region: usize,
    /// Whether the region is mapped there already.
    pub(crate) mapped: bool,
    pub(super) from: Origin,
}

impl Backing {
    /// By a region that has yet to be mapped there.
    const fn anew(page: u64, region: usize, from: Origin) -> Self {
        Self { page, region, mapped: false, from }
    }
}

/// Whose a region was that is leased.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Nobody,
    /// The job itself had given it up, and the device has yet to pass that.
    Own,
}

/// A free region, the better the lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// For how long the job would need it at two pages at once, in 64ths of its iterations.
    clash: u32,
    /// For how much of their time other jobs use it, in the same measure.
    others: u32,
    region: usize,
}

/// The regions that a lease has chosen so far: a bit for each.
#[derive(Default)]
pub(super) struct Chosen(Vec<u64>);

impl Chosen {
    fn has(&self, region: usize) -> bool {
        self.0.get(region / 64).is_some_and(|word| word >> (region % 64) & 1 != 0)
    }

    fn add(&mut self, backings: &mut Vec<Backing>, backing: Backing) {
        debug_assert!(!self.has(backing.region), "a region is chosen once");
        let word = backing.region / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (backing.region % 64);
        backings.push(backing);
    }

    fn clear(&mut self, backings: &[Backing]) {
        for backing in backings {
            self.0[backing.region / 64] = 0;
        }
    }
}

/// A page to be backed, and the parts of an iteration in which it is in use.
type Missing = (u64, u64);

impl Ledger {
    /// Chooses a region for each page. How many pages are left without one: none if there are
    /// enough that can be had without waiting on the host. O(pages) where all are mapped, else
    /// O((pages + 64) log pages) for each of at most 64 sorts of pages that are in use at different
    /// times: no matter how many regions there are.
    pub(super) fn choose(
        &mut self,
        job: JobKey,
        want: &Want,
        backings: &mut Vec<Backing>,
    ) -> usize {
        let mut chosen = core::mem::take(&mut self.chosen);
        backings.clear();
        let left = self.choose_all(job, want, backings, &mut chosen);
        chosen.clear(backings);
        self.chosen = chosen;
        left
    }

    fn choose_all(
        &mut self,
        job: JobKey,
        want: &Want,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) -> usize {
        let Some((user, mut missing)) = self.choose_mapped(job, want, backings, chosen) else {
            return want.pages.len();
        };
        if missing.is_empty() {
            return 0;
        }
        if self.fewest_calls {
            self.choose_for_good(job, want.zone, &mut missing, backings, chosen);
        }
        missing.sort_unstable_by_key(|&(page, parts)| (parts, page));
        self.choose_free((job, user), &mut missing, backings, chosen, |regions| {
            regions.idle_of(job)
        });
        self.choose_own_draining(job, &mut missing, backings, chosen);
        self.choose_absent(usize::MAX, &mut missing, backings, chosen);
        self.choose_free((job, user), &mut missing, backings, chosen, |all| {
            all.idle_of_others(job)
        });
        missing.len()
    }

    /// Gives the pages the regions that are mapped there, as far as they can be had. The job's user
    /// and the other pages; nothing if one of them cannot be mapped anew just now.
    fn choose_mapped(
        &self,
        job: JobKey,
        want: &Want,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) -> Option<(u32, Vec<Missing>)> {
        let account = self.accounts.get(&job)?;
        let pages = &account.pages[want.zone.index()];
        let mut missing = Vec::new();
        for &number in &want.pages {
            let page = pages.page(number);
            if page.pinned {
                return None;
            }
            // Two pages of one arena may have had the same region: only one can have it now.
            let state = page.region.filter(|&region| !chosen.has(region));
            let backing = |region, from| Backing { page: number, region, mapped: true, from };
            match state.map(|region| (region, self.regions[region].state)) {
                Some((region, State::Free)) => {
                    chosen.add(backings, backing(region, Origin::Nobody));
                }
                Some((region, State::Draining { job: owner, .. })) if owner == job => {
                    chosen.add(backings, backing(region, Origin::Own));
                }
                // Its mapping would have to go, and work may still use that.
                _ if page.region.is_some() && page.last > account.completed => return None,
                _ => missing.push((number, page.usage.parts())),
            }
        }
        Some((account.user, missing))
    }

    /// Gives the missing pages, which are in order of their parts, the regions of a supply that
    /// suit them best, as far as there are any. Pages that are in use in the same parts of an
    /// iteration are looked at together; where there are very many sorts of them, the last as one.
    /// Of a large supply not all is looked at.
    fn choose_free<'a, I: Iterator<Item = usize>>(
        &'a self,
        whose: (JobKey, u32),
        missing: &mut Vec<Missing>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
        supply: impl Fn(&'a RegionTable) -> I,
    ) {
        let (mut left, mut rest, mut sorts) = (Vec::new(), &missing[..], 0);
        while !rest.is_empty() {
            sorts += 1;
            let parts = rest[0].1;
            let alike = rest.partition_point(|&(_, other)| other == parts);
            let alike = if sorts < SORTS_OF_PAGES { alike } else { rest.len() };
            let (pages, others) = rest.split_at(alike);
            let got = self.best_of(supply(&self.regions), whose, pages, backings, chosen);
            left.extend_from_slice(&pages[got..]);
            rest = others;
        }
        *missing = left;
    }

    /// Gives pages that are in use at the same time the best regions of a supply, and says how
    /// many.
    fn best_of(
        &self,
        supply: impl Iterator<Item = usize>,
        (job, user): (JobKey, u32),
        pages: &[Missing],
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) -> usize {
        let parts = pages.iter().fold(0, |all, (_, parts)| all | parts);
        let candidate = |region: usize| {
            let entry = &self.regions[region];
            let is_ours = entry.user == user;
            (is_ours && self.can_be_moved(entry) && !chosen.has(region)).then(|| {
                let (own, others) = entry.usage(job);
                Candidate { clash: (own & parts).count_ones(), others, region }
            })
        };
        let some = supply.filter_map(candidate).take(pages.len().saturating_add(REGIONS_COMPARED));
        let mut best: Vec<Candidate> = some.collect();
        if pages.len() < best.len() {
            best.select_nth_unstable(pages.len());
        }
        let got = pages.len().min(best.len());
        best[..got].sort_unstable();
        for (&(page, _), candidate) in pages.iter().zip(&best) {
            chosen.add(backings, Backing::anew(page, candidate.region, Origin::Nobody));
        }
        got
    }

    /// Gives the missing pages regions that the job itself has given up and that the device has yet
    /// to pass, at whatever page: its work runs in order. Those given up first go first. Where the
    /// page is needed again of which a region was taken, its mapping has to go, and that waits for
    /// the device: it passes those pages soonest, and the last ones given up are the first to be
    /// needed again. O(pages), and what has been taken back since it was given up is looked at
    /// once.
    fn choose_own_draining(
        &mut self,
        job: JobKey,
        missing: &mut Vec<Missing>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) {
        if missing.is_empty() {
            return;
        }
        let Some(account) = self.accounts.get_mut(&job) else { return };
        let (regions, open) = (&self.regions, account.batch);
        let mut take = |region: usize, batch: u64| {
            let is_there = regions[region].state == State::Draining { job, batch };
            if is_there
                && !chosen.has(region)
                && let Some((page, _)) = missing.pop()
            {
                chosen.add(backings, Backing::anew(page, region, Origin::Own));
            }
            (is_there, missing.is_empty())
        };
        for fence in &mut account.fenced {
            let (mut there, mut enough) = (Vec::new(), false);
            while !enough && let Some(region) = fence.regions.pop() {
                let (is_there, is_enough) = take(region, fence.number);
                there.extend(Some(region).filter(|_| is_there));
                enough = is_enough;
            }
            fence.regions.extend(there.into_iter().rev());
            if enough {
                return;
            }
        }
        // The open batch is short, and is fenced as it is: pages wait for that.
        let _ = account.pending.iter().rev().any(|&region| take(region, open).1);
    }

    /// Gives pages that are mapped anew in each iteration regions of their own, as far as there are
    /// some [to spare](Self::to_spare).
    fn choose_for_good(
        &self,
        job: JobKey,
        zone: Zone,
        missing: &mut Vec<Missing>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) {
        let Some(account) = self.accounts.get(&job) else { return };
        let (pages, moment) = (&account.pages[zone.index()], account.moment());
        let moves = |&(page, _): &Missing| pages.page(page).moves.at_each(moment);
        let mut moving: Vec<Missing> = missing.iter().copied().filter(moves).collect();
        if !moving.is_empty() {
            missing.retain(|page| !moves(page));
            self.choose_absent(self.to_spare(job), &mut moving, backings, chosen);
            missing.append(&mut moving);
        }
    }

    /// How many regions without memory a job may have though it has others that could be mapped
    /// anew: none that other jobs come to need for more than they have, and none while anybody
    /// waits or unless the peaks of all jobs fit side by side. O(jobs).
    fn to_spare(&self, job: JobKey) -> usize {
        if self.has_waiting() || !self.peaks_fit() {
            return 0;
        }
        let comes_to_need = |(&other, account): (&JobKey, &Account)| {
            let has =
                (account.charged() as usize).saturating_add(self.regions.idle_count_of(other));
            (account.comes_to() as usize).saturating_sub(has)
        };
        let others = self.accounts.iter().filter(|&(&other, _)| other != job);
        let needed = others.map(comes_to_need).fold(0, usize::saturating_add);
        self.regions.absent_count().saturating_sub(needed)
    }

    /// Gives the missing pages regions that have no memory yet, no more than so many: those are all
    /// the same.
    fn choose_absent(
        &self,
        most: usize,
        missing: &mut Vec<Missing>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) {
        let mut absent = self.regions.absent();
        let mut taken = 0;
        for &(page, _) in missing.iter().take(most) {
            let Some(region) = absent.find(|&region| !chosen.has(region)) else { break };
            chosen.add(backings, Backing::anew(page, region, Origin::Nobody));
            taken += 1;
        }
        missing.drain(..taken);
    }
}
