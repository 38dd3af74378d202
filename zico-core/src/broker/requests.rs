//! What each request does to the books. All of it is input from outside, and checked as such.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use super::clients::{Client, State};
use super::message::{Lease, Order, Outline, Refusal, Reply, Request, Seen};
use super::revoke::number;
use super::{Broker, Seat, Store};
use crate::learn::kinds::Kind;
use crate::learn::predictor::Peak;
use crate::learn::signature::{Mark, Signature};
use crate::ledger::account::Account;
use crate::ledger::{Denied, Done, Place, WorkOrder};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::config::{JobConfig, Terms};
use crate::types::error::JoinError;
use crate::types::lifetime::Lifetime;
use crate::types::pulse::Pulse;
use crate::types::report::Begin;
use crate::types::sync::Arc;
use crate::types::tuning::{LONGEST_JOB_NAME, MOST_JOBS, MOST_JOBS_OF_A_CLIENT};
use crate::types::units::Ticks;
use crate::types::want::Demand;
use crate::types::zone::Zone;

/// An iteration has a mark after 2^n allocations, and counts them in 32 bits.
const MARKS: u32 = 32;

/// A request that no correct client makes. It has changed nothing, and the client is to be
/// [cut off](Broker::cut_off).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// It names no job of the client, or none where it has to, or one where it may not.
    NoSuchJob,
    /// A lease before the last one has been settled.
    Unsettled,
    /// A lease has come further than it could.
    NothingToSettle,
    /// A page beyond the arena, or asked for twice, or leased already; or none.
    BadPage,
    /// A fence whose number no client has.
    BadBatch,
    /// A mark that no iteration has.
    BadMark,
    /// A name that is longer than names may be.
    BadName,
    /// It comes from a client that is not there, or has been cut off.
    CutOff,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchJob => "a request for a job that the client does not have",
            Self::Unsettled => "a lease before the last one has been settled",
            Self::NothingToSettle => "a settlement of more than was ordered",
            Self::BadPage => "a lease of pages that cannot be leased",
            Self::BadBatch => "a fence whose number no client has",
            Self::BadMark => "a mark that no iteration has",
            Self::BadName => "a name that is too long",
            Self::CutOff => "a request of a client that has been cut off",
        })
    }
}

impl core::error::Error for Violation {}

impl<S: Store> Broker<S> {
    /// Handles one request of a client, about one of its jobs unless it is of the pool. The reply,
    /// if the request [asks](Request::asks) for one.
    ///
    /// # Errors
    /// If no correct client makes this request.
    pub fn handle(
        &mut self,
        client: Client,
        job: Option<JobId>,
        request: Request,
        now: Ticks,
    ) -> Result<Option<Reply>, Violation> {
        if !self.clients.get(&client).is_some_and(State::is_heard) {
            return Err(Violation::CutOff);
        }
        let reply = match job {
            None => self.of_the_pool(client, request)?,
            Some(JobId(job)) => {
                if self.seats.get(&job).is_none_or(|seat| seat.client != client) {
                    // What a client tells of a job that is no more may have been on its way.
                    return if request.asks() { Err(Violation::NoSuchJob) } else { Ok(None) };
                }
                self.of_a_job(client, job, request, now)?
            }
        };
        self.pump();
        Ok(reply)
    }

    fn of_the_pool(
        &mut self,
        client: Client,
        request: Request,
    ) -> Result<Option<Reply>, Violation> {
        Ok(Some(match request {
            Request::Join(config) => self.join(client, config)?,
            Request::Rejoin(job, config) => self.rejoin(client, job, config)?,
            Request::Pool => Reply::Pool(self.ledger.snapshot()),
            Request::Waits => Reply::Waits(self.ledger.waits()),
            Request::Budget => Reply::Budget(self.ledger.budget_status()),
            Request::SetBudget(budget) => match self.set_budget(budget) {
                Ok(status) => Reply::Budget(status),
                Err(error) => Reply::NoBudget(error),
            },
            Request::Released(region) => {
                self.released(client, region);
                return Ok(None);
            }
            _ => return Err(Violation::NoSuchJob),
        }))
    }

