//! Streams: queues of work that the device runs in order, in virtual time.
//!
//! A stream holds launches (which take time), copies (which take time on the link), marks (which
//! take none and are handed to the owner of the timeline when the stream reaches them) and waits
//! for positions of other streams. An event is no item: it is a stream and a position in it, and it
//! has passed once the stream has retired that many items. So events cost nothing and leave nothing
//! behind.
//!
//! Nothing here can wait for ever: a wait names items that were enqueued before it, so the order of
//! enqueuing is an order in which everything can run.
//!
//! Where several things happen at one moment they happen in a fixed order: launches that finish by
//! finish point and then by stream, and after each of them what it lets run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use zico_core::Ticks;

use super::clock::{Utilisation, WorkClock, WorkPoint};

/// A place in a stream's queue: behind its first `position` items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) stream: usize,
    pub(crate) position: u64,
}

/// Something enqueued on a stream. `M` is what a mark carries.
#[derive(Debug)]
pub(crate) enum Item<M> {
    Launch {
        work: Ticks,
        utilisation: Utilisation,
    },
    Mark(M),
    Wait(Position),
    /// A copy that has the link in one direction to itself for a time.
    Copy {
        way: Way,
        time: Ticks,
    },
}

/// A direction of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

/// All streams of a device and its virtual time.
#[derive(Debug)]
pub(crate) struct Timeline<M> {
    now: Ticks,
    clock: WorkClock,
    streams: Vec<Queue<M>>,
    /// The running launches, at most one a stream, the next to finish on top.
    running: BinaryHeap<Reverse<(WorkPoint, usize)>>,
    /// The copies under way or next on the link, at most one a stream, the next to finish on top.
    copying: BinaryHeap<Reverse<(Ticks, usize)>>,
    /// From when on the link is free, by direction: copies take turns in the order in which their
    /// streams reach them.
    link: [Ticks; 2],
    /// Streams that can go on and have not yet; empty between calls, kept for its storage.
    ready: VecDeque<usize>,
}

#[derive(Debug)]
struct Queue<M> {
    items: VecDeque<Item<M>>,
    front: Front,
    enqueued: u64,
    retired: u64,
    launches: u64,
    finished: u64,
    /// Streams that wait for this one, with the number of items to be retired, by arrival.
    waiting: Vec<(u64, usize)>,
}

/// What finishes next on the device: a launch or a copy, and its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Launch(usize),
    Copy(usize),
}

/// What a stream waits for. If it waits for nothing, its queue is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Nothing,
    Launch(Utilisation),
    Copy,
    Wait,
}

