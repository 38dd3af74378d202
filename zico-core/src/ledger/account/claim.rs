//! What others cannot count on of a job, and what it may still take.
//!
//! Only the job itself can free what it holds between iterations. So that counts as not available:
//! to the claims of others, to a start, in the banker's test. What a running
//! iteration holds comes back at its end, but for what it has begun with and what those before it
//! have left.

use super::super::banker::Claim;
use super::super::run::Phase;
use super::Account;
use crate::types::JobKey;
use crate::types::want::Growth;

/// How much a job is to blame. Where nothing can go on, the job that ranks highest is told that
/// there is no memory. Within a variant more regions rank higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ledger) enum Blame {
    /// It keeps within what is expected of it.
    Keeps,
    /// Nobody knows what is to be expected of it. What it holds that is not known to persist, with
    /// what it asks for.
    Unknown(u32),
    /// It asks for more than its iterations have taken: by so much.
    Exceeds(u32),
}

/// What the banker's test looks at of a job, if it were to hold what is asked for as well. In
/// regions.
#[derive(Clone, Copy)]
pub(in crate::ledger) struct Stake {
    pub(crate) job: JobKey,
    /// What others cannot use now, growth that is learned within this iteration left out ...
    pub(in crate::ledger) kept: u32,
    /// ... and for good: of leftovers only what both of the last two iterations began with.
    pub(in crate::ledger) surely_kept: u32,
    /// What others cannot have now.
    pub(in crate::ledger) reserved: u32,
    /// What of that comes back when its iteration ends.
    returns: u32,
    /// What its iteration comes to hold in all, if one runs of which that is known.
    claim: Option<u32>,
    pub(in crate::ledger) is_running: bool,
    /// The most that it may hold.
    pub(in crate::ledger) cap: u32,
}

impl Stake {
    /// The job's claim. While it has no profile that is all `there_is` beside what others may keep,
    /// and the `most` there can be beside what they keep for sure if it is to finish before others.
    /// With one it is no more than that.
    pub(in crate::ledger) fn claim(&self, there_is: u32, most: u32) -> Claim {
        // What is reserved for it is its own, and stays so: as if it held that much.
        let more = |all: u32| all.saturating_sub(self.reserved);
        let need = more(self.claim.map_or(there_is, |claim| most.min(claim)));
        let before_others = if self.claim.is_some() { need } else { need.max(more(most)) };
        let is_known = self.claim.is_some();
        Claim { job: self.job, need, before_others, returns: self.returns, is_known }
    }
}

impl Account {
    /// What others cannot count on, whatever the job does: while no iteration of it runs, all that
    /// it holds, since only running on may free it; while one runs, what it will hold at its end.
    pub(in crate::ledger) fn kept(&self) -> u32 {
        self.kept_without_reserve(|| self.ahead()).max(self.terms.floor)
    }

    /// The same without what is reserved, where its iteration may still come to hold so much.
    fn kept_without_reserve(&self, ahead: impl FnOnce() -> Option<u32>) -> u32 {
        match self.phase {
            Phase::Idle => self.first_wave.base(self.holds()),
            Phase::Waiting(_) => self.holds(),
            Phase::Admitted | Phase::Running(_) => {
                self.comes_to_keep(self.persistent(), self.grows(), ahead)
            }
        }
    }

    /// What others cannot count on as things are: without what is learned to persist within an
    /// iteration that runs. That comes by leases, and these have to leave an iteration of which
    /// nothing is known what there was for it.
    fn kept_now(&self, ahead: impl FnOnce() -> Option<u32>) -> u32 {
        let kept = match &self.phase {
            Phase::Running(run) => {
                let persistent = self.persistent();
                self.comes_to_keep(persistent - run.grown(persistent), 0, ahead)
            }
            Phase::Admitted => self.comes_to_keep(self.persistent(), 0, ahead),
            Phase::Idle | Phase::Waiting(_) => self.kept_without_reserve(ahead),
        };
        kept.max(self.terms.floor)
    }

    /// What a running iteration will hold at its end if so much persists, and so much more comes to:
    /// no more than those before it have held then, but for what is there. The most that persisted
    /// and the most that was left beside it need not have come together.
    fn comes_to_keep(
        &self,
        persistent: u32,
        grows: u32,
        ahead: impl FnOnce() -> Option<u32>,
    ) -> u32 {
        let there = persistent.saturating_add(self.carried());
        let apart = persistent.saturating_add(grows).saturating_add(self.stays(ahead));
        if apart <= there {
            return apart;
        }
        let rests = self.predictor.rests(self.settled());
        rests.map_or(apart, |rests| apart.min(rests.max(there)))
    }

    /// What others can never count on: what persists, what its last iterations have begun with, and
    /// what is reserved. Less than it keeps just now if that is more than usual.
    pub(in crate::ledger) fn kept_for_good(&self) -> u32 {
        self.kept_without_floor().max(self.terms.floor)
    }

    /// The same without what is only reserved. A job that has left keeps nothing.
    pub(in crate::ledger) fn kept_without_floor(&self) -> u32 {
        if self.gone {
            return 0;
        }
        if self.away.is_absent() {
            return self.leased_total();
        }
        let persists = self.persistent().saturating_sub(self.first_wave.guessed());
        let for_good = persists.saturating_sub(self.lately_grown());
        // What is safe when it starts is to be safe when it has begun.
        let begins = matches!(self.phase, Phase::Admitted).then(|| self.begins_with());
        let carried = begins
            .map_or_else(|| self.predictor.carried(), |with| self.predictor.carried_then(with));
        let apart = for_good.saturating_add(carried);
        // The least that persists and the least that is left beside it need not come together.
        let begins = begins.map(|with| self.persistent().saturating_add(with));
        let rests = self.predictor.surely_rests(self.settled(), begins);
        rests.filter(|_| self.away.is_empty()).map_or(apart, |rests| apart.max(rests))
    }