    fn join(&mut self, client: Client, config: JobConfig) -> Result<Reply, Violation> {
        let own = self.seats.values().filter(|seat| seat.client == client).count();
        for (jobs, most) in [(own, MOST_JOBS_OF_A_CLIENT), (self.seats.len(), MOST_JOBS)] {
            if jobs >= most as usize {
                return Ok(Reply::TooManyJobs(most));
            }
        }
        let key = self.ledger.new_key();
        self.join_as(client, config, key)
    }

    pub(super) fn join_as(
        &mut self,
        client: Client,
        config: JobConfig,
        key: JobKey,
    ) -> Result<Reply, Violation> {
        if config.name.len() > LONGEST_JOB_NAME {
            return Err(Violation::BadName);
        }
        let refused = Reply::FloorNotFree { floor: config.floor, budget: self.budget() };
        let Ok::<_, JoinError<()>>(terms) = Terms::new(&config, self.region) else {
            return Ok(refused);
        };
        let name = if config.name.is_empty() { format!("job {key}") } else { config.name };
        let user = self.clients.get(&client).map_or(0, |state| state.user);
        let account = Account::new(name.into(), Arc::new(Pulse::new()), terms).of_user(user);
        if !self.ledger.join(key, account) {
            return Ok(refused);
        }
        let fences = VecDeque::new();
        let ahead = BTreeSet::new();
        let seat = Seat {
            client,
            order: None,
            ahead,
            fences,
            last: 0,
            is_offering: false,
            is_unmapped: false,
        };
        self.seats.insert(key, seat);
        Ok(Reply::Joined(JobId(key)))
    }

    fn of_a_job(
        &mut self,
        client: Client,
        job: JobKey,
        request: Request,
        now: Ticks,
    ) -> Result<Option<Reply>, Violation> {
        let ledger = &mut self.ledger;
        Ok(Some(match request {
            Request::Begin(_) if self.is_recovering => Reply::Begun(Ok(Begin::Wait(None)), None),
            Request::Begin(shape) => {
                let begun = ledger.begin(job, shape, now);
                Reply::Begun(begun, ledger.claim(job))
            }
            Request::Offer(offered) => Reply::Whether(self.offer(client, job, &offered)?),
            Request::End(seen) => Reply::Ended(ledger.end(job, now, signature(seen))),
            Request::Replan { shape: told, seen, regions, within } => {
                let kind = Kind { told, signature: signature(seen) };
                Reply::Whether(ledger.replan(job, &Peak { kind, pages: regions, within }))
            }
            Request::Lease(lease) => self.lease(client, job, lease, now)?,
            Request::Fits { asked, regions: pages } => {
                let demand = Demand { asked, pages, persists: false, told: false };
                match ledger.is_beyond_all(job, demand) {
                    Some(denied) => Reply::Refused(refusal(denied)),
                    None => Reply::Whether(true),
                }
            }
            Request::Shortage(asked) => Reply::Short(ledger.shortage(job, asked, 0)),
            Request::OutOfMemory(asked) => {
                Reply::Refused(Refusal::Never(ledger.out_of_memory(job, asked, 0, 0)))
            }
            Request::MayTurn => Reply::Whether(ledger.may_turn(job)),
            Request::Job => Reply::Job(ledger.job(job).map(Box::new)),
            Request::Profile => Reply::Profile(ledger.profile(job).map(|profile| Outline {
                steps: profile.steps().to_vec(),
                operations: profile.operations(),
                length: profile.length(),
            })),
            told => {
                self.told(job, told, now)?;
                return Ok(None);
            }
        }))
    }

