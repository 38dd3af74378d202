//! What the pool keeps of one job: what is charged to it, its iteration, its profile, its fences.

mod away;
mod claim;
mod expected;
mod figures;
mod growth;
mod interrupt;
mod pace;
mod time;
mod turn;
mod waits;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::fairness::{Bypasses, Reservation};
use super::first_wave::FirstWave;
use super::pages::{Moment, Pages};
use super::run::{Phase, Run, Stall};
use crate::learn::footprint::Footprint;
use crate::learn::predictor::{Predictor, Took};
use crate::learn::profile::{Recorder, Step};
use crate::learn::recent::Recent;
use crate::learn::signature::Signature;
use crate::policy::Tenant;
use crate::types::config::Terms;
use crate::types::pulse::Pulse;
use crate::types::report::Activity;
use crate::types::sync::Arc;
use crate::types::tuning::CARRIED_PART;
use crate::types::units::{Progress, Regions, Ticks};
use crate::types::zone::Zone;

use away::Away;
pub(super) use claim::{Blame, Stake};
use interrupt::Interrupted;
pub(super) use pace::{Paced, Rest};
use time::Time;
use turn::{Course, Turn};

/// Regions given up together, in the order of batches of one job. The first number is 1.
pub(crate) struct Batch {
    pub(crate) number: u64,
    pub(super) regions: Vec<usize>,
}

/// The books of one job.
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    /// The pages of its arenas, by zone.
    pub(super) pages: [Pages; Zone::COUNT],
    pub(super) pulse: Arc<Pulse>,
    /// Regions in them.
    pub(super) leased: [u32; Zone::COUNT],
    /// What it has on the host.
    pub(super) away: Away,
    /// Regions given up whose fence has not completed.
    pub(super) draining: u32,
    /// The batch that regions given up now belong to; the first is 1.
    pub(super) batch: u64,
    /// The device has completed this batch and all before it.
    pub(crate) completed: u64,
    /// Regions given up since the last fence; one that came and went may stand there twice.
    pub(super) pending: Vec<usize>,
    /// The batches whose fences have been recorded and not completed, the oldest first.
    pub(crate) fenced: VecDeque<Batch>,
    pub(super) phase: Phase,
    /// The iteration that goes on when its memory is back from the host.
    pub(super) interrupted: Option<Interrupted>,
    pub(super) terms: Terms,
    /// The rate that it is held to, if it is.
    pub(super) pace: Option<Paced>,
    /// Its turn on the device, if it is preemptible.
    pub(super) turn: Option<Turn>,
    /// When others gave way to it, and when it last ran.
    course: Course,
    /// Whose job it is: memory never goes from one user to another.
    pub(super) user: u32,
    /// It waits for memory.
    pub(super) stall: Option<Stall>,
    /// What it has allocated before its first iteration.
    pub(super) first_wave: FirstWave,
    /// Between iterations: how far it had come when it was last looked at, and since when it has
    /// been there.
    seen: Option<(Progress, Ticks)>,
    /// It has been there for longer than others have patience.
    still: bool,
    /// How often it was put behind jobs that had asked later, since it has waited.
    pub(super) bypassed: Bypasses,
    /// By when it is to start, while it waits first in line.
    pub(super) reservation: Reservation,
    /// What it has had of the device's time.
    pub(super) time: Time,
    /// It begins an iteration at once, which goes before those that wait: the last one has ended
    /// because of that, or it comes from the host and had come before in vain.
    pub(super) goes_on: bool,
    /// Its iterations follow each other: the last one ended as the running one began.
    pub(super) follows: bool,
    /// What its next or running iteration is expected to do.
    pub(super) predictor: Predictor,
    pub(super) iterations: u64,
    /// Regions that have come to persist within iterations without the job's word, and have not gone
    /// since: what they are for was an iteration's own before.
    shifted: u32,
    /// What persisted when the last iteration ended.
    persisted: u32,
    /// By how many regions what persists has grown within the last iteration, without the job's word,
    /// at the most ...
    grew: u32,
    /// ... and within each of the last few, since lifetimes have been learned. Gradients may live
    /// until the next iteration begins: they persist then, as far as is known, and come again in
    /// each, or in each of one kind.
    growth: Recent,
    /// The most that has been charged to the job.
    pub(super) peak: u32,
    /// The most that it has leased.
    pub(super) peak_leased: u32,
    /// Regions that have been charged to the job, again and again.
    pub(super) taken: u64,
    /// Pages whose mappings somebody is changing.
    pub(super) pins: u32,
    /// It has been denied memory and has had none since.
    pub(super) denied: bool,
    /// The job has left; the account goes when all its fences have completed.
    pub(super) gone: bool,
}

