//! Recording what a job does with memory, as a trace that `zico replay` and its like read.
//!
//! Each allocation and each free adds an event of 16 bytes, under a lock, and nothing else. A
//! thread writes the file: when the first iteration is over, whenever the recording has grown by a
//! quarter since, and at the end; each time the whole of it, beside the file and then in its place.
//! So a process that is killed leaves about four fifths of its iterations.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::fs;
use std::io;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zico_core::{Bytes, Lifetime, Ticks};
use zico_mock::trace::{BlockId, Iteration, Step, Trace};

use crate::abi::JobHandle;
use crate::handles::jobs;
use crate::status::{Failure, Status, call};
use crate::streams::RawStream;

/// The most events: 32 MiB. An iteration of a small network has some thousand.
const MOST_EVENTS: usize = 2 << 20;
/// Shorter stretches between two events are not taken for work of the device.
const SHORTEST_WORK: Duration = Duration::from_micros(10);

/// What has happened. Blocks are numbered in the order of allocation.
#[derive(Clone, Copy)]
enum Event {
    Alloc(Bytes),
    Free(u32),
    /// Another stream uses a block from here on.
    Use(u32, NonZeroU8),
    /// No call was made for so many nanoseconds, within an iteration.
    Work(u64),
    Begin,
    /// The iteration took so many nanoseconds.
    End(u64),
}

/// A recording of one job.
pub(crate) struct Recorder {
    name: String,
    path: PathBuf,
    log: Mutex<Log>,
    /// There is more to be written, or the recording is over.
    more: Condvar,
    /// Held by who writes the file: the thread, or the end.
    writing: Mutex<()>,
}

struct Log {
    events: Vec<Event>,
    /// The numbers of the live blocks, by address.
    live: HashMap<u64, u32>,
    blocks: u32,
    /// The other streams that have used blocks, in the order in which they came up.
    streams: Vec<RawStream>,
    /// When the last call had returned.
    last: Instant,
    /// When the iteration that runs has begun.
    begun: Option<Instant>,
    /// So many of the events are up to the end of an iteration that is not among the whole ones.
    ended: Option<usize>,
    /// So many of the events are whole iterations, with what was freed after them.
    whole: usize,
    /// So many of the events have been written, or are about to be.
    written: usize,
    over: bool,
}