    /// What a job tells without asking anything.
    fn told(&mut self, job: JobKey, request: Request, now: Ticks) -> Result<(), Violation> {
        let ledger = &mut self.ledger;
        match request {
            Request::Withdraw => ledger.withdraw(job),
            Request::Recognise { power, .. } if power >= MARKS => return Err(Violation::BadMark),
            Request::Recognise { power, hash } => ledger.recognise(job, Mark { power, hash }),
            Request::Lose => ledger.lose(job),
            Request::Reached => ledger.admit(),
            Request::Freed => ledger.notify(),
            Request::Settle { unmapped, mapped } => self.settle(job, unmapped, mapped, now)?,
            Request::GiveBack(lifetime, pages) => self.give_back(job, lifetime, &pages, now),
            Request::Fence(batch) => {
                let seat = self.seats.get_mut(&job).ok_or(Violation::NoSuchJob)?;
                // The highest is the broker's own, for the last fence of a client that is cut off.
                if batch == u64::MAX {
                    return Err(Violation::BadBatch);
                }
                // One from before a new broker was there is within a later one.
                if batch > seat.last {
                    seat.last = batch;
                    self.close(job, batch);
                }
            }
            Request::Completed(batch) => self.complete(job, batch, now),
            Request::Resume { runs, claim } => self.resume(job, runs, claim, now),
            Request::Leave => {
                if self.seats.get(&job).is_some_and(|seat| seat.order.is_some()) {
                    return Err(Violation::Unsettled);
                }
                self.leave(job, now);
            }
            Request::Departed => {
                if self.ledger.has(job) {
                    return Err(Violation::NoSuchJob);
                }
                if let Some(seat) = self.seats.get_mut(&job) {
                    seat.is_unmapped = true;
                }
            }
            _ => return Err(Violation::NoSuchJob),
        }
        Ok(())
    }

    fn lease(
        &mut self,
        client: Client,
        job: JobKey,
        lease: Lease,
        now: Ticks,
    ) -> Result<Reply, Violation> {
        if !self.ledger.has(job) {
            return Ok(Reply::Refused(Refusal::Left));
        }
        if self.seats.get(&job).is_some_and(|seat| seat.order.is_some()) {
            return Err(Violation::Unsettled);
        }
        let asks_for_any = !lease.pages.is_empty();
        let lease = self.without_ahead(job, lease);
        if asks_for_any && lease.pages.is_empty() {
            return Ok(Reply::Granted(Order::default()));
        }
        self.check_pages(job, &lease)?;
        let (want, last) = lease.want();
        if self.is_recovering {
            let (asked, pages) = (want.asked, want.pages.len() as u64);
            return Ok(Reply::Refused(Refusal::Busy(self.ledger.shortage(job, asked, pages))));
        }
        self.make_way(job, &want, last);
        let order = match self.ledger.lease(job, &want, last, now) {
            Ok(order) => order,
            Err(denied) => return Ok(Reply::Refused(refusal(denied))),
        };
        if let Err(why) = self.create(job, want.zone, &order, now) {
            return Ok(Reply::Refused(Refusal::Device(why)));
        }
        let last_page = want.pages.iter().copied().max().filter(|_| want.zone == Zone::Iteration);
        let for_client = Order {
            unmap: order.unmap.iter().map(|&(at, _)| (at.zone.lifetime(), at.page)).collect(),
            map: order.map.iter().map(|&(page, region)| (page, number(region))).collect(),
            ahead: last_page.map_or_else(Vec::new, |last| self.ledger.lease_ahead(job, last, now)),
        };
        if let Some(seat) = self.seats.get_mut(&job) {
            seat.ahead.extend(&for_client.ahead);
        }
        for &(_, region) in &for_client.map {
            self.imports.entry(region).or_default().insert(client);
        }
        if !order.is_empty()
            && let Some(seat) = self.seats.get_mut(&job)
        {
            seat.order = Some((want.zone, order));
        }
        Ok(Reply::Granted(for_client))
    }

