//! Preemption: jobs that take turns on the device.
//!
//! A preemptible job may be taken to the host between its iterations. So what it keeps blocks
//! others only for a time: refused for good is only what does not fit beside what the jobs keep
//! that are not preemptible, and the largest of those that are, which has to be able to come back
//! ([`ticket`](super::ticket)).
//!
//! As things stand what it holds is there like that of any other job: no iteration is let start and
//! no memory is granted on the strength of its going. It is *called upon* where somebody waits for
//! room which is kept between iterations, and where its going, with that of others, makes that
//! room. One whose iteration runs starts no other. Whoever waits next or [looks](crate::Pool::poll)
//! takes it to the host; then there is room, and all is as if it had never been there. So the
//! banker's argument (I4) knows nothing of turns.
//!
//! **A turn** lasts for an iteration and a slice of the device's clock. It is over at once where a
//! job of a higher priority waits. One that has come back and runs no iteration has others'
//! patience.
//!
//! **Coming back** it needs room for all that it has and for an iteration. It does not come where
//! that would only stall a job that is at its iterations: that one first gets a slice after others
//! made way for it, or, if its priority is higher, goes on until it has been idle for a slice. Nor
//! does it take room for which somebody waits who has asked before it.
//!
//! After the time slices of Gandiva (Xiao et al., OSDI 2018, section 3.1).

use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use super::Ledger;
use super::account::Account;
use super::run::Phase;
use crate::types::JobKey;
use crate::types::error::NotSuspended;
use crate::types::units::Ticks;

/// One that may give way.
#[derive(Clone, Copy)]
struct Candidate {
    job: JobKey,
    /// The room that it leaves, in regions.
    leaves: u32,
    /// When its turn is over, for the one that waits.
    due: Ticks,
    priority: i32,
    since: Ticks,
}

impl Ledger {
    /// The jobs that are to be taken to the host now.
    pub(crate) fn called(&self) -> Vec<JobKey> {
        if !self.has_turns && !self.has_interruptible {
            return Vec::new();
        }
        let goes = |(_, account): &(&JobKey, &Account)| self.is_to_go(account);
        self.accounts.iter().filter(goes).map(|(&job, _)| job).collect()
    }

    /// Whether a job is one of them.
    pub(crate) fn is_called(&self, job: JobKey) -> bool {
        self.accounts.get(&job).is_some_and(|account| self.is_to_go(account))
    }

    fn is_to_go(&self, account: &Account) -> bool {
        account.goes_now(self.now) || account.is_to_be_interrupted()
    }

    /// A job could not be taken to the host: it is not called upon again for a while.
    pub(crate) fn spare(&mut self, job: JobKey, now: Ticks) {
        let until = now.saturating_add(self.patience);
        if let Some(account) = self.accounts.get_mut(&job) {
            account.is_spared();
            account.turn.iter_mut().for_each(|turn| turn.spared = until);
        }
        self.now = now;
        self.notify();
        self.admit();
    }

    /// A preemptible job is to go to the host as soon as no iteration of it runs, and not to come
    /// back; or no longer.
    pub(crate) fn hold(&mut self, job: JobKey, held: bool) -> Result<(), NotSuspended> {
        let account = self.accounts.get(&job).filter(|account| !account.gone);
        let account = account.ok_or(NotSuspended::Left)?;
        if !account.is_preemptible() {
            return Err(NotSuspended::NotPreemptible);
        }
        if held && account.away.is_empty() {
            self.check_ticket(job, account)?;
        }
        if let Some(turn) = self.accounts.get_mut(&job).and_then(|account| account.turn.as_mut()) {
            turn.held = held;
        }
        self.notify();
        self.admit();
        Ok(())
    }

