//! Stress tests (*storms*): real threads on a device over the host's memory, with patterns in every
//! block.
//!
//! Each job has several threads that allocate and free at the same time, in iterations which one of
//! them begins and ends; blocks are carried from one iteration to the next, and freed there or
//! while the next one waits to begin; other streams use blocks; jobs leave, with live blocks or
//! without, and join again. Another thread polls, trims, changes the budget and mutes streams: a
//! muted stream refuses events.
//!
//! What is checked: each block holds the pattern that was written to it (I2, I3); a blocking call
//! ends in no error of another job's stream (I6, I8); with nothing live a job holds nothing when
//! its iteration has ended; the pool holds no more than its budget (I1); everything comes back in
//! the end; and a watchdog ends the storm when no call has returned for a while (I4).

mod bench;
mod tenant;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use zico_core::{Bytes, HandOver, Pool, PoolConfig};

use bench::{Bench, Dev};
use tenant::Tenant;

/// The size of a region, and of a page of the device.
pub(crate) const REGION: u64 = 64 << 10;

/// The parameters of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many jobs.
    pub jobs: usize,
    /// How many threads each of them has.
    pub threads: usize,
    /// Its duration.
    pub time: Duration,
    /// What decides what the threads do; not in which order they do it.
    pub seed: u64,
    /// Whether blocks are carried from one iteration to the next.
    pub carry: bool,
    /// Whether streams take no events now and then.
    pub mute: bool,
    /// After how long without any call that returns it is taken to hang.
    pub patience: Duration,
}

/// The result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Calls of the threads that have returned.
    pub calls: u64,
    /// Iterations.
    pub iterations: u64,
    /// How often a job left and joined again.
    pub joins: u64,
    /// Patterns that were looked at.
    pub patterns: u64,
    /// Requests that were told that there is no memory: threads that vary may all wait for each
    /// other.
    pub told: u64,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) storm: Storm,
    pub(crate) bench: Bench,
    pub(crate) pool: Pool<Dev>,
    pub(crate) calls: AtomicU64,
    pub(crate) iterations: AtomicU64,
    pub(crate) joins: AtomicU64,
    pub(crate) told: AtomicU64,
    /// It is over, for the jobs.
    pub(crate) over: AtomicBool,
    /// How often the stream of each job was told to take no events.
    pub(crate) mutes: Vec<AtomicU64>,
    /// The first thing that went wrong.
    wrong: Mutex<Option<String>>,
    /// What each thread does, and since when.
    pending: Vec<Mutex<(String, Instant)>>,
}

impl Shared {
    /// Something went wrong.
    pub(crate) fn wrong(&self, text: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.get_or_insert(text);
        self.over.store(true, Ordering::SeqCst);
    }

    /// Notes the call that a thread makes, makes it, and counts it.
    pub(crate) fn call<T>(&self, thread: usize, what: &str, call: impl FnOnce() -> T) -> T {
        self.says(thread, what);
        let done = call();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.says(thread, "between calls");
        done
    }

    /// Says what a thread does.
    pub(crate) fn says(&self, thread: usize, what: &str) {
        let mut pending = self.pending[thread].lock().unwrap_or_else(PoisonError::into_inner);
        pending.0.clear();
        pending.0.push_str(what);
        pending.1 = Instant::now();
    }

    fn has_gone_wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who waits for what.
    fn tell(&self, what: &str) -> String {
        let mut text = format!("{what}\n");
        for (thread, pending) in self.pending.iter().enumerate() {
            let pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            let (job, number) = (thread / self.storm.threads, thread % self.storm.threads);
            let since = pending.1.elapsed().as_secs_f64();
            let _ = writeln!(text, "job {job} thread {number}: {} for {since:.1} s", pending.0);
        }
        let _ = write!(text, "{}", self.pool.snapshot());
        text
    }
}

impl Storm {
    /// Enough for each job alone, beside what all carry, and less than all together would take.
    const fn budget(&self) -> Bytes {
        let (jobs, threads) = (self.jobs as u64, self.threads as u64);
        Bytes::new((threads * 6 + jobs * threads * 2 + 8) * REGION)
    }