impl Recorder {
    /// Begins a recording, and the thread that writes it.
    fn start(name: String, path: PathBuf) -> io::Result<Arc<Self>> {
        let log = Log {
            events: Vec::new(),
            live: HashMap::new(),
            blocks: 0,
            streams: Vec::new(),
            last: Instant::now(),
            begun: None,
            ended: None,
            whole: 0,
            written: 0,
            over: false,
        };
        let recorder = Arc::new(Self {
            name,
            path,
            log: Mutex::new(log),
            more: Condvar::new(),
            writing: Mutex::default(),
        });
        let own = recorder.clone();
        let writer = move || own.write_as_it_grows();
        std::thread::Builder::new().name("zico-record".to_owned()).spawn(writer)?;
        Ok(recorder)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Each change is whole before anything can panic.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block has been allocated, by a call that was made at `called`.
    pub(crate) fn alloc(&self, called: Instant, address: u64, bytes: Bytes) {
        let mut log = self.log();
        log.work_until(called);
        let block = log.blocks;
        if log.push(Event::Alloc(bytes)) {
            log.live.insert(address, block);
            log.blocks += 1;
        }
        log.last = Instant::now();
    }

    /// A block is about to be freed.
    pub(crate) fn free(&self, address: u64) {
        let mut log = self.log();
        log.work_until(Instant::now());
        if let Some(block) = log.live.remove(&address) {
            log.push(Event::Free(block));
        }
        log.last = Instant::now();
    }

    /// Another stream uses a block from now on. So many that a trace has no numbers for them count
    /// as one.
    pub(crate) fn lend(&self, address: u64, stream: RawStream) {
        let mut log = self.log();
        let Some(&block) = log.live.get(&address) else { return };
        let known = log.streams.iter().position(|&known| known == stream);
        let index = known.unwrap_or(log.streams.len());
        let number = u8::try_from(index.saturating_add(1)).ok().and_then(NonZeroU8::new);
        if known.is_none() && number.is_some() {
            log.streams.push(stream);
        }
        log.push(Event::Use(block, number.unwrap_or(NonZeroU8::MAX)));
    }

    /// An iteration has begun.
    pub(crate) fn begin(&self) {
        let mut log = self.log();
        if !log.is_full() && log.ended.take().is_some() {
            log.whole = log.events.len();
            if log.whole >= log.written + log.written / 4 {
                self.more.notify_one();
            }
        }
        log.push(Event::Begin);
        log.last = Instant::now();
        log.begun = Some(log.last);
    }

    /// The iteration that runs has ended.
    pub(crate) fn end(&self) {
        let mut log = self.log();
        let now = Instant::now();
        log.work_until(now);
        if let Some(begun) = log.begun.take() {
            let took = nanoseconds(now.saturating_duration_since(begun));
            if log.push(Event::End(took)) {
                log.ended = Some(log.events.len());
            }
        }
        log.last = now;
    }

    /// The thread that writes.
    fn write_as_it_grows(&self) {
        let mut log = self.log();
        while !log.over {
            if log.whole > 0
                && log.whole >= log.written + log.written / 4
                && log.whole > log.written
            {
                log.written = log.whole;
                let events = log.events[..log.whole].to_vec();
                let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                drop(log);
                // The end says if it cannot be written.
                let _ = self.write(&events);
                drop(writing);
                log = self.log();
            } else {
                log = self.more.wait(log).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Ends the recording, and writes all of it.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let events = {
            let mut log = self.log();
            // What is freed after the last iteration is what a program frees when it ends.
            if let Some(ended) = log.ended.take() {
                log.whole = ended;
            }
            log.over = true;
            self.more.notify_one();
            let whole = log.whole;
            let mut events = std::mem::take(&mut log.events);
            events.truncate(whole);
            events
        };
        if events.is_empty() {
            let text = "nothing is recorded: no iteration has ended";
            return Err(Failure::new(Status::ZicoNotNow, text));
        }
        // Comes after what the thread is about to write.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&events).map_err(|error| {
            let path = self.path.display();
            Failure::new(Status::ZicoInvalid, format_args!("the recording {path}: {error}"))
        })
    }

    fn write(&self, events: &[Event]) -> io::Result<()> {
        let provenance = "recorded by zico while the job ran; launches are the times of 10 us and more between \
                          two calls of the allocator within an iteration, waits left out; a block is used by another stream \
                          from its allocation there or its record_stream on";
        let (setup, iterations) = steps(events);
        let trace = Trace::new(self.name.clone(), provenance.to_owned(), setup, iterations);
        let trace = trace.map_err(io::Error::other)?;
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        trace.write(io::BufWriter::new(fs::File::create(&beside)?))?;
        fs::rename(&beside, &self.path)
    }
}

impl Log {
    /// Adds an event, if there is room.
    fn push(&mut self, event: Event) -> bool {
        let fits = !self.is_full();
        if fits {
            self.events.push(event);
        }
        fits
    }

    fn is_full(&self) -> bool {
        self.over || self.events.len() >= MOST_EVENTS
    }