    /// Those that are to stay there.
    pub(crate) fn held_jobs(&self) -> impl Iterator<Item = JobKey> + '_ {
        let held = |(_, account): &(&JobKey, &Account)| !account.gone && account.is_held();
        self.accounts.iter().filter(held).map(|(&job, _)| job)
    }

    /// The device's clock when the books were changed last.
    pub(crate) const fn now(&self) -> Ticks {
        self.now
    }

    /// How long others wait for a job that does nothing.
    pub(crate) const fn patience(&self) -> Ticks {
        self.patience
    }

    /// When the next turn is over that somebody waits for.
    pub(crate) const fn turns_at(&self) -> Option<Ticks> {
        self.turns_at
    }

    /// Whether a job is about to give way, or will be in time, if no iteration ends.
    pub(super) fn has_turns_to_come(&self) -> bool {
        let goes = |account: &Account| {
            let in_time = self.turns_at.is_some() && account.can_give_way(self.now);
            account.goes_now(self.now) || in_time && !account.is_running()
        };
        self.has_turns && self.accounts.values().any(goes)
    }

    /// Calls upon jobs to give way, for each that waits in the order of their priorities, and takes
    /// back what has been said before. O(waiting jobs log jobs).
    pub(super) fn call_turns(&mut self) {
        if !self.has_turns {
            return;
        }
        self.turns_at = None;
        let now = self.now;
        let turns = self.accounts.iter_mut().filter_map(|(&job, account)| {
            let went = account.goes_now(now);
            account.turn.as_mut()?.called = false;
            went.then_some(job)
        });
        let before: Vec<JobKey> = turns.collect();
        let stalled = self.accounts.iter().filter(|(_, account)| account.awaited().is_some());
        let mut waiting: Vec<JobKey> = stalled.map(|(&job, _)| job).collect();
        let first = waiting.len();
        waiting.extend(&self.waiting);
        waiting[first..].sort_by_key(|job| {
            Reverse(self.accounts.get(job).map(|account| account.terms.priority))
        });
        for job in waiting {
            self.make_room_for(job);
        }
        let is_new = |(job, account): (&JobKey, &Account)| {
            account.goes_now(now) && before.binary_search(job).is_err()
        };
        self.wake |= self.accounts.iter().any(is_new);
    }

    /// Calls upon as many as have to go for one that waits, if they are enough and their turns are
    /// over.
    fn make_room_for(&mut self, job: JobKey) {
        let Some(own) = self.accounts.get(&job).filter(|account| !account.is_called()) else {
            return;
        };
        if let Some(until) = self.held_off(job) {
            self.look_at(until);
            return;
        }
        let short = self.short_of(job, self.room_for(job, own));
        let mut candidates = self.candidates(job, own);
        let all = candidates.iter().map(|one| one.leaves).fold(0, u32::saturating_add);
        if short == 0 || all < short {
            return;
        }
        if let Some(own) = self.accounts.get_mut(&job) {
            own.awaits_turns();
        }
        let due = candidates.partition_point(|one| one.due <= self.now);
        let leave = candidates[..due].iter().map(|one| one.leaves).fold(0, u32::saturating_add);
        if leave < short {
            self.look_at(candidates[due].due);
            return;
        }
        candidates.truncate(due);
        candidates.sort_unstable_by_key(|one| (one.priority, one.since, one.job));
        self.call_some(&candidates, short);
    }

    /// Calls upon the first that make so much room, but for those that are not needed for it.
    fn call_some(&mut self, candidates: &[Candidate], short: u32) {
        let mut made = 0u32;
        let mut chosen: Vec<Candidate> = Vec::new();
        for one in candidates {
            if made >= short {
                break;
            }
            made = made.saturating_add(one.leaves);
            chosen.push(*one);
        }
        for one in chosen {
            if made - one.leaves >= short {
                made -= one.leaves;
                continue;
            }
            let account = self.accounts.get_mut(&one.job);
            if let Some(turn) = account.and_then(|account| account.turn.as_mut()) {
                turn.called = true;
            }
        }
    }

    /// Those who wait are to be looked at again then.
    fn look_at(&mut self, at: Ticks) {
        let soonest = self.turns_at.map_or(at, |other| other.min(at));
        self.turns_at = Some(soonest).filter(|&at| at < Ticks::MAX);
    }

    /// The room that a job waits for, with what it holds, in regions.
    fn room_for(&self, job: JobKey, own: &Account) -> u32 {
        match own.awaited() {
            Some(asked) => own.holds().saturating_add(asked),
            None if own.away.is_absent() => self.room_to_return(job, own),
            None => self.room_to_start(job, own),
        }
    }

    /// How much too large that is beside what the others keep when their iterations have ended,
    /// those left out that are about to go.
    fn short_of(&self, job: JobKey, room: u32) -> u32 {
        let stays = |(&key, other): (&JobKey, &Account)| {
            let goes = key == job || other.is_called() || other.away.is_going_out();
            if goes { other.terms.floor * u32::from(key != job) } else { other.has_at_rest() }
        };
        let others = self.accounts.iter().map(stays).fold(0, u32::saturating_add);
        room.saturating_add(others).saturating_sub(self.target)
    }

    /// Those that may give way to a job, in the order in which their turns are over.
    fn candidates(&self, job: JobKey, own: &Account) -> Vec<Candidate> {
        let candidate = |(&key, other): (&JobKey, &Account)| {
            let may = key != job && !other.is_called() && other.can_give_way(self.now);
            if !may || !self.can_have_ticket(key, other) {
                return None;
            }
            let due = self.turn_over(key, other, job, own)?;
            let leaves = other.has_at_rest().saturating_sub(other.terms.floor);
            let (priority, since) = (other.terms.priority, other.turn?.since);
            Some(Candidate { job: key, leaves, due, priority, since })
        };
        let mut candidates: Vec<_> = self.accounts.iter().filter_map(candidate).collect();
        candidates.sort_unstable_by_key(|one| one.due);
        candidates
    }

    /// When a job's turn is over for another one that waits, if ever.
    fn turn_over(
        &self,
        job: JobKey,
        account: &Account,
        by: JobKey,
        waiting: &Account,
    ) -> Option<Ticks> {
        let turn = account.turn?;
        let patient = turn.slice.max(self.patience);
        // Two that cannot go on beside each other and have not run since they came: the one that
        // came first goes on.
        let is_behind = account.has_come_in_vain()
            && waiting.has_come_in_vain()
            && waiting.turn.is_some_and(|first| (first.since, by) < (turn.since, job));
        let is_idle = matches!(account.phase, Phase::Idle) && account.awaited().is_none();
        let (rank, own) = (waiting.terms.priority, account.terms.priority);
        // An iteration that runs has to end, whoever waits to start one.
        let rank = if waiting.is_running() { rank.max(own) } else { rank };
        match rank.cmp(&own) {
            Ordering::Greater => Some(Ticks::ZERO),
            Ordering::Equal if is_behind => Some(Ticks::ZERO),
            // It may not be able to run before the other one has ended.
            Ordering::Equal if turn.has_run || waiting.is_running() => {
                Some(turn.since.saturating_add(turn.slice))
            }
            Ordering::Equal => Some(turn.since.saturating_add(patient)),
            Ordering::Less => {
                let since = account.ended().unwrap_or_default().max(turn.since);
                is_idle.then(|| since.saturating_add(patient))
            }
        }
    }

    /// Until when a preemptible job on the host does not come back, if it is not to come now:
    /// beside what it has another job could not go on.
    pub(super) fn held_off(&self, job: JobKey) -> Option<Ticks> {
        let own = self.accounts.get(&job).filter(|account| account.away.is_absent())?;
        let all = own.away.regions().saturating_add(own.leased_total()).max(own.terms.floor);
        let others = || self.accounts.iter().filter(|&(&key, _)| key != job);
        // Nobody is put before one that has been passed over too often.
        if own.is_held() || !own.bypassed.is_overdue() && self.is_behind(job, own, all) {
            return Some(Ticks::MAX);
        }
        let comes = |other: &Account| other.away.is_empty() || other.away.is_coming_back();
        let here = others().filter(|(_, other)| !other.gone && !other.is_called() && comes(other));
        let until = here.filter_map(|(&key, other)| {
            let beside = others().filter(|&(&third, _)| third != key);
            let kept = beside.map(|(_, third)| third.has_at_rest()).fold(0, u32::saturating_add);
            let fits = |most: u32| most.saturating_add(kept).saturating_add(all) <= self.target;
            let asks = other.holds().saturating_add(other.awaited().unwrap_or(0));
            // One that has outgrown its peak asks for more than that.
            let peak = other.largest().unwrap_or(0).max(asks);
            let waits = self.first_served((key, other), (job, own)).filter(|_| !fits(asks));
            waits.max(self.lets_run(other, own).filter(|_| !fits(peak)))
        });
        until.max().filter(|&until| until > self.now)
    }

    /// Whether a job on the host, with all that it has, would take the room for which one waits that
    /// has asked before it, and gets it in turn.
    fn is_behind(&self, job: JobKey, own: &Account, all: u32) -> bool {
        let rank = |account: &Account| account.terms.priority;
        let at = self.waiting.iter().position(|&waiting| waiting == job);
        let mut waiting = self.waiting.iter().enumerate().filter_map(|(place, &other)| {
            let account = self.accounts.get(&other)?;
            if account.is_called() || account.is_held() {
                return None;
            }
            let is_earlier = at.is_none_or(|at| place < at);
            let is_first = (rank(account), is_earlier) > (rank(own), false);
            (other != job && is_first).then_some((other, account))
        });
        waiting.any(|(other, account)| {
            let room = self.room_for(other, account);
            let takes_its_room = self.short_of(other, room.saturating_add(all)) > 0;
            let candidates = self.candidates(other, account);
            let leave = candidates.iter().map(|one| one.leaves).fold(0, u32::saturating_add);
            takes_its_room && leave >= self.short_of(other, room)
        })
    }

    /// Until when a job that waits for memory is served before one on the host, if it is.
    fn first_served(
        &self,
        (waiting, other): (JobKey, &Account),
        (job, own): (JobKey, &Account),
    ) -> Option<Ticks> {
        let (turn, since) = (own.turn?, other.stall.filter(|_| other.awaited().is_some())?.since);
        let is_earlier = || since <= turn.since || waiting < job;
        let is_first = match other.terms.priority.cmp(&own.terms.priority) {
            // What it may need is kept for it otherwise.
            _ if other.is_running() => false,
            Ordering::Greater => true,
            Ordering::Equal => is_earlier(),
            Ordering::Less => false,
        };
        // It may have asked and gone away.
        is_first.then(|| turn.since.saturating_add(turn.slice.max(self.patience)))
    }

    /// Until when a job that is at its iterations, or comes back for them, goes on with them before
    /// one comes back, if it does.
    fn lets_run(&self, other: &Account, own: &Account) -> Option<Ticks> {
        if other.away.is_coming_back() {
            return Some(Ticks::MAX).filter(|_| other.terms.priority >= own.terms.priority);
        }
        let turn = own.turn.filter(|turn| other.is_active(self.now, turn.slice))?;
        if other.terms.priority <= own.terms.priority {
            let slice = other.turn.map_or(turn.slice, |turn| turn.slice);
            return Some(turn.since.max(other.given()).saturating_add(slice));
        }
        let since = other.idle_since().filter(|_| matches!(other.phase, Phase::Idle));
        Some(since.map_or(Ticks::MAX, |since| since.saturating_add(turn.slice)))
    }

    /// Whether what a job needs could be had if others gave way, now or later.
    pub(super) fn gets_a_turn(&self, job: JobKey, room: u32) -> bool {
        let Some(own) = self.accounts.get(&job).filter(|_| self.has_turns) else { return false };
        let candidates = self.candidates(job, own);
        let all = candidates.iter().map(|one| one.leaves).fold(0, u32::saturating_add);
        let makes_room = |other: &Account| {
            other.is_called() && other.can_give_way(self.now) || other.away.is_moving()
        };
        let called = self.accounts.values().any(makes_room);
        called || all >= self.short_of(job, room)
    }
}
