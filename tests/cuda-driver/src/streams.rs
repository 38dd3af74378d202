//! Streams and events. Each stream is a thread that goes through a queue.
//!
//! An event stands for the last point at which it was recorded: a query, and a stream that is told
//! to wait for it, look at the one that was recorded last at the time of that call.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::handles::{self, Table};
use crate::kernels::Kernel;
use crate::{Done, codes};

static STREAMS: Mutex<Table<Arc<Stream>>> = Mutex::new(Table::new());
static EVENTS: Mutex<Table<Arc<Event>>> = Mutex::new(Table::new());
/// Destroyed, with work left: "hStream will be destroyed once all of its work has completed".
static LEAVING: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());

struct Stream {
    context: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    busy: bool,
    closed: bool,
}

impl Queue {
    fn is_busy(&self) -> bool {
        self.busy || !self.work.is_empty()
    }
}

enum Work {
    Kernel(Kernel),
    /// A copy, a fill, or a function of the host.
    Task(Box<dyn FnOnce() + Send>),
    Record(Arc<Event>, u64),
    Wait(Arc<Event>, u64),
}

struct Event {
    context: usize,
    points: Mutex<Points>,
    passed: Condvar,
}

/// How often it was recorded, and which of these the device has passed.
#[derive(Clone, Copy, Default)]
struct Points {
    recorded: u64,
    passed: u64,
    /// When the last was passed.
    at: Option<Instant>,
}

pub(crate) fn create(context: usize) -> usize {
    let handle = handles::new();
    lock(&STREAMS).insert(handle, Stream::start(context));
    handle
}

pub(crate) fn destroy(handle: usize) -> Done {
    let stream = lock(&STREAMS).remove(&handle).ok_or(codes::INVALID_HANDLE)?;
    stream.close();
    lock(&LEAVING).push(stream);
    Ok(())
}

pub(crate) fn launch(context: usize, stream: usize, kernel: Kernel) -> Done {
    find(context, stream)?.enqueue(Work::Kernel(kernel));
    Ok(())
}

/// Enqueues something that is done by the host.
pub(crate) fn enqueue(context: usize, stream: usize, task: impl FnOnce() + Send + 'static) -> Done {
    find(context, stream)?.enqueue(Work::Task(Box::new(task)));
    Ok(())
}

/// "Returns CUDA_SUCCESS if all operations in the stream specified by hStream have completed, or
/// CUDA_ERROR_NOT_READY if not."
pub(crate) fn query_stream(context: usize, stream: usize) -> Done {
    let idle = find(context, stream)?.is_idle();
    crate::calls::lost()?;
    if idle { Ok(()) } else { Err(codes::NOT_READY) }
}

pub(crate) fn synchronize_one(context: usize, stream: usize) -> Done {
    find(context, stream)?.finish();
    crate::calls::lost()
}

/// Waits for all streams of a context.
pub(crate) fn synchronize(context: usize) -> Done {
    let all: Vec<Arc<Stream>> = lock(&STREAMS).values().chain(&*lock(&LEAVING)).cloned().collect();
    for stream in all.into_iter().filter(|stream| stream.context == context) {
        stream.finish();
    }
    lock(&LEAVING).retain(|stream| stream.context != context);
    crate::calls::lost()
}

pub(crate) fn create_event(context: usize) -> usize {
    let handle = handles::new();
    let event = Event { context, points: Mutex::default(), passed: Condvar::new() };
    lock(&EVENTS).insert(handle, Arc::new(event));
    handle
}

pub(crate) fn destroy_event(handle: usize) -> Done {
    lock(&EVENTS).remove(&handle).map(drop).ok_or(codes::INVALID_HANDLE)
}

/// "Captures in hEvent the contents of hStream at the time of this call. hEvent and hStream must be
/// from the same context otherwise CUDA_ERROR_INVALID_HANDLE is returned."
pub(crate) fn record(context: usize, event: usize, stream: usize) -> Done {
    let (event, stream) = (find_event(event)?, find(context, stream)?);
    if event.context != stream.context {
        return Err(codes::INVALID_HANDLE);
    }
    let mut points = lock(&event.points);
    points.recorded += 1;
    stream.enqueue(Work::Record(event.clone(), points.recorded));
    Ok(())
}

