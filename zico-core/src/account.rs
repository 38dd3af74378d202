//! What the pool keeps of one job: what is charged to it, its iteration, its profile, its fences.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::banker::Claim;
use crate::device::Device;
use crate::memory::Memory;
use crate::outlook::Outlook;
use crate::policy::Tenant;
use crate::profile::{Recorder, Step};
use crate::run::{Phase, Pulse, Run};
use crate::signature::Signature;
use crate::snapshot::Activity;
use crate::space::{Moment, Space};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, Mutex};
use crate::terms::Terms;
use crate::units::{Bytes, MemoryTime, Progress, Regions, Ticks};
use crate::zone::Zone;

/// A detected iteration has not ended while the job holds more than this part of what it has held at most.
const CARRIED_PARTS: u32 = 64;

/// Regions given up together, to be fenced.
pub(crate) struct Batch<S> {
    pub(crate) number: u64,
    pub(crate) regions: Vec<usize>,
    /// Where the fence is to be recorded ...
    pub(crate) stream: S,
    /// ... once that stream waits for these.
    pub(crate) joins: Vec<S>,
}

/// Regions given up together, and the event that says when the device is done with them.
pub(crate) struct Fence<E> {
    pub(crate) batch: u64,
    pub(crate) regions: Vec<usize>,
    pub(crate) event: Arc<E>,
}

pub(crate) struct Account<D: Device> {
    pub(crate) name: Arc<str>,
    pub(crate) stream: D::Stream,
    /// Its address ranges, by zone.
    pub(crate) spaces: Vec<Space<D::Range>>,
    pub(crate) pulse: Arc<Pulse>,
    /// Regions in them.
    pub(crate) leased: [u32; Zone::COUNT],
    /// Regions given up whose fence has not passed.
    pub(crate) draining: u32,
    /// The batch that regions given up now belong to; the first is 1.
    pub(crate) batch: u64,
    /// The device has passed this batch and all before it.
    pub(crate) passed: u64,
    /// Regions given up since the last fence; one that came and went may stand there twice.
    pub(crate) pending: Vec<usize>,
    pub(crate) fences: VecDeque<Fence<D::Event>>,
    pub(crate) phase: Phase,
    pub(crate) terms: Terms,
    /// It does not mark its iterations: it waits for one to begin within an allocation.
    pub(crate) unmarked: bool,
    /// The most that it may hold.
    pub(crate) cap: u32,
    /// How often it was put behind jobs that had asked later, since it has waited.
    pub(crate) passed_over: u32,
    /// The memory that its iterations have had, times how long.
    pub(crate) used: MemoryTime,
    /// What was charged to it when it was last looked at in an iteration, and when that was.
    metered: Option<(Ticks, u32)>,
    /// What its next or running iteration is expected to do.
    pub(crate) outlook: Outlook,
    pub(crate) iterations: u64,
    /// The most that has been charged to the job.
    pub(crate) peak: u32,
    /// The most that it has leased.
    pub(crate) peak_leased: u32,
    /// Regions that have been charged to the job, again and again.
    pub(crate) taken: u64,
    /// Pages whose mappings somebody is changing.
    pub(crate) claims: u32,
    /// It has been denied memory and has had none since.
    pub(crate) denied: bool,
    /// Streams whose work uses what the job has given up, and that its own has to wait for before
    /// the next fence.
    pub(crate) joins: Vec<D::Stream>,
    /// The job's arenas, which it has a lock of its own for.
    pub(crate) memory: Arc<Mutex<Memory<D>>>,
    /// The job has left; the account goes when all its fences have passed.
    pub(crate) gone: bool,
}

impl<D: Device> Account<D> {
    pub(crate) fn new(
        name: Arc<str>,
        stream: D::Stream,
        spaces: Vec<Space<D::Range>>,
        pulse: Arc<Pulse>,
        memory: Arc<Mutex<Memory<D>>>,
        terms: Terms,
    ) -> Self {
        Self {
            name,
            stream,
            spaces,
            pulse,
            leased: [0; Zone::COUNT],
            draining: 0,
            batch: 1,
            passed: 0,
            pending: Vec::new(),
            fences: VecDeque::new(),
            phase: Phase::Idle,
            unmarked: terms.detect,
            terms,
            cap: u32::MAX,
            passed_over: 0,
            used: MemoryTime::ZERO,
            metered: None,
            outlook: Outlook::of(terms.declared),
            iterations: 0,
            peak: 0,
            peak_leased: 0,
            taken: 0,
            claims: 0,
            denied: false,
            joins: Vec::new(),
            memory,
            gone: false,
        }
    }

