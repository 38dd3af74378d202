//! Which regions back the pages of a lease.
//!
//! A page that gets the region that is mapped there needs no device call. For the others the choice
//! is made so that it will not have to be made again: pages that are never in use at the same time
//! can share a region ([`Usage`](crate::space::Usage) tells), which is colouring an interval graph
//! greedily; and a region that other jobs use for less of their time is less likely to be taken when
//! it is needed. When the budget has room for all, each job settles on regions of its own and no page
//! is ever mapped anew.

use alloc::vec::Vec;

use crate::device::Device;
use crate::ledger::Ledger;
use crate::pool::HandOver;
use crate::region::{JobKey, Place, State};
use crate::sync::Arc;
use crate::want::Want;

/// Beside as many as there are pages, the most free regions that are looked at for the best. More than a
/// budget is divided into unless it is told to be.
const LOOKED_AT: usize = 4096;

/// So many sorts of pages, by when they are in use, are looked at apart.
const MOST_SORTS: usize = 64;

/// One page of a grant.
#[derive(Clone, Copy)]
pub(crate) struct Backing {
    pub(crate) page: u64,
    pub(crate) region: usize,
    /// Whether the region is mapped there already.
    pub(crate) mapped: bool,
    pub(crate) from: From,
}

/// Whose a region was that is leased.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Nobody,
    /// The job itself had given it up, and the device has yet to pass that.
    Own,
    /// Another job has, in this batch: the new owner's stream has to wait for its fence.
    Other {
        job: JobKey,
        batch: u64,
    },
}

/// What the device has to do before the regions of a lease can be used.
pub(crate) struct Grant<E> {
    /// All of them; none if it has nothing to do.
    pub(crate) backings: Vec<Backing>,
    /// The events that the job's stream has to wait for first.
    pub(crate) after: Vec<Arc<E>>,
    /// The pages whose mappings may be changed for it.
    pub(crate) claimed: Vec<Place>,
    /// The job had been denied memory before.
    pub(crate) relief: bool,
}

/// A free region, the better the lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// For how long the job would need it at two pages at once, in 64ths of its iterations.
    clash: u32,
    /// For how much of their time other jobs use it, in the same measure.
    others: u32,
    /// Whether its memory has yet to be created.
    absent: bool,
    region: usize,
}

/// The regions that a lease has chosen so far: a bit for each.
#[derive(Default)]
pub(crate) struct Chosen(Vec<u64>);

impl Chosen {
    fn has(&self, region: usize) -> bool {
        self.0.get(region / 64).is_some_and(|word| word >> (region % 64) & 1 != 0)
    }