    /// What a lease asks for without what has been leased ahead: another thread of the client has
    /// had that answer meanwhile.
    fn without_ahead(&mut self, job: JobKey, mut lease: Lease) -> Lease {
        if let Some(seat) = self.seats.get_mut(&job)
            && Zone::from(lease.lifetime) == Zone::Iteration
        {
            lease.pages.retain(|page| !seat.ahead.remove(page));
        }
        lease
    }

    /// Pages that are asked for are those of the arena, each once, and none that is leased.
    fn check_pages(&self, job: JobKey, lease: &Lease) -> Result<(), Violation> {
        let zone = Zone::from(lease.lifetime);
        let mut pages = lease.pages.clone();
        pages.sort_unstable();
        let twice = pages.windows(2).any(|pair| pair[0] == pair[1]);
        let beyond = pages.last().is_none_or(|&last| last >= self.pages);
        let leased = |&page: &u64| self.ledger.is_leased(Place { job, zone, page });
        if twice || beyond || pages.iter().any(leased) {
            return Err(Violation::BadPage);
        }
        Ok(())
    }

    /// Creates the memory that a lease needs. If the device refuses, the lease is taken back.
    fn create(
        &mut self,
        job: JobKey,
        zone: Zone,
        order: &WorkOrder,
        now: Ticks,
    ) -> Result<(), Arc<str>> {
        for (created, &region) in order.create.iter().enumerate() {
            if let Err(why) = self.store.create(number(region)) {
                let done = Done { created, ..Done::default() };
                self.ledger.settle(job, zone, order, &done, now);
                return Err(why);
            }
        }
        Ok(())
    }

    /// Whether a client may have a handle of a region's memory: one of its jobs has just leased it.
    #[must_use]
    pub fn may_fetch(&self, client: Client, region: u32) -> bool {
        let orders = self.seats.values().filter(|seat| seat.client == client);
        let mut maps =
            orders.filter_map(|seat| seat.order.as_ref()).flat_map(|(_, order)| &order.map);
        maps.any(|&(_, mapped)| number(mapped) == region)
    }

    fn settle(
        &mut self,
        job: JobKey,
        unmapped: u32,
        mapped: u32,
        now: Ticks,
    ) -> Result<(), Violation> {
        // One of the broker before this has been told of in another way.
        let Some(seat) = self.seats.get_mut(&job) else { return Ok(()) };
        let Some((zone, order)) = seat.order.take() else { return Ok(()) };
        let (unmapped, mapped) = (unmapped as usize, mapped as usize);
        let all = (order.unmap.len(), order.map.len());
        if unmapped > all.0 || mapped > all.1 || (mapped > 0 && unmapped < all.0) {
            seat.order = Some((zone, order));
            return Err(Violation::NothingToSettle);
        }
        let done = Done { unmapped, created: order.create.len(), mapped };
        self.ledger.settle(job, zone, &order, &done, now);
        Ok(())
    }

    fn give_back(&mut self, job: JobKey, lifetime: Lifetime, pages: &[u64], now: Ticks) {
        let zone = Zone::from(lifetime);
        if let Some(seat) = self.seats.get_mut(&job).filter(|_| zone == Zone::Iteration) {
            pages.iter().for_each(|page| {
                seat.ahead.remove(page);
            });
        }
        self.ledger.give_back(job, zone, pages.iter().copied());
        // The client counts by itself when it is time for a fence.
        self.ledger.note_given(job, zone, now);
    }
}

const fn signature(seen: Seen) -> Signature {
    Signature::of(seen.allocations, seen.hash)
}

fn refusal(denied: Denied) -> Refusal {
    match denied {
        Denied::Busy(shortage) => Refusal::Busy(shortage),
        Denied::Never(why) => Refusal::Never(why),
        Denied::BeyondCap(shortage, cap) => Refusal::BeyondCap(shortage, cap),
    }
}