    /// What its blocks come to, with the regions that back them.
    pub(crate) fn stats(&self, blocks: Stats, region: Bytes) -> Stats {
        let bytes = |regions: u64| Bytes::new(regions.saturating_mul(region.value()));
        let current = u64::from(self.leased_total()) + u64::from(self.draining);
        let reserved = Counter {
            current: bytes(current),
            peak: bytes(self.peak.into()),
            allocated: bytes(self.taken),
            freed: bytes(self.taken.saturating_sub(current)),
        };
        Stats { reserved, ..blocks }
    }

    pub(crate) fn persistent(&self) -> u32 {
        self.leased[Zone::Persistent.index()]
    }

    /// Leased regions that are not persistent.
    pub(crate) fn ephemeral(&self) -> u32 {
        self.leased_total() - self.persistent()
    }

    pub(crate) fn leased_total(&self) -> u32 {
        self.leased.iter().sum()
    }

    /// All that is charged to it.
    pub(crate) fn charged(&self) -> u32 {
        self.leased_total().saturating_add(self.draining)
    }

    /// What others cannot have, whether an iteration of the job runs or not.
    pub(crate) fn kept(&self) -> u32 {
        let held = if self.is_captive() { self.leased_total() } else { self.persistent() };
        held.max(self.terms.floor)
    }

    /// What others cannot have now, if it were to hold `extra` regions more.
    pub(crate) fn reserved(&self, extra: u32) -> u32 {
        self.leased_total().saturating_add(extra).max(self.terms.floor)
    }

    /// What the job does.
    pub(crate) fn activity(&self) -> Activity {
        match self.phase {
            _ if self.gone => Activity::Left,
            Phase::Idle => Activity::Idle,
            Phase::Waiting(_) => Activity::Waiting,
            Phase::Running(_) if self.is_stalled() => Activity::Stalled,
            Phase::Admitted | Phase::Running(_) => Activity::Running,
        }
    }

    /// The job as a policy sees it.
    pub(crate) fn tenant(&self) -> Tenant {
        let iterations = self.terms.iterations;
        Tenant {
            profile: self.outlook.profile().cloned(),
            activity: self.activity(),
            progress: self.progress(),
            persistent: Regions::new(self.persistent()),
            ephemeral: Regions::new(self.ephemeral()),
            priority: self.terms.priority,
            used: self.used,
            // One that goes on for longer than it has said may go on for ever.
            remaining: iterations
                .and_then(|all| all.checked_sub(self.iterations))
                .filter(|&n| n > 0),
            floor: Regions::new(self.terms.floor),
            cap: self.terms.cap.map(Regions::new),
        }
    }

