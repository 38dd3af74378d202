//! One job of a storm, and its threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use zico_core::{AllocError, BeginError, Block, Bytes, Job, JobConfig, Lifetime, Request};

use super::bench::{Dev, Stream};
use super::{REGION, Shared};

/// How often a thread that waits looks at the fences, where there are no more than eight.
const LOOK: Duration = Duration::from_micros(200);
/// Blocks that a thread has at most at a time.
const BLOCKS: usize = 3;

/// A job.
pub(crate) struct Tenant {
    number: usize,
    stream: Stream,
    side: Stream,
    job: Mutex<Option<Arc<Job<Dev>>>>,
    /// Which time it has joined: blocks of an earlier one are gone.
    stay: AtomicU64,
    /// No more iterations.
    ends: AtomicBool,
    /// Blocks that its threads carry into the next iteration.
    carried: AtomicU64,
    gate: Barrier,
}

/// A block and what it is filled with.
struct Live {
    block: Block,
    tag: u8,
    elsewhere: bool,
}

/// One thread of it.
struct Worker<'a> {
    shared: &'a Shared,
    tenant: &'a Tenant,
    /// Of all threads.
    number: usize,
    rng: Rng,
    live: Vec<Live>,
}

impl Tenant {
    /// Joins.
    pub(crate) fn join(shared: &Shared, number: usize) -> Result<Self, String> {
        let tenant = Self {
            number,
            stream: shared.bench.add_stream(true),
            side: shared.bench.add_stream(false),
            job: Mutex::new(None),
            stay: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            carried: AtomicU64::new(0),
            gate: Barrier::new(shared.storm.threads),
        };
        tenant.enter(shared).map_err(|error| format!("job {number} cannot join: {error}"))?;
        Ok(tenant)
    }