impl Account {
    /// A job that joins.
    pub(crate) fn new(name: Arc<str>, pulse: Arc<Pulse>, terms: Terms) -> Self {
        Self {
            name,
            pages: Default::default(),
            pulse,
            leased: [0; Zone::COUNT],
            away: Away::default(),
            draining: 0,
            batch: 1,
            completed: 0,
            pending: Vec::new(),
            fenced: VecDeque::new(),
            phase: Phase::Idle,
            interrupted: None,
            terms,
            pace: None,
            turn: terms.slice.map(Turn::new),
            course: Course::default(),
            user: 0,
            stall: None,
            first_wave: FirstWave::default(),
            seen: None,
            still: false,
            bypassed: Bypasses::default(),
            reservation: Reservation::default(),
            time: Time::default(),
            goes_on: false,
            follows: false,
            predictor: Predictor::of(terms.declared),
            iterations: 0,
            shifted: 0,
            persisted: 0,
            grew: 0,
            growth: Recent::default(),
            peak: 0,
            peak_leased: 0,
            taken: 0,
            pins: 0,
            denied: false,
            gone: false,
        }
    }

    /// The same of another user than the pool's own.
    pub(crate) const fn of_user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// Regions of what persists that nobody else can have now.
    pub(super) fn persistent(&self) -> u32 {
        self.leased[Zone::Persistent.index()] + self.away.reserved_of(Zone::Persistent)
    }

    /// The same with what of it is on the host.
    pub(super) fn all_persistent(&self) -> u32 {
        self.leased[Zone::Persistent.index()] + self.away.regions_of(Zone::Persistent)
    }

    /// Regions that nobody else can have now, of what does not persist.
    pub(super) fn ephemeral(&self) -> u32 {
        self.holds() - self.persistent()
    }

    /// Regions that nobody else can have now: what is leased, and what is on its way.
    pub(super) fn holds(&self) -> u32 {
        self.leased_total() + self.away.reserved()
    }

    pub(super) fn leased_total(&self) -> u32 {
        self.leased.iter().sum()
    }

    /// All that is charged to it.
    pub(super) fn charged(&self) -> u32 {
        self.leased_total().saturating_add(self.draining)
    }

    /// The most that it may hold, in regions.
    pub(super) fn cap(&self) -> u32 {
        self.terms.cap.unwrap_or(u32::MAX)
    }

    /// What the job does.
    pub(super) fn activity(&self) -> Activity {
        match self.phase {
            _ if self.gone => Activity::Left,
            _ if !self.away.is_empty() => Activity::Suspended,
            Phase::Idle => Activity::Idle,
            Phase::Waiting(_) => Activity::Waiting,
            Phase::Running(_) if self.is_stalled() => Activity::Stalled,
            Phase::Admitted | Phase::Running(_) => Activity::Running,
        }
    }

    /// The job as a policy sees it.
    pub(super) fn tenant(&self) -> Tenant {
        Tenant {
            profile: self.profile_to_go_by().cloned(),
            activity: self.activity(),
            progress: self.progress(),
            persistent: Regions::new(self.persistent()),
            ephemeral: Regions::new(self.ephemeral()),
            priority: self.terms.priority,
            served: self.time.served(),
            iterations: self.iterations,
            floor: Regions::new(self.terms.floor),
        }
    }

