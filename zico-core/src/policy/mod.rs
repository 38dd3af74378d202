//! When an iteration may start: the sharing decision.
//!
//! A [`Policy`] is shown all jobs and one candidate that waits to start an iteration (a [`View`]),
//! and says whether it may. Whatever it says, the pool's own rules lie beneath: the budget is never
//! exceeded, no lease is granted that could leave every job waiting, floors and caps are kept, and
//! a job that waits is not passed over for ever. With nothing running nobody is asked: the
//! candidate starts.
//!
//! | policy | starts an iteration | from |
//! |---|---|---|
//! | [`TimeShift`] | when all waves fit, the lightest first (the default) | Zico, section 5 |
//! | [`TickTock`] | while all others are in their backward pass | Zico's artifact |
//!
//! An iteration of which nothing is known yet, neither from an earlier one nor from what the job
//! has [declared](crate::JobConfig::declare), runs alone where a policy looks at profiles. While
//! lifetimes are learned, nothing starts beside the second and the third either: their tenants have
//! no profile.

mod tick_tock;
mod time_shift;

#[cfg(test)]
mod testing;

pub use tick_tock::TickTock;
pub use time_shift::{Aim, TimeShift};

use alloc::sync::Arc;
use core::cmp::Ordering;

use crate::learn::profile::Profile;
use crate::types::report::Activity;
use crate::types::units::{Progress, Regions, Ticks};

/// One job, as a policy sees it.
#[derive(Clone, Debug, Default)]
pub struct Tenant {
    /// What its iterations take; none if neither an iteration nor the job itself has told, and while
    /// one of the first three runs and lifetimes are learned.
    pub profile: Option<Arc<Profile>>,
    /// What it does now.
    pub activity: Activity,
    /// How far its running iteration has come; zero if none runs.
    pub progress: Progress,
    /// Held between iterations.
    pub persistent: Regions,
    /// Held beside that.
    pub ephemeral: Regions,
    /// Those with more go first, whatever the policy.
    pub priority: i32,
    /// The time that it has had since a job last joined: in which its host was within an iteration
    /// and did not wait for memory, or the device had yet to pass something that it had given up.
    pub served: Ticks,
    /// How many of its iterations have ended.
    pub iterations: u64,
    /// What is always there for it.
    pub floor: Regions,
}

impl Tenant {
    /// Whether an iteration of it runs, be it that it waits for memory just now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.activity, Activity::Running | Activity::Stalled)
    }

    /// How far its iteration has come in the time of its profile. O(log steps).
    #[must_use]
    pub fn position(&self) -> Ticks {
        self.profile.as_ref().map_or(Ticks::ZERO, |profile| profile.position(self.progress))
    }
}

/// What a policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The pool's budget.
    pub budget: Regions,
    /// What the iterations that run, and the candidate's, can have beside persistent memory.
    pub room: Regions,
    /// All jobs, in the order in which they joined.
    pub jobs: &'a [Tenant],
    /// Which of them would like to start.
    pub candidate: usize,
}

impl<'a> View<'a> {
    /// The view of one candidate. The room is the budget without what is persistent, what idle jobs
    /// have kept from their last iterations, and what is reserved for them. O(jobs).
    #[must_use]
    pub fn new(budget: Regions, jobs: &'a [Tenant], candidate: usize) -> Self {
        let kept = |(i, job): (usize, &Tenant)| {
            if job.is_running() || i == candidate {
                job.persistent
            } else {
                job.persistent.saturating_add(job.ephemeral).at_least(job.floor)
            }
        };
        let kept = jobs.iter().enumerate().map(kept);
        let room = kept.fold(budget, Regions::saturating_sub);
        Self { budget, room, jobs, candidate }
    }

    /// The job that would like to start.
    #[must_use]
    pub fn own(&self) -> &'a Tenant {
        &self.jobs[self.candidate]
    }

    /// The other jobs' running iterations, in the order in which the jobs joined.
    pub fn running(&self) -> impl Iterator<Item = &'a Tenant> + use<'a> {
        self.others().map(|(_, job)| job).filter(|job| job.is_running())
    }

    /// The other jobs, and which they are.
    fn others(&self) -> impl Iterator<Item = (usize, &'a Tenant)> + use<'a> {
        let candidate = self.candidate;
        self.jobs.iter().enumerate().filter(move |&(job, _)| job != candidate)
    }

    /// The candidate's profile, if every running iteration has one as well.
    #[must_use]
    pub fn known(&self) -> Option<&'a Profile> {
        let own = self.own().profile.as_deref()?;
        self.running().all(|job| job.profile.is_some()).then_some(own)
    }
}

/// What a policy says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may start now.
    Start,
    /// It may start when the running iterations have come this much further, as far as their
    /// profiles tell.
    After(Ticks),
    /// Not now, and the policy does not know when: it is asked again when the running iterations
    /// have come this much further. Nothing starts before the candidate meanwhile, as nothing shows
    /// that it would not be delayed.
    AskAgain(Ticks),
    /// It has to wait until a running iteration has ended.
    AfterAnEnd,
}

impl Verdict {
    /// The delay that it promises, if it does.
    #[must_use]
    pub const fn promise(self) -> Option<Ticks> {
        match self {
            Self::Start => Some(Ticks::ZERO),
            Self::After(delay) => Some(delay),
            Self::AskAgain(_) | Self::AfterAnEnd => None,
        }
    }

    /// How much further the running iterations have to come before it is worth asking again, if
    /// that is before one ends.
    #[must_use]
    pub const fn ask_after(self) -> Option<Ticks> {
        match self {
            Self::AskAgain(delay) => Some(delay),
            _ => self.promise(),
        }
    }
}

/// Decides when iterations start. Called under the pool's lock: what it needs to remember, or to
/// use again instead of allocating, it may keep.
///
/// ```
/// use zico_core::policy::{Policy, Verdict, View};
///
/// /// No more than so many iterations at a time.
/// struct AtMost(usize);
///
/// impl Policy for AtMost {
///     fn name(&self) -> &'static str {
///         "at-most"
///     }
///
///     fn decide(&mut self, view: &View<'_>) -> Verdict {
///         if view.running().count() < self.0 { Verdict::Start } else { Verdict::AfterAnEnd }
///     }
/// }
/// ```
pub trait Policy: Send {
    /// The name by which people choose it.
    fn name(&self) -> &'static str;

    /// Whether the candidate may start now. Asked only while an iteration of another job runs.
    fn decide(&mut self, view: &View<'_>) -> Verdict;

    /// Which of two waiting jobs is asked first, where their priorities are the same. Where this
    /// says neither it is the one that has waited longer. Whatever it says, no job is passed over
    /// by more than [16](crate::Job::begin) others.
    fn order(&self, _one: &Tenant, _other: &Tenant) -> Ordering {
        Ordering::Equal
    }
}