/// "Returns CUDA_SUCCESS if all captured work has been completed, or CUDA_ERROR_NOT_READY if any
/// captured work is incomplete. If cuEventRecord() was not called on hEvent, [...] CUDA_SUCCESS".
pub(crate) fn query(event: usize) -> Done {
    let points = *lock(&find_event(event)?.points);
    if points.passed >= points.recorded { Ok(()) } else { Err(codes::NOT_READY) }
}

/// "Waits until the completion of all work currently captured in hEvent."
pub(crate) fn synchronize_event(event: usize) -> Done {
    let event = find_event(event)?;
    let recorded = lock(&event.points).recorded;
    event.wait(recorded);
    crate::calls::lost()
}

/// The milliseconds between what two events were recorded for last.
pub(crate) fn elapsed(start: usize, end: usize) -> Result<f32, u32> {
    let [start, end] = [find_event(start)?, find_event(end)?].map(|event| *lock(&event.points));
    if start.passed < start.recorded || end.passed < end.recorded {
        return Err(codes::NOT_READY);
    }
    let (Some(from), Some(to)) = (start.at, end.at) else { return Err(codes::INVALID_HANDLE) };
    let forward = to.saturating_duration_since(from).as_secs_f32();
    Ok((forward - from.saturating_duration_since(to).as_secs_f32()) * 1e3)
}

/// "Makes all future work submitted to hStream wait for all work captured in hEvent."
pub(crate) fn wait(context: usize, stream: usize, event: usize) -> Done {
    let (event, stream) = (find_event(event)?, find(context, stream)?);
    let recorded = lock(&event.points).recorded;
    stream.enqueue(Work::Wait(event, recorded));
    Ok(())
}

/// Ends what is left of a context and says how many streams and events that was.
pub(crate) fn end(context: usize) -> (usize, usize) {
    // The default stream is never destroyed and does not count as left over.
    lock(&STREAMS).remove(&default_of(context)).into_iter().for_each(|stream| stream.close());
    let mut streams = lock(&STREAMS);
    let mut events = lock(&EVENTS);
    let (all_streams, all_events) = (streams.len(), events.len());
    streams.retain(|_, stream| stream.context != context);
    events.retain(|_, event| event.context != context);
    (all_streams - streams.len(), all_events - events.len())
}

/// The stream; 0 is the context's default stream, which is there when it is first used. It does not
/// order others after it, as none that was made with `CU_STREAM_NON_BLOCKING` is.
fn find(context: usize, handle: usize) -> Result<Arc<Stream>, u32> {
    let mut streams = lock(&STREAMS);
    if handle == 0 {
        let new = || Stream::start(context);
        return Ok(streams.entry(default_of(context)).or_insert_with(new).clone());
    }
    streams.get(&handle).cloned().ok_or(codes::INVALID_HANDLE)
}

/// Where a context's default stream is kept. Contexts' handles are no streams'.
fn default_of(context: usize) -> usize {
    context
}

fn find_event(handle: usize) -> Result<Arc<Event>, u32> {
    lock(&EVENTS).get(&handle).cloned().ok_or(codes::INVALID_HANDLE)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    fn start(context: usize) -> Arc<Self> {
        let stream = Self { context, queue: Mutex::default(), changed: Condvar::new() };
        let stream = Arc::new(stream);
        let worker = stream.clone();
        std::thread::spawn(move || worker.run());
        stream
    }

    fn enqueue(&self, work: Work) {
        lock(&self.queue).work.push_back(work);
        self.changed.notify_all();
    }

    fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
    }

    fn finish(&self) {
        drop(self.changed.wait_while(lock(&self.queue), |queue| queue.is_busy()));
    }

    fn is_idle(&self) -> bool {
        !lock(&self.queue).is_busy()
    }

    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            queue.busy = false;
            self.changed.notify_all();
            let idle = |queue: &mut Queue| queue.work.is_empty() && !queue.closed;
            let mut queue =
                self.changed.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
            let Some(work) = queue.work.pop_front() else { return };
            queue.busy = true;
            drop(queue);
            match work {
                Work::Kernel(kernel) => kernel.run(),
                Work::Task(task) => task(),
                Work::Record(event, point) => event.pass(point),
                Work::Wait(event, point) => event.wait(point),
            }
        }
    }
}

impl Event {
    fn pass(&self, point: u64) {
        let mut points = lock(&self.points);
        points.passed = points.passed.max(point);
        points.at = Some(Instant::now());
        self.passed.notify_all();
    }

    fn wait(&self, point: u64) {
        let missing = |points: &mut Points| points.passed < point;
        drop(self.passed.wait_while(lock(&self.points), missing));
    }
}