    /// Goes on for its time.
    ///
    /// # Errors
    /// What went wrong, for people. Threads that hang are left behind.
    pub fn run(self) -> Result<Report, String> {
        let bench = Bench::new(Bytes::new(self.budget().value() * 2));
        let hand_over = [HandOver::Fenced, HandOver::Isolated];
        let hand_over = hand_over[usize::try_from(self.seed % 2).unwrap_or(0)];
        let config = PoolConfig::new(self.budget()).region_size(Bytes::new(REGION));
        let config = config.fewest_calls(self.seed % 4 < 2);
        let pool = Pool::new(bench.device(), config.hand_over(hand_over));
        let pool = pool.map_err(|error| error.to_string())?;
        let pending = (0..self.jobs * self.threads)
            .map(|_| Mutex::new((String::from("has yet to start"), Instant::now())));
        let shared = Arc::new(Shared {
            storm: self,
            bench,
            pool,
            calls: AtomicU64::new(0),
            iterations: AtomicU64::new(0),
            joins: AtomicU64::new(0),
            told: AtomicU64::new(0),
            over: AtomicBool::new(false),
            mutes: (0..self.jobs).map(|_| AtomicU64::new(0)).collect(),
            wrong: Mutex::new(None),
            pending: pending.collect(),
        });
        let mut threads = Vec::new();
        for job in 0..self.jobs {
            let tenant = Arc::new(Tenant::join(&shared, job)?);
            for thread in 0..self.threads {
                let (shared, tenant) = (shared.clone(), tenant.clone());
                threads.push(thread::spawn(move || tenant.thread(&shared, thread)));
            }
        }
        let disturbing = thread::spawn({
            let shared = shared.clone();
            move || disturb(&shared)
        });
        watch(&shared, &threads)?;
        for thread in threads {
            if thread.join().is_err() {
                return Err(shared.tell("a thread panicked"));
            }
        }
        if disturbing.join().is_err() {
            return Err(shared.tell("the thread that polls panicked"));
        }
        all_came_back(&shared)
    }
}

/// Watches the threads until all have ended, or none makes progress.
fn watch(shared: &Shared, threads: &[thread::JoinHandle<()>]) -> Result<(), String> {
    let (began, mut last, mut seen) = (Instant::now(), Instant::now(), 0);
    while threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(Duration::from_millis(5));
        if began.elapsed() > shared.storm.time {
            shared.over.store(true, Ordering::SeqCst);
        }
        let calls = shared.calls.load(Ordering::Relaxed);
        if calls != seen {
            (seen, last) = (calls, Instant::now());
        }
        if let Some(text) = shared.has_gone_wrong() {
            return Err(shared.tell(&text));
        }
        if last.elapsed() > shared.storm.patience {
            let text =
                format!("no call has returned for {:?}, after {calls} calls", last.elapsed());
            return Err(shared.tell(&text));
        }
    }
    shared.has_gone_wrong().map_or(Ok(()), |text| Err(shared.tell(&text)))
}

/// Polls, trims, changes the budget, and mutes streams, until the storm is over.
fn disturb(shared: &Shared) {
    let mut rng = Rng::with_seed(shared.storm.seed ^ 0x3ea);
    let budget = shared.storm.budget();
    while !shared.over.load(Ordering::SeqCst) {
        let _ = shared.pool.poll();
        match rng.u8(..64) {
            0 => drop(shared.pool.trim(Bytes::new(rng.u64(..budget.value())))),
            1 => {
                let more = Bytes::new(rng.u64(..budget.value() / 2));
                let _ = shared.pool.set_budget(budget.saturating_add(more));
            }
            2 | 3 if shared.storm.mute => {
                let job = rng.usize(..shared.storm.jobs);
                shared.mutes[job].fetch_add(1, Ordering::SeqCst);
                shared.bench.mute(&shared.pool, job, true);
                thread::sleep(Duration::from_micros(rng.u64(..3000)));
                shared.bench.mute(&shared.pool, job, false);
            }
            4 => drop(shared.pool.snapshot().to_string()),
            _ => {}
        }
        let status = shared.pool.budget_status();
        if status.held > status.target.saturating_add(status.pending) {
            shared.wrong(format!("more is held than may be: {status:?}"));
        }
        if shared.bench.wrong() > 0 {
            shared.wrong(format!("{} patterns were other than written", shared.bench.wrong()));
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// All jobs have left: so has their memory, once the device has passed their work.
fn all_came_back(shared: &Arc<Shared>) -> Result<Report, String> {
    let began = Instant::now();
    loop {
        shared.pool.poll().map_err(|error| shared.tell(&error.to_string()))?;
        let snapshot = shared.pool.snapshot();
        if snapshot.jobs.is_empty() && snapshot.free == snapshot.held {
            break;
        }
        if began.elapsed() > shared.storm.patience {
            return Err(shared.tell("all jobs have left, and not all has come back"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    if shared.bench.wrong() > 0 {
        return Err(
            shared.tell(&format!("{} patterns were other than written", shared.bench.wrong()))
        );
    }
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(Report {
        calls: get(&shared.calls),
        iterations: get(&shared.iterations),
        joins: get(&shared.joins),
        patterns: shared.bench.patterns(),
        told: get(&shared.told),
    })
}