impl<M> Timeline<M> {
    pub(crate) fn new() -> Self {
        Self {
            now: Ticks::ZERO,
            clock: WorkClock::default(),
            streams: Vec::new(),
            running: BinaryHeap::new(),
            copying: BinaryHeap::new(),
            link: [Ticks::ZERO; 2],
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn now(&self) -> Ticks {
        self.now
    }

    /// Adds an empty stream and returns its number.
    pub(crate) fn add_stream(&mut self) -> usize {
        self.streams.push(Queue {
            items: VecDeque::new(),
            front: Front::Nothing,
            enqueued: 0,
            retired: 0,
            launches: 0,
            finished: 0,
            waiting: Vec::new(),
        });
        self.streams.len() - 1
    }

    /// Puts an item at the end of a stream and runs what can run at this moment.
    pub(crate) fn enqueue(
        &mut self,
        stream: usize,
        item: Item<M>,
        on_mark: &mut impl FnMut(Ticks, M),
    ) {
        let queue = &mut self.streams[stream];
        queue.enqueued += 1;
        queue.launches += u64::from(matches!(item, Item::Launch { .. }));
        queue.items.push_back(item);
        if queue.front == Front::Nothing {
            self.run(stream, on_mark);
        }
    }

    /// The position behind everything enqueued on a stream so far.
    pub(crate) fn record(&self, stream: usize) -> Position {
        Position { stream, position: self.streams[stream].enqueued }
    }

    pub(crate) fn has_passed(&self, event: Position) -> bool {
        self.streams[event.stream].retired >= event.position
    }

    /// Runs the device up to a moment; one that lies in the past changes nothing.
    pub(crate) fn advance_to(&mut self, moment: Ticks, on_mark: &mut impl FnMut(Ticks, M)) {
        while let Some((finish, next)) = self.next_finish()
            && finish <= moment
        {
            // What finishes at the end of time is found late when time is there already.
            self.now = self.now.max(finish);
            match next {
                Next::Launch(stream) => self.finish(stream, on_mark),
                Next::Copy(stream) => self.copied(stream, on_mark),
            }
        }
        self.now = self.now.max(moment);
    }

    /// When the next launch or copy finishes if nothing else is enqueued.
    pub(crate) fn next_completion(&self) -> Option<Ticks> {
        self.next_finish().map(|(finish, _)| finish)
    }

    /// Launches enqueued on a stream and not finished.
    pub(crate) fn outstanding(&self, stream: usize) -> u64 {
        self.streams[stream].launches - self.streams[stream].finished
    }

    /// Launches of a stream that have finished.
    pub(crate) fn completed(&self, stream: usize) -> u64 {
        self.streams[stream].finished
    }

    /// Whether everything enqueued has been run.
    pub(crate) fn idle(&self) -> bool {
        // A stream can wait only for one that runs, so without a launch or a copy nothing is left.
        self.running.is_empty() && self.copying.is_empty()
    }

    /// The marks that streams have not reached yet, by stream and then in order.
    pub(crate) fn queued_marks(&self) -> impl Iterator<Item = &M> {
        self.streams.iter().flat_map(|queue| &queue.items).filter_map(|item| match item {
            Item::Mark(mark) => Some(mark),
            Item::Launch { .. } | Item::Wait(_) | Item::Copy { .. } => None,
        })
    }

    /// What finishes next, and when: at one moment launches before copies.
    fn next_finish(&self) -> Option<(Ticks, Next)> {
        let launch = self.running.peek().map(|Reverse((finish, stream))| {
            (self.clock.moment_of(*finish), Next::Launch(*stream))
        });
        let copy = self.copying.peek().map(|&Reverse((at, stream))| (at, Next::Copy(stream)));
        match (launch, copy) {
            (Some(launch), Some(copy)) if copy.0 < launch.0 => Some(copy),
            (launch, copy) => launch.or(copy),
        }
    }

    /// The copy on top of the heap, of this stream, has finished now.
    fn copied(&mut self, stream: usize, on_mark: &mut impl FnMut(Ticks, M)) {
        self.copying.pop();
        self.streams[stream].retired += 1;
        self.run(stream, on_mark);
    }

    /// The launch on top of the heap, of this stream, has finished now.
    fn finish(&mut self, stream: usize, on_mark: &mut impl FnMut(Ticks, M)) {
        self.running.pop();
        let queue = &mut self.streams[stream];
        if let Front::Launch(utilisation) = queue.front {
            self.clock.end(self.now, utilisation);
        }
        queue.finished += 1;
        queue.retired += 1;
        self.run(stream, on_mark);
    }

    /// Runs a stream on from its front, and every stream that this lets run.
    fn run(&mut self, stream: usize, on_mark: &mut impl FnMut(Ticks, M)) {
        self.run_one(stream, on_mark);
        while let Some(next) = self.ready.pop_front() {
            self.streams[next].retired += 1; // the wait that held it up
            self.run_one(next, on_mark);
        }
    }

    fn run_one(&mut self, stream: usize, on_mark: &mut impl FnMut(Ticks, M)) {
        let mut front = Front::Nothing;
        while let Some(item) = self.streams[stream].items.pop_front() {
            front = match item {
                Item::Launch { work, .. } if work.is_zero() => {
                    self.streams[stream].finished += 1;
                    Front::Nothing
                }
                Item::Launch { work, utilisation } => {
                    let finish = self.clock.finish_of(self.now, work);
                    self.running.push(Reverse((finish, stream)));
                    self.clock.begin(self.now, utilisation);
                    Front::Launch(utilisation)
                }
                Item::Mark(mark) => {
                    on_mark(self.now, mark);
                    Front::Nothing
                }
                Item::Copy { way, time } => {
                    let free = &mut self.link[way as usize];
                    *free = self.now.max(*free).saturating_add(time);
                    self.copying.push(Reverse((*free, stream)));
                    Front::Copy
                }
                Item::Wait(event) if self.has_passed(event) => Front::Nothing,
                Item::Wait(event) => {
                    self.streams[event.stream].waiting.push((event.position, stream));
                    Front::Wait
                }
            };
            if front != Front::Nothing {
                break;
            }
            self.streams[stream].retired += 1;
        }
        let queue = &mut self.streams[stream];
        queue.front = front;
        if !queue.waiting.is_empty() {
            let (retired, ready) = (queue.retired, &mut self.ready);
            ready.extend(queue.waiting.extract_if(.., |w| w.0 <= retired).map(|w| w.1));
        }
    }
}

#[cfg(test)]
mod tests;
