//! The admission queue: what the policy is shown, and the order in which it is asked about those
//! who wait.

use alloc::vec::Vec;

use super::Ledger;
use super::fairness::{Bypasses, Reservation};
use crate::policy::{Policy, Tenant, Verdict, View};
use crate::types::JobKey;
use crate::types::report::Activity;
use crate::types::units::{Regions, Ticks};

/// One who waits.
#[derive(Clone, Copy)]
pub(super) struct Waiter {
    /// Which of the jobs.
    pub(crate) job: usize,
    /// Its place in the order of asking.
    pub(super) arrival: usize,
    /// How often a job that asked later was put before it.
    pub(super) bypassed: Bypasses,
    /// By when it is to start, as long as it is the first.
    pub(super) reservation: Reservation,
    /// What the policy says of it.
    pub(super) verdict: Verdict,
    /// What keeps it from starting, whatever the policy says.
    pub(super) obstacle: Option<Obstacle>,
    /// It waits to come back from the host: no policy has a say in that.
    returns: bool,
    /// Its last iteration has just ended, and it goes on ([`fairness`](super::fairness)).
    goes_on: bool,
}

/// What keeps an iteration from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// An iteration that runs has to end first. Nothing starts that would delay this one.
    Running,
    /// One that runs could not be sure to finish beside it, before it has ended or has come further.
    /// Nothing starts that would delay this one.
    Unsafe,
    /// A job that does not run keeps what it needs. Others may start meanwhile: nobody knows for
    /// how long.
    Leftovers,
    /// A job that runs has had much less time and goes on at once ([`fairness`](super::fairness)):
    /// beside this one its next iteration would not fit. Others may start meanwhile.
    Behind,
    /// It would take what another one waits for and is about to get ([`awaited`](super::awaited)).
    Awaited,
    /// It goes on as soon as those that run have given up more ([`interrupt`](super::interrupt)).
    NoRoom,
    /// The device is far behind it, and the jobs do not all fit at their peaks. Others may start
    /// meanwhile.
    Lagging,
}

impl Obstacle {
    /// Whether those behind in the queue may start though it delays the one that it holds up.
    const fn lets_others_start(self) -> bool {
        matches!(self, Self::Leftovers | Self::Behind | Self::Lagging)
    }

    /// Whether it may be over as soon as memory is granted, or the device has passed more.
    pub(super) const fn is_short(self) -> bool {
        matches!(self, Self::Awaited | Self::NoRoom | Self::Lagging)
    }
}

/// All jobs as the policy sees them. Kept from one decision to the next, so that a decision
/// allocates nothing.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) keys: Vec<JobKey>,
    pub(super) jobs: Vec<Tenant>,
    /// Those who wait, in the order in which they are asked.
    pub(super) waiters: Vec<Waiter>,
}

impl Queue {
    /// Looks at the jobs as they are. O(jobs log jobs).
    pub(super) fn fill(&mut self, ledger: &Ledger) {
        self.keys.clear();
        self.jobs.clear();
        self.waiters.clear();
        for (&key, account) in ledger.accounts.iter().filter(|(_, account)| !account.gone) {
            self.keys.push(key);
            self.jobs.push(account.tenant());
        }
        for (arrival, key) in ledger.waiting.iter().enumerate() {
            let Some(account) = ledger.accounts.get(key) else { continue };
            if let Ok(job) = self.keys.binary_search(key) {
                self.waiters.push(Waiter {
                    job,
                    arrival,
                    bypassed: account.bypassed,
                    reservation: account.reservation,
                    verdict: Verdict::AfterAnEnd,
                    obstacle: None,
                    returns: account.away.is_absent(),
                    goes_on: account.goes_on,
                });
            }
        }
    }

    /// The one to start next: the first waiter, or one behind it that does not delay it. O(waiting)
    /// decisions, as many again if the policy is to be asked `anew`: something has changed but for
    /// what holds a waiter up.
    pub(super) fn choose(
        &mut self,
        policy: &mut dyn Policy,
        budget: Regions,
        anew: bool,
    ) -> Option<usize> {
        if anew {
            self.sort(policy);
            for i in 0..self.waiters.len() {
                self.waiters[i].verdict = match self.waiters[i].obstacle {
                    None if self.waiters[i].returns => Verdict::Start,
                    None => self.ask(policy, budget, self.waiters[i].job, None),
                    Some(_) => Verdict::AfterAnEnd,
                };
            }
        }
        let is_first = |waiter: &&Waiter| !waiter.obstacle.is_some_and(Obstacle::lets_others_start);
        let first = *self.waiters.iter().find(is_first)?;
        (0..self.waiters.len()).find(|&place| {
            let Waiter { job, verdict, .. } = self.waiters[place];
            verdict.promise() == Some(Ticks::ZERO)
                && (job == first.job
                    || !first.reservation.is_broken() && !self.delays(policy, budget, first, job))
        })
    }