    fn enter(&self, shared: &Shared) -> Result<(), String> {
        let config = JobConfig::new(format!("job {}", self.number));
        let config = if self.number % 2 == 1 { config.without_plans() } else { config };
        let job = shared.pool.join(config, self.stream).map_err(|error| error.to_string())?;
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(job));
        self.stay.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn job(&self) -> Option<Arc<Job<Dev>>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What one of its threads does until the storm is over. The first one leads.
    pub(crate) fn thread(&self, shared: &Shared, thread: usize) {
        let number = self.number * shared.storm.threads + thread;
        let rng = Rng::with_seed(shared.storm.seed ^ (number as u64 + 1) << 32);
        let mut worker = Worker { shared, tenant: self, number, rng, live: Vec::new() };
        let (leads, mut stay) = (thread == 0, 0);
        loop {
            if self.stay.load(Ordering::SeqCst) != stay {
                stay = self.stay.load(Ordering::SeqCst);
                worker.live.clear();
            }
            if leads {
                let over = shared.over.load(Ordering::SeqCst) || !worker.begin();
                self.ends.store(over, Ordering::SeqCst);
                self.carried.store(0, Ordering::SeqCst);
            } else if worker.rng.bool() {
                // While the first one waits to begin.
                worker.free_all();
            }
            worker.waits("the others, before the iteration");
            if self.ends.load(Ordering::SeqCst) {
                break;
            }
            worker.iteration();
            self.carried.fetch_add(worker.live.len() as u64, Ordering::SeqCst);
            worker.waits("the others, in the iteration");
            if leads {
                worker.end();
            }
            worker.waits("the others, after the iteration");
        }
        worker.waits("the others, to leave");
        if leads {
            drop(self.job.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        shared.says(number, "has ended");
    }
}

impl Worker<'_> {
    fn look(&self) -> Duration {
        LOOK * u32::try_from(self.shared.storm.jobs * self.shared.storm.threads / 8 + 1)
            .unwrap_or(1)
    }

    fn waits(&self, what: &str) {
        self.shared.says(self.number, what);
        self.tenant.gate.wait();
    }

    fn begin(&self) -> bool {
        let Some(job) = self.tenant.job() else { return false };
        loop {
            match self
                .shared
                .call(self.number, "begin_blocking", || job.begin_blocking(None, self.look()))
            {
                Ok(()) => return true,
                // What a job carries, and persistent memory of others, come and go.
                Err(BeginError::NeverFits { .. }) if !self.shared.over.load(Ordering::SeqCst) => {
                    self.shared.told.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(LOOK);
                }
                Err(BeginError::NeverFits { .. }) => return false,
                Err(error) => {
                    self.shared.wrong(format!("begin: {error}"));
                    return false;
                }
            }
        }
    }

    /// Allocates and frees, and carries at most one block on.
    fn iteration(&mut self) {
        let Some(job) = self.tenant.job() else { return };
        for _ in 0..self.rng.usize(1..12) {
            if self.live.len() < BLOCKS && self.rng.u8(..5) < 3 {
                self.alloc(&job);
            } else if !self.live.is_empty() {
                let which = self.rng.usize(..self.live.len());
                let live = self.live.swap_remove(which);
                self.free(&job, &live);
            }
        }
        let carries = usize::from(self.shared.storm.carry && self.rng.u8(..3) == 0);
        while self.live.len() > carries {
            let live = self.live.swap_remove(0);
            self.free(&job, &live);
        }
    }

    fn alloc(&mut self, job: &Job<Dev>) {
        let bytes = Bytes::new(match self.rng.u8(..4) {
            0 => REGION / 2,
            1 => REGION,
            2 => self.rng.u64(1..REGION),
            _ => self.rng.u64(1..REGION * 3 / 2),
        });
        let request = match self.rng.u8(..16) {
            1 | 2 => Request::learned(bytes),
            _ => Request::new(bytes, Lifetime::Iteration),
        };
        let quiet = self.quiet();
        let what = "alloc_blocking";
        match self.shared.call(self.number, what, || job.alloc_blocking(request, self.look())) {
            Ok(block) => {
                let tag = self.rng.u8(1..);
                self.shared.bench.pattern(self.tenant.stream, block, tag, true);
                self.live.push(Live { block, tag, elsewhere: false });
                if self.rng.u8(..8) == 0 {
                    self.use_elsewhere(job);
                }
            }
            Err(AllocError::OutOfMemory(_)) => {
                self.shared.told.fetch_add(1, Ordering::Relaxed);
                let live = std::mem::take(&mut self.live);
                live.iter().for_each(|live| self.free(job, live));
            }
            Err(AllocError::Device(error)) => {
                // What the device refuses of another job's stream is not this one's trouble.
                if quiet.is_some() && self.quiet() == quiet {
                    self.shared.wrong(format!("job {}: {error}", self.tenant.number));
                }
            }
            Err(error) => self.shared.wrong(format!("job {}: {error}", self.tenant.number)),
        }
    }

    /// How often the job's stream has been muted, if it takes events now.
    fn quiet(&self) -> Option<u64> {
        let mutes = self.shared.mutes[self.tenant.number].load(Ordering::SeqCst);
        (!self.shared.pool.device().is_mute(self.tenant.stream)).then_some(mutes)
    }

    fn use_elsewhere(&mut self, job: &Job<Dev>) {
        let (own, side) = (self.tenant.stream, self.tenant.side);
        let Some(live) = self.live.last_mut() else { return };
        if job.record_use(live.block, side).is_ok() {
            live.elsewhere = true;
            self.shared.bench.order(side, own);
            self.shared.bench.pattern(side, live.block, live.tag, false);
        }
    }

    fn free(&self, job: &Job<Dev>, live: &Live) {
        self.shared.bench.pattern(self.tenant.stream, live.block, live.tag, false);
        if let Err(error) = self.shared.call(self.number, "free", || job.free(live.block)) {
            self.shared.wrong(format!("free: {error}"));
        }
    }

    fn free_all(&mut self) {
        if let Some(job) = self.tenant.job() {
            let live = std::mem::take(&mut self.live);
            live.iter().for_each(|live| self.free(&job, live));
        }
    }

    /// The first thread ends the iteration, or leaves in the middle of it.
    fn end(&mut self) {
        let Some(job) = self.tenant.job() else { return };
        self.shared.iterations.fetch_add(1, Ordering::Relaxed);
        let leaves = self.rng.u8(..24);
        if leaves > 0 {
            let quiet = self.quiet();
            if let Err(error) = self.shared.call(self.number, "end", || job.end()) {
                self.shared.wrong(format!("end: {error}"));
            }
            if quiet.is_some() && self.tenant.carried.load(Ordering::SeqCst) == 0 {
                self.holds_nothing(&job, quiet);
            }
        }
        if leaves < 2 {
            drop(self.tenant.job.lock().unwrap_or_else(PoisonError::into_inner).take());
            // The last handle to the job: all other threads wait.
            self.shared.call(self.number, "leave", || drop(job));
            self.shared.joins.fetch_add(1, Ordering::Relaxed);
            let mut joined =
                self.shared.call(self.number, "join", || self.tenant.enter(self.shared));
            // Its stream may take no events just now.
            for _ in 0..10_000 {
                if joined.is_ok() {
                    return;
                }
                std::thread::sleep(LOOK);
                joined = self.tenant.enter(self.shared);
            }
            self.shared.wrong(format!("join: {joined:?}"));
        }
    }

    /// Without live blocks the job finally holds nothing.
    fn holds_nothing(&self, job: &Job<Dev>, quiet: Option<u64>) {
        // The thread that polls may have the last of it in hand just now.
        for _ in 0..100 {
            let held = job.held();
            if held.total() == held.draining || self.quiet() != quiet {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let (number, held) = (self.tenant.number, job.held());
        self.shared.wrong(format!("job {number} has freed all, and holds {held:?}"));
    }
}
