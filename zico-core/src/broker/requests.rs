//! What each request does to the books. All of it is input from outside, and checked as such.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;

use super::clients::{Client, State};
use super::leases::refusal;
use super::message::{Outline, Refusal, Reply, Request, Seen};
use super::{Broker, Seat, Store, Violation};
use crate::learn::kinds::Kind;
use crate::learn::predictor::Peak;
use crate::learn::signature::{Mark, Signature};
use crate::ledger::Ledger;
use crate::ledger::account::Account;
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
            Request::Hold { job, held } => Reply::Suspended(self.hold(job, held)),
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
        // Others may keep what is to be reserved, and have yet to tell.
        if self.is_recovering && !config.floor.is_zero() {
            return Ok(Reply::FloorNotFree { floor: config.floor, budget: self.budget() });
        }
        let key = self.ledger.new_key();
        self.join_as(client, config, key, Ledger::join)
    }

    pub(super) fn join_as(
        &mut self,
        client: Client,
        config: JobConfig,
        key: JobKey,
        let_in: impl FnOnce(&mut Ledger, JobKey, Account) -> bool,
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
        if !let_in(&mut self.ledger, key, account) {
            return Ok(refused);
        }
        let fences = VecDeque::new();
        let seat = Seat {
            client,
            order: None,
            fences,
            last: 0,
            is_offering: false,
            is_unmapped: false,
            called: None,
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
            Request::End { seen, is_followed } => {
                Reply::Ended(ledger.end(job, now, signature(seen), is_followed))
            }
            Request::Replan { shape: told, seen, regions: pages, within, starts } => {
                let kind = Kind { told, signature: signature(seen) };
                Reply::Whether(ledger.replan(job, &Peak { kind, pages, within, starts }))
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
            Request::SetPace(pace) => Reply::Whether(ledger.set_pace(job, pace, now)),
            Request::Suspend => Reply::Suspended(self.suspend(job)?),
            Request::Return => Reply::Whether(self.ask_to_return(job)),
            Request::LeaseBack(lifetime, pages) => {
                self.lease_back(client, job, (lifetime, pages), now)?
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
            Request::Gone if ledger.is_going_out(job) => ledger.gone(job, now),
            Request::Gone => {}
            Request::Send(lifetime, pages) => self.send(job, lifetime, pages, now)?,
            Request::Back => ledger.is_back(job, now),
            Request::Spare => ledger.spare(job, now),
            Request::Away { regions, goes } => self.adopt_away(job, &regions, goes)?,
            Request::Leave => {
                self.check_settled(job)?;
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

    fn give_back(&mut self, job: JobKey, lifetime: Lifetime, pages: &[u64], now: Ticks) {
        let zone = Zone::from(lifetime);
        self.ledger.give_back(job, zone, pages.iter().copied());
        // The client counts by itself when it is time for a fence.
        self.ledger.note_given(job, zone, now);
    }
}

const fn signature(seen: Seen) -> Signature {
    Signature::of(seen.allocations, seen.hash)
}