    /// Whether the device has completed all that the job has ever given up.
    pub(super) fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.fenced.is_empty() && self.completed + 1 == self.batch
    }

    /// Whether the running iteration of a job that does not mark it may be taken to have ended: it
    /// holds next to nothing.
    pub(crate) fn may_turn(&self) -> bool {
        let most = self.peak_leased.saturating_sub(self.persistent());
        self.is_running() && self.ephemeral() <= most / CARRIED_PART
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Admitted)
    }

    pub(super) fn run(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    /// Progress within the running iteration; none before it has begun.
    pub(super) fn progress(&self) -> Progress {
        match self.phase {
            Phase::Running(_) => self.pulse.progress(),
            _ => Progress::ZERO,
        }
    }

    /// Where in its iterations the job is.
    pub(super) fn moment(&self) -> Moment {
        let part = self.predictor.profile().map(|profile| {
            let all = u64::from(profile.operations().value()).max(1);
            u32::try_from(u64::from(self.progress().value()) * 64 / all).unwrap_or(63).min(63)
        });
        Moment { iteration: self.iterations, part }
    }

    pub(crate) fn begin(&mut self, now: Ticks) {
        self.goes_on = false;
        self.restart_pace(now);
        self.is_given_way(now);
        self.pulse.restart();
        self.has_moved();
        self.stall = None;
        let gone = self.persisted.saturating_sub(self.persistent());
        self.shifted = self.shifted.saturating_sub(gone);
        let carried = self.begins_with();
        let total = self.persistent().saturating_add(carried);
        self.predictor.note_begin(carried, Footprint { total, settled: self.settled() });
        self.phase = Phase::Running(Run {
            began: now,
            stalled: Ticks::ZERO,
            carried: self.ephemeral(),
            persisted: self.persistent(),
            told: 0,
            most: 0,
            total: self.leased_total(),
            held: self.ephemeral(),
            exceeded: 0,
            recorder: Recorder::default(),
            is_partial: false,
            interruptions: 0,
        });
        self.count_time(now);
        self.note(now);
    }

    /// Notes what is charged to the job, and to its running iteration.
    pub(super) fn note(&mut self, now: Ticks) {
        self.peak_leased = self.peak_leased.max(self.leased_total());
        self.peak = self.peak.max(self.charged());
        let leased = Regions::new(self.ephemeral());
        let demand = Regions::new(self.ephemeral() + self.draining);
        let progress = self.pulse.progress();
        if self.stall.is_some_and(|stall| stall.at != progress) {
            // It has gone on without what it was denied.
            self.resume(now);
        }
        let paused = self.paused_since();
        let (total, persistent, held) = (self.leased_total(), self.persistent(), self.ephemeral());
        if let Some(run) = self.run() {
            run.total = run.total.max(total);
            run.held = run.held.max(held);
            run.most = run.most.max(run.grown(persistent));
            let at = run.elapsed(now, paused);
            run.recorder.note(Step { progress, at, demand, leased });
        }
    }

    /// Ends the iteration, which has made these allocations, and learns from what it took.
    pub(crate) fn end(&mut self, now: Ticks, signature: Signature) -> bool {
        let operations = self.pulse.progress();
        let shifted = self.shifted_by_now();
        if !matches!(self.phase, Phase::Running(_)) {
            return false;
        }
        let Phase::Running(run) = core::mem::replace(&mut self.phase, Phase::Idle) else {
            return false;
        };
        let length = run.elapsed(now, self.paused_since());
        self.stall = None;
        self.count_time(now);
        self.course.ended = Some(now);
        self.turn.iter_mut().for_each(|turn| turn.has_run = true);
        self.has_moved();
        if run.is_partial {
            return true;
        }
        let exceeded = run.exceeded;
        (self.shifted, self.persisted) = (shifted, self.persistent());
        self.grew = run.most;
        self.growth.note(if self.predictor.is_learning() { 0 } else { run.most });
        let footprint = Footprint { total: run.total, settled: self.settled() };
        let profile = run.recorder.finish(operations, length);
        let (left, rest) = (self.ephemeral(), self.leased_total());
        self.predictor.learn(Took { profile, signature, exceeded, left, footprint, rest });
        self.first_wave = FirstWave::over();
        self.iterations += 1;
        true
    }
}