    /// Whoever has been passed over too often goes first, then the priorities count, then who goes
    /// on, then the policy, then who has asked first.
    fn sort(&mut self, policy: &dyn Policy) {
        let jobs = &self.jobs;
        self.waiters.sort_unstable_by(|one, other| {
            let by_rank = || {
                let (a, b) = (&jobs[one.job], &jobs[other.job]);
                let goes_on = other.goes_on.cmp(&one.goes_on);
                b.priority.cmp(&a.priority).then(goes_on).then_with(|| policy.order(a, b))
            };
            let ranked = one.bypassed.order(other.bypassed).unwrap_or_else(by_rank);
            ranked.then(one.arrival.cmp(&other.arrival))
        });
    }

    /// The job of the waiter at a place in the queue.
    pub(super) fn key(&self, place: usize) -> JobKey {
        self.keys[self.waiters[place].job]
    }

    /// Whether somebody may start as soon as those that run come to need less.
    pub(super) fn waits_for_less(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.obstacle == Some(Obstacle::Unsafe))
    }

    /// Something keeps the waiter at a place in the queue from starting.
    pub(super) fn hold(&mut self, place: usize, obstacle: Obstacle) {
        let waiter = &mut self.waiters[place];
        (waiter.obstacle, waiter.verdict) = (Some(obstacle), Verdict::AfterAnEnd);
    }

    /// The waiter at a place in the queue runs now. It has bypassed those who asked before it only
    /// if it was the first in order of those that leftovers do not hold up. One that was let start
    /// because it delays nobody has bypassed nobody; but the first in line is to start when it was
    /// to.
    pub(super) fn start(&mut self, place: usize, now: Ticks) {
        let waiter = self.waiters.remove(place);
        self.jobs[waiter.job].activity = Activity::Running;
        let holds = |other: &&mut Waiter| !other.obstacle.is_some_and(Obstacle::lets_others_start);
        if let Some(first) = self.waiters[..place].iter_mut().find(holds) {
            let wait = first.verdict.promise();
            wait.into_iter().for_each(|wait| first.reservation.note_other(wait, now));
        } else {
            let earlier = self.waiters.iter_mut().filter(|other| other.arrival < waiter.arrival);
            earlier.for_each(|other| other.bypassed.add());
        }
    }

    /// A job that waited comes back from the host: it runs no iteration, and has its room.
    #[cold]
    pub(super) fn has_come_back(&mut self, ledger: &Ledger, job: JobKey) {
        if let Some(account) = ledger.accounts.get(&job)
            && let Ok(at) = self.keys.binary_search(&job)
        {
            self.jobs[at] = account.tenant();
        }
    }

    /// Whether the first waiter would have to wait longer if `job` started now. If it waits for an
    /// iteration to end, nothing shows that it would not.
    fn delays(
        &mut self,
        policy: &mut dyn Policy,
        budget: Regions,
        first: Waiter,
        job: usize,
    ) -> bool {
        let beside = self.ask(policy, budget, first.job, Some(job));
        match (first.verdict.promise(), beside.promise()) {
            (Some(alone), Some(beside)) => beside > alone,
            _ => true,
        }
    }

    /// What the policy says of a job, with `beside` running as well.
    fn ask(
        &mut self,
        policy: &mut dyn Policy,
        budget: Regions,
        job: usize,
        beside: Option<usize>,
    ) -> Verdict {
        let before = beside.map(|beside| {
            let activity = &mut self.jobs[beside].activity;
            (beside, core::mem::replace(activity, Activity::Running))
        });
        let view = View::new(budget, &self.jobs, job);
        // Where nothing runs there is nothing that it could wait for.
        let runs = view.running().next().is_some();
        let verdict = if runs { policy.decide(&view) } else { Verdict::Start };
        if let Some((beside, activity)) = before {
            self.jobs[beside].activity = activity;
        }
        verdict
    }
}