    fn add(&mut self, backings: &mut Vec<Backing>, backing: Backing) {
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

impl<D: Device> Ledger<D> {
    /// Chooses a region for each page. Whether there are enough that can be had without
    /// waiting on the host. O(pages) where all are mapped, else O((pages + 4096) log pages) for each
    /// of at most 64 sorts of pages that are in use at different times.
    pub(crate) fn choose(&mut self, job: JobKey, want: &Want, backings: &mut Vec<Backing>) -> bool {
        let mut chosen = core::mem::take(&mut self.chosen);
        backings.clear();
        let found = self.choose_all(job, want, backings, &mut chosen);
        chosen.clear(backings);
        self.chosen = chosen;
        found
    }

    fn choose_all(
        &self,
        job: JobKey,
        want: &Want,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) -> bool {
        let Some(account) = self.accounts.get(&job) else { return false };
        let space = &account.spaces[want.zone.index()];
        let mut missing: Vec<(u64, u64)> = Vec::new();
        for &number in &want.pages {
            let page = space.page(number);
            if page.claimed {
                return false;
            }
            // Two pages of one arena may have had the same region: only one can have it now.
            let state = page.region.filter(|&region| !chosen.has(region));
            let backing = |region, from| Backing { page: number, region, mapped: true, from };
            match state.map(|region| (region, self.regions[region].state)) {
                Some((region, State::Free)) => chosen.add(backings, backing(region, From::Nobody)),
                Some((region, State::Draining { job: owner, .. })) if owner == job => {
                    chosen.add(backings, backing(region, From::Own));
                }
                // Its mapping would have to go, and work may still use that.
                _ if page.region.is_some() && page.last > account.passed => return false,
                _ => missing.push((number, page.usage.parts())),
            }
        }
        if !missing.is_empty() {
            self.choose_free(job, &mut missing, backings, chosen);
            self.choose_draining(job, &mut missing, backings, chosen);
        }
        missing.is_empty()
    }

    /// Gives the missing pages the free regions that suit them best, as far as there are any. Pages
    /// that are in use in the same parts of an iteration are looked at together; where there are very many
    /// sorts of them, the last as one. Of very many free regions not all are looked at.
    fn choose_free(
        &self,
        job: JobKey,
        missing: &mut Vec<(u64, u64)>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) {
        missing.sort_unstable_by_key(|&(page, parts)| (parts, page));
        let (mut left, mut rest, mut sorts) = (Vec::new(), &missing[..], 0);
        while !rest.is_empty() {
            sorts += 1;
            let parts = rest[0].1;
            let alike = rest.partition_point(|&(_, other)| other == parts);
            let alike = if sorts < MOST_SORTS { alike } else { rest.len() };
            let (pages, others) = rest.split_at(alike);
            let got = self.best_free(job, pages, backings, chosen);
            left.extend_from_slice(&pages[got..]);
            rest = others;
        }
        *missing = left;
    }

    /// Gives pages that are in use at the same time the best regions there are, and says how many.
    fn best_free(
        &self,
        job: JobKey,
        pages: &[(u64, u64)],
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) -> usize {
        let hands_over = self.policy.hands_over();
        let parts = pages.iter().fold(0, |all, (_, parts)| all | parts);
        let candidate = |region: usize| {
            let entry = &self.regions[region];
            let may = (hands_over || entry.is_only_of(job)) && self.can_leave(entry);
            (may && !chosen.has(region)).then(|| {
                let (own, others) = entry.usage(job);
                let clash = (own & parts).count_ones();
                Candidate { clash, others, absent: entry.memory.is_none(), region }
            })
        };
        let idle = self.regions.idle(0).filter_map(candidate);
        // What has no memory yet is all the same.
        let absent = self.regions.absent().filter_map(candidate).take(pages.len());
        let idle = idle.take(pages.len().saturating_add(LOOKED_AT));
        let mut best: Vec<Candidate> = idle.chain(absent).collect();
        if pages.len() < best.len() {
            best.select_nth_unstable(pages.len());
        }
        let got = pages.len().min(best.len());
        best[..got].sort_unstable();
        for (&(page, _), candidate) in pages.iter().zip(&best) {
            let region = candidate.region;
            chosen.add(backings, Backing { page, region, mapped: false, from: From::Nobody });
        }
        got
    }

    /// Gives the missing pages regions that the device has yet to pass: those that the job itself
    /// has given up, at whatever page, since its work runs in order; and those of other jobs whose
    /// fences have been recorded, if streams may wait for each other. The oldest first.
    fn choose_draining(
        &self,
        job: JobKey,
        missing: &mut Vec<(u64, u64)>,
        backings: &mut Vec<Backing>,
        chosen: &mut Chosen,
    ) {
        // A region that may be mapped only once would have to leave a page that work still uses.
        if missing.is_empty() || !self.rules.aliases {
            return;
        }
        let ordered = self.rules.hand_over == HandOver::Ordered && self.policy.hands_over();
        let owners = self.accounts.iter().filter(|&(&owner, _)| ordered || owner == job);
        let mut draining: Vec<_> = owners
            .flat_map(|(&owner, account)| {
                let fenced = account.fences.iter().map(|fence| &fence.regions[..]);
                // What is not fenced yet only the job itself can have.
                let open = Some(&account.pending[..]).filter(|_| owner == job);
                let lists = fenced.chain(open);
                let regions = lists.flat_map(move |list| self.regions.draining(owner, list));
                regions.map(move |(batch, region)| (owner != job, batch, region, owner))
            })
            .filter(|&(other, batch, region, owner)| {
                !chosen.has(region) && (!other || self.fence_of(owner, batch).is_some())
            })
            .collect();
        draining.sort_unstable();
        draining.dedup();
        let mut draining = draining.into_iter();
        missing.retain(|&(page, _)| match draining.next() {
            Some((other, batch, region, owner)) => {
                let from = if other { From::Other { job: owner, batch } } else { From::Own };
                chosen.add(backings, Backing { page, region, mapped: false, from });
                false
            }
            None => true,
        });
    }

    /// The event by which the device has passed a batch of a job, if it has been recorded.
    fn fence_of(&self, job: JobKey, batch: u64) -> Option<(u64, &Arc<D::Event>)> {
        let fences = &self.accounts.get(&job)?.fences;
        let fence = fences.iter().find(|fence| fence.batch >= batch)?;
        Some((fence.batch, &fence.event))
    }

    /// The events that have to pass before the backings may be used: of each other job the latest
    /// that is needed, which comes after all its earlier ones.
    pub(crate) fn dependencies(&self, backings: &[Backing]) -> Vec<Arc<D::Event>> {
        let mut latest: Vec<(JobKey, u64)> = Vec::new();
        for backing in backings {
            let From::Other { job, batch } = backing.from else { continue };
            match latest.iter_mut().find(|(owner, _)| *owner == job) {
                Some((_, last)) => *last = batch.max(*last),
                None => latest.push((job, batch)),
            }
        }
        if latest.is_empty() {
            return Vec::new();
        }
        let event = |(job, batch)| Some(self.fence_of(job, batch)?.1.clone());
        latest.into_iter().filter_map(event).collect()
    }
}