    /// Whether the device has passed all that the job has ever given up.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.passed + 1 == self.batch
    }

    /// Whether it holds memory of its last iteration that it may free any time.
    pub(crate) fn may_free(&self) -> bool {
        !self.is_running() && self.ephemeral() > 0 && !self.is_captive()
    }

    /// Whether it waits for its iteration to begin within an allocation, and frees nothing meanwhile.
    fn is_captive(&self) -> bool {
        self.unmarked && matches!(self.phase, Phase::Waiting(_))
    }

    /// Whether the running iteration of a job that does not mark it may be taken to have ended: it holds
    /// next to nothing.
    pub(crate) fn may_turn(&self) -> bool {
        let most = self.peak_leased.saturating_sub(self.persistent());
        self.is_running() && self.ephemeral() <= most / CARRIED_PARTS
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Admitted)
    }

    pub(crate) fn run(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        matches!(&self.phase, Phase::Running(run) if run.stalled_since.is_some())
    }

    /// Whether it waits for memory that it was denied at this epoch.
    pub(crate) fn is_denied_at(&self, epoch: u64) -> bool {
        // One that has gone on since was only asking.
        let waits = |run: &Run| {
            run.stalled_since.is_some()
                && run.denied == epoch
                && run.denied_at == self.pulse.progress()
        };
        matches!(&self.phase, Phase::Running(run) if waits(run))
    }

    /// Progress within the running iteration; none before it has begun.
    pub(crate) fn progress(&self) -> Progress {
        match self.phase {
            Phase::Running(_) => self.pulse.progress(),
            _ => Progress::ZERO,
        }
    }

    /// Where in its iterations the job is.
    pub(crate) fn moment(&self) -> Moment {
        let part = self.outlook.profile().map(|profile| {
            let all = u64::from(profile.operations().value()).max(1);
            u32::try_from(u64::from(self.progress().value()) * 64 / all).unwrap_or(63).min(63)
        });
        Moment { iteration: self.iterations, part }
    }

    /// The most regions that the running iteration may still come to hold, beside the persistent
    /// ones, as far as its profile tells and with the margin that its iterations have shown to need.
    pub(crate) fn ahead(&self) -> Option<u32> {
        self.outlook.ahead(self.progress())
    }

    /// Notes by how much the running iteration, which has leased something, exceeds its promise. What
    /// the first iteration has shown promises nothing yet: it is the one that makes what persists.
    pub(crate) fn note_excess(&mut self) {
        let promised = self.outlook.promised(self.progress()).filter(|_| self.iterations > 1);
        let excess = promised.map_or(0, |promised| self.ephemeral().saturating_sub(promised));
        if let Some(run) = self.run() {
            run.exceeded = run.exceeded.max(excess);
        }
    }

    /// The job's claim in the banker's test, if it were to hold `extra` regions more. `most` is what
    /// it can come to hold in all, and its claim while it has no profile.
    pub(crate) fn claim(&self, extra: u32, most: u32) -> Claim {
        let claim = self.ahead().map_or(most, |ahead| most.min(self.persistent() + ahead));
        let carried = match &self.phase {
            Phase::Running(run) => run.carried,
            _ => self.ephemeral(),
        };
        // What is reserved for it is its own, and stays so: as if it held that much.
        let reserved = self.reserved(extra);
        let stays = self.persistent().saturating_add(carried).max(self.terms.floor);
        Claim { need: claim.saturating_sub(reserved), returns: reserved.saturating_sub(stays) }
    }

    /// Whether the running iteration would hold more than its profile allows if it got what it waits
    /// for, or has no profile.
    pub(crate) fn is_beyond_claim(&self) -> bool {
        let asked = match &self.phase {
            Phase::Running(run) if run.stalled_since.is_some() => run.asked,
            _ => 0,
        };
        let wanted = self.ephemeral().saturating_add(asked);
        self.is_running() && self.ahead().is_none_or(|ahead| wanted > ahead)
    }

    pub(crate) fn begin(&mut self, now: Ticks) {
        self.pulse.restart();
        self.phase = Phase::Running(Run {
            began: now,
            stalled: Ticks::ZERO,
            stalled_since: None,
            denied: 0,
            asked: 0,
            denied_at: Progress::ZERO,
            passed_over: 0,
            carried: self.ephemeral(),
            exceeded: 0,
            recorder: Recorder::default(),
        });
        self.note(now);
    }

    /// Notes what is charged to the job, and to its running iteration.
    pub(crate) fn note(&mut self, now: Ticks) {
        self.peak_leased = self.peak_leased.max(self.leased_total());
        self.peak = self.peak.max(self.charged());
        self.meter(now);
        let leased = Regions::new(self.ephemeral());
        let demand = Regions::new(self.ephemeral() + self.draining);
        let progress = self.pulse.progress();
        if let Some(run) = self.run() {
            if run.denied_at != progress {
                // It has gone on without what it was denied.
                run.resume(now);
            }
            let at = run.elapsed(now);
            run.recorder.note(Step { progress, at, demand, leased });
        }
    }

    /// Adds what the running iteration has had since it was last looked at.
    fn meter(&mut self, now: Ticks) {
        if let Some((since, charged)) = self.metered.take() {
            let had = Regions::new(charged).during(now.saturating_sub(since));
            self.used = self.used.saturating_add(had);
        }
        if matches!(self.phase, Phase::Running(_)) {
            self.metered = Some((now, self.charged()));
        }
    }

    /// Ends the iteration, which has made these allocations, and learns from what it took.
    pub(crate) fn end(&mut self, now: Ticks, signature: Signature) -> bool {
        let operations = self.pulse.progress();
        if !matches!(self.phase, Phase::Running(_)) {
            return false;
        }
        let Phase::Running(run) = core::mem::replace(&mut self.phase, Phase::Idle) else {
            return false;
        };
        let length = run.elapsed(now);
        let exceeded = run.exceeded;
        let newest = run.recorder.finish(operations, length);
        self.meter(now);
        self.outlook.learn(newest, signature, exceeded);
        self.iterations += 1;
        true
    }
}
