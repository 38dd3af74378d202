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
use crate::lease::Want;
use crate::ledger::Ledger;
use crate::pool::HandOver;
use crate::region::{JobKey, Place, Region, State};
use crate::sync::Arc;

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

impl<D: Device> Ledger<D> {
    /// Chooses a region for each page. Whether there are enough that can be had without
    /// waiting on the host. O(pages) where all are mapped, else O(regions + pages log pages).
    pub(crate) fn choose(&self, job: JobKey, want: &Want, backings: &mut Vec<Backing>) -> bool {
        let Some(account) = self.accounts.get(&job) else { return false };
        let space = &account.spaces[want.zone.index()];
        backings.clear();
        let mut missing: Vec<(u64, u64)> = Vec::new();
        for &number in &want.pages {
            let page = space.page(number);
            if page.claimed {
                return false;
            }
            // Two pages of one arena may have had the same region: only one can have it now.
            let taken = |region: &usize| backings.iter().any(|backing| backing.region == *region);
            let state = page.region.filter(|region| !taken(region));
            let backing = |region, from| Backing { page: number, region, mapped: true, from };
            match state.map(|region| (region, self.regions[region].state)) {
                Some((region, State::Free)) => backings.push(backing(region, From::Nobody)),
                Some((region, State::Draining { job: owner, .. })) if owner == job => {
                    backings.push(backing(region, From::Own));
                }
                // Its mapping would have to go, and work may still use that.
                _ if page.region.is_some() && page.last > account.passed => return false,
                _ => missing.push((number, page.usage.parts())),
            }
        }
        if !missing.is_empty() {
            self.choose_free(job, &mut missing, backings);
            self.choose_draining(job, &mut missing, backings);
        }
        missing.is_empty()
    }

    /// Gives the missing pages the free regions that suit them best, as far as there are any. Pages
    /// that are in use in the same parts of an iteration are looked at together.
    fn choose_free(&self, job: JobKey, missing: &mut Vec<(u64, u64)>, backings: &mut Vec<Backing>) {
        let hands_over = self.policy.hands_over();
        missing.sort_unstable_by_key(|&(page, parts)| (parts, page));
        let mut left = Vec::new();
        for alike in missing.chunk_by(|one, other| one.1 == other.1) {
            let mut taken: Vec<usize> = backings.iter().map(|backing| backing.region).collect();
            taken.sort_unstable();
            let candidate = |(region, entry): (usize, &Region<D::Memory>)| {
                let free = entry.state == State::Free
                    && (hands_over || entry.is_only_of(job))
                    && taken.binary_search(&region).is_err()
                    && self.can_leave(entry);
                free.then(|| {
                    let (own, others) = entry.usage(job);
                    let clash = (own & alike[0].1).count_ones();
                    Candidate { clash, others, absent: entry.memory.is_none(), region }
                })
            };
            let mut best: Vec<Candidate> =
                self.regions.iter().enumerate().filter_map(candidate).collect();
            if alike.len() < best.len() {
                best.select_nth_unstable(alike.len());
            }
            let got = alike.len().min(best.len());
            best[..got].sort_unstable();
            backings.extend(alike.iter().zip(&best).map(|(&(page, _), candidate)| {
                let region = candidate.region;
                Backing { page, region, mapped: false, from: From::Nobody }
            }));
            left.extend_from_slice(&alike[got..]);
        }
        *missing = left;
    }

    /// Gives the missing pages regions that the device has yet to pass: those that the job itself
    /// has given up, at whatever page, since its work runs in order; and those of other jobs whose
    /// fences have been recorded, if streams may wait for each other. The oldest first.
    fn choose_draining(
        &self,
        job: JobKey,
        missing: &mut Vec<(u64, u64)>,
        backings: &mut Vec<Backing>,
    ) {
        // A region that may be mapped only once would have to leave a page that work still uses.
        if missing.is_empty() || !self.rules.aliases {
            return;
        }
        let ordered = self.rules.hand_over == HandOver::Ordered && self.policy.hands_over();
        let usable = |(region, entry): (usize, &Region<D::Memory>)| {
            let State::Draining { job: owner, batch } = entry.state else { return None };
            let taken = backings.iter().any(|backing| backing.region == region);
            let from = if owner == job {
                From::Own
            } else if ordered && self.fence_of(owner, batch).is_some() {
                From::Other { job: owner, batch }
            } else {
                return None;
            };
            (!taken).then_some((owner != job, batch, region, from))
        };
        let mut draining: Vec<_> = self.regions.iter().enumerate().filter_map(usable).collect();
        draining.sort_unstable_by_key(|&(other, batch, region, _)| (other, batch, region));
        let mut draining = draining.into_iter();
        missing.retain(|&(page, _)| match draining.next() {
            Some((.., region, from)) => {
                backings.push(Backing { page, region, mapped: false, from });
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