    /// The time since the last call is work, within an iteration.
    fn work_until(&mut self, now: Instant) {
        let work = now.saturating_duration_since(self.last);
        if self.begun.is_some() && work >= SHORTEST_WORK {
            self.push(Event::Work(nanoseconds(work)));
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A block, when the whole recording is known.
struct Known {
    bytes: Bytes,
    /// The iteration that has allocated it; none before the first one.
    iteration: Option<usize>,
    freed: bool,
    /// It was freed before the first iteration.
    gone: bool,
    id: Option<BlockId>,
}

/// What a trace has, of events that are whole iterations. O(events).
fn steps(events: &[Event]) -> (Vec<Step>, Vec<Iteration>) {
    let (mut blocks, iterations) = known(events);
    let (mut setup, mut found, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut next, mut allocated, mut recorded) = (0, 0, None);
    let first = events.iter().position(|event| matches!(event, Event::Begin));
    let (before, after) = events.split_at(first.unwrap_or(events.len()));
    let mut alloc = |block: &mut Known| {
        let id = BlockId::new(next);
        next += 1;
        block.id = Some(id);
        Step::Alloc { block: id, bytes: block.bytes, lifetime: block.lifetime(iterations) }
    };
    for _ in before.iter().filter(|event| matches!(event, Event::Alloc(_))) {
        if !blocks[allocated].gone {
            setup.push(alloc(&mut blocks[allocated]));
        }
        allocated += 1;
    }
    for event in after {
        match *event {
            Event::Begin => {
                if let Some(recorded) = recorded.take() {
                    found.push(Iteration::new(std::mem::take(&mut steps), recorded));
                }
            }
            Event::End(time) => recorded = Some(Ticks::new(time)),
            Event::Work(time) => steps.push(Step::Launch { work: Ticks::new(time) }),
            Event::Alloc(_) => {
                steps.push(alloc(&mut blocks[allocated]));
                allocated += 1;
            }
            Event::Free(block) => {
                let id = blocks[block as usize].id;
                steps.extend(id.map(|block| Step::Free { block }));
            }
            Event::Use(block, stream) => {
                let id = blocks[block as usize].id;
                steps.extend(id.map(|block| Step::Use { block, stream }));
            }
        }
    }
    if let Some(recorded) = recorded {
        found.push(Iteration::new(steps, recorded));
    }
    (setup, found)
}

/// The blocks, and how many iterations there are.
fn known(events: &[Event]) -> (Vec<Known>, usize) {
    let (mut blocks, mut iterations): (Vec<Known>, usize) = (Vec::new(), 0);
    for event in events {
        let iteration = iterations.checked_sub(1);
        match *event {
            Event::Begin => iterations += 1,
            Event::Alloc(bytes) => {
                blocks.push(Known { bytes, iteration, freed: false, gone: false, id: None });
            }
            Event::Free(block) => {
                let block = &mut blocks[block as usize];
                (block.freed, block.gone) = (true, iteration.is_none());
            }
            Event::Use(..) | Event::Work(_) | Event::End(_) => {}
        }
    }
    (blocks, iterations)
}

impl Known {
    /// What is alive at the end and was there after the first of several iterations stays for good.
    fn lifetime(&self, iterations: usize) -> Lifetime {
        match self.iteration {
            _ if self.freed => Lifetime::Iteration,
            None => Lifetime::Persistent,
            Some(0) if iterations > 1 => Lifetime::Persistent,
            Some(_) => Lifetime::Iteration,
        }
    }
}

/// Records what a job does with memory from now on, as a trace that the program `zico` reads, in
/// the file `path`, which is written over: as the recording grows, and at `zico_record_end`. `name`
/// is the trace's, in UTF-8. At most two million events are recorded.
///
/// # Safety
/// `path` and `name` are null, which is refused, or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_record(
    job: JobHandle,
    path: *const c_char,
    name: *const c_char,
) -> Status {
    call(|| {
        if path.is_null() || name.is_null() {
            return Err(Failure::new(Status::ZicoInvalid, "the path or the name is null"));
        }
        // SAFETY: not null, so texts that end with a zero.
        let (path, name) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(name)) };
        let name = name.to_str();
        let invalid = |error: &dyn std::fmt::Display| Failure::new(Status::ZicoInvalid, error);
        let name = name.map_err(|error| invalid(&format_args!("the name: {error}")))?;
        let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        let tenant = jobs().find(job)?;
        let recorder = Recorder::start(name.to_owned(), path).map_err(|error| invalid(&error))?;
        if tenant.record(recorder.clone()) {
            return Ok(());
        }
        let _ = recorder.finish();
        Err(Failure::new(Status::ZicoNotNow, "the job is recorded already"))
    })
}

/// Ends the recording of a job, and writes it. ZICO_NOT_NOW if no iteration has ended: then there
/// is nothing to write.
#[unsafe(no_mangle)]
pub extern "C" fn zico_record_end(job: JobHandle) -> Status {
    call(|| {
        let tenant = jobs().find(job)?;
        let none = || Failure::new(Status::ZicoNotNow, "the job is not recorded");
        tenant.recorder().ok_or_else(none)?.finish()
    })
}