    /// What an iteration begins with that began now, beside what persists. What is parked comes back
    /// by itself.
    pub(in crate::ledger) fn begins_with(&self) -> u32 {
        if self.pulse.has_parked() { 0 } else { self.ephemeral() }
    }

    /// What a running iteration leaves behind beside what persists: what it began with, as far as
    /// that is still there, and as much as those before it have left. Never more than it may hold.
    fn stays(&self, ahead: impl FnOnce() -> Option<u32>) -> u32 {
        match self.predictor.left() {
            0 => self.carried(),
            left => self.carried().max(ahead().map_or(0, |ahead| left.min(ahead))),
        }
    }

    /// What it began with beside what persists, as far as that is still there.
    fn carried(&self) -> u32 {
        match &self.phase {
            Phase::Running(run) => run.carried.min(self.ephemeral()),
            _ => self.ephemeral(),
        }
    }

    /// What the banker's test looks at, if the job were to hold what is asked for as well.
    pub(in crate::ledger) fn stake(&self, job: JobKey, asked: Growth) -> Stake {
        let is_running = self.is_running();
        let ahead = if is_running { self.ahead() } else { None };
        let (kept, then_kept) = (self.kept_now(|| ahead), self.then_kept(asked, || ahead));
        let reserved = self.holds_with(asked).max(then_kept);
        Stake {
            job,
            kept,
            surely_kept: if is_running { self.kept_for_good() } else { kept },
            reserved,
            returns: reserved - then_kept,
            claim: ahead.map(|ahead| self.comes_to_hold(asked, ahead)),
            is_running,
            cap: self.cap(),
        }
    }

    /// What others could not have if the job held what is asked for as well: the same as of its
    /// [`stake`](Self::stake), for a job alone, of which nothing else is looked at.
    pub(in crate::ledger) fn reserved(&self, asked: Growth) -> u32 {
        self.holds_with(asked).max(self.then_kept(asked, || self.ahead()))
    }

    /// What others could not count on if the job held what is asked for as well.
    fn then_kept(&self, asked: Growth, ahead: impl FnOnce() -> Option<u32>) -> u32 {
        let held = self.kept_without_reserve(ahead);
        // What is learned to persist may be part of what it grows by in each iteration.
        let stays = match asked.persists {
            true if asked.told => asked.regions,
            true => asked.regions.saturating_sub(self.grows()),
            false => 0,
        };
        held.saturating_add(stays).max(self.terms.floor)
    }

    fn holds_with(&self, asked: Growth) -> u32 {
        self.holds().saturating_add(asked.regions)
    }

    /// What the running iteration comes to hold in all if it gets what it asks for.
    fn comes_to_hold(&self, asked: Growth, ahead: u32) -> u32 {
        let apart = self.base().saturating_add(ahead);
        self.in_all().map_or(apart, |all| all.min(apart)).saturating_add(asked.told())
    }

    /// Whether an iteration runs, or what comes before the first one does as if it were one.
    pub(in crate::ledger) fn has_claim(&self) -> bool {
        self.is_running() || matches!(self.phase, Phase::Idle) && self.first_wave.is_under_way()
    }

    /// Whether it may go on by itself, and free something: it runs or is about to, or is between
    /// iterations with something that may not persist, and neither waits for memory as things stand
    /// nor stands still for longer than others have patience.
    pub(in crate::ledger) fn may_go_on(&self, epoch: u64) -> bool {
        match self.phase {
            // It is about to give up all of that.
            _ if self.gone => self.leased_total() > 0,
            // What it has is on its way.
            _ if self.away.is_moving() => !self.is_still(),
            Phase::Admitted => true,
            _ if self.is_about_to_begin() => true,
            Phase::Running(_) if self.is_to_be_interrupted() => !self.is_still(),
            Phase::Running(_) => !self.is_denied_at(epoch),
            Phase::Waiting(_) => false,
            Phase::Idle => self.holds_leftovers() && !self.is_denied_at(epoch) && !self.is_still(),
        }
    }

    /// Whether it holds something that only its running on shows to be needed or not.
    pub(in crate::ledger) fn holds_leftovers(&self) -> bool {
        self.ephemeral() > 0 || self.guessed() > 0
    }

    /// What of that it holds as persistent by guess only.
    fn guessed(&self) -> u32 {
        self.first_wave.guessed().min(self.persistent())
    }

    /// How much it is to blame where nothing can go on.
    pub(in crate::ledger) fn blame(&self) -> Blame {
        let asked = self.stall.map(|stall| stall.asked).unwrap_or_default();
        let wanted = self.ephemeral().saturating_add(asked.regions);
        let unknown = || Blame::Unknown(wanted.saturating_add(self.guessed()));
        match self.phase {
            Phase::Running(_) => {
                let Some(ahead) = self.ahead() else { return unknown() };
                let held = self.leased_total().saturating_add(asked.regions);
                match held.saturating_sub(self.comes_to_hold(asked, ahead)) {
                    0 => Blame::Keeps,
                    more => Blame::Exceeds(more),
                }
            }
            Phase::Idle if self.stall.is_some() => unknown(),
            _ => Blame::Keeps,
        }
    }
}
