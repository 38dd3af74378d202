//! A schedule: what the device does, in order of issue, and how long that takes.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::relief::{Encoding, Fault, Graph, Refusal};

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The storage, which [persists](crate::relief::Storage::persists), is on the host when the
    /// iteration begins, and has to be there when it ends, and not on the device. Such steps come
    /// before all others and take no time.
    Hosted(u32),
    /// The operation runs: for the first time, or again.
    Run(u32),
    /// The storage leaves the device, or its encoded form does. What the host has of it stays
    /// there.
    Drop(u32),
    /// The storage is copied to the host and then leaves the device.
    Out(u32),
    /// The storage comes back from the host.
    In(u32),
    /// The storage is encoded, and its plain form leaves the device.
    Encode(u32),
    /// The storage is made of its encoded form, which leaves the device.
    Decode(u32),
}

/// The way to the host and back: two channels that work at the same time as compute does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second to the host.
    pub out: u64,
    /// Bytes per second from the host.
    pub back: u64,
    /// Nanoseconds before the first byte of a transfer.
    pub latency: u64,
}

impl Link {
    /// A link of so many bytes per second each way and 10 microseconds of latency.
    #[must_use]
    pub const fn symmetric(bytes_per_second: u64) -> Self {
        Self { out: bytes_per_second, back: bytes_per_second, latency: 10_000 }
    }

    /// How long so many bytes take to the host, in nanoseconds.
    #[must_use]
    pub fn nanos_out(&self, bytes: u64) -> u64 {
        self.latency.saturating_add(transfer(bytes, self.out))
    }

    /// How long they take back.
    #[must_use]
    pub fn nanos_back(&self, bytes: u64) -> u64 {
        self.latency.saturating_add(transfer(bytes, self.back))
    }
}

/// At most 2^62, so that a few can be added.
fn transfer(bytes: u64, per_second: u64) -> u64 {
    let nanos = u128::from(bytes) * 1_000_000_000;
    let nanos = nanos.div_ceil(u128::from(per_second.max(1)));
    u64::try_from(nanos).unwrap_or(u64::MAX).min(1 << 62)
}

/// From when to when a step takes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: u64,
    /// Where it has ended.
    pub end: u64,
}

/// What comes of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last step of all channels has ended, in nanoseconds.
    pub nanos: u64,
    /// The most bytes on the device at a moment.
    pub peak: u64,
    /// The bytes that went over the link, both ways.
    pub moved: u64,
    /// The nanoseconds of runs that were not the first of their operation.
    pub recomputed: u64,
    /// The nanoseconds of encoding and decoding.
    pub encoding: u64,
    /// When each step takes place.
    pub spans: Vec<Span>,
}

/// How long a schedule takes under a budget, and how much memory.
///
/// Steps are issued in order. Runs, encodings and decodings take their turns on the compute
/// channel; transfers begin when all compute issued before them has ended, each in the order of its
/// channel. A step that needs memory waits until transfers to the host that were issued before it
/// have left enough, and steps behind it do not overtake it at that. O(s log s) for s steps and
/// their reads.
///
/// # Errors
/// A step names something that there is not ([`Fault::Unknown`]), uses what is not on the device
/// ([`Fault::Absent`]), makes what is ([`Fault::Present`]), or finds no room
/// ([`Fault::OverBudget`]), or what is there before is more than the budget; a storage cannot be on
/// the host before the iteration ([`Fault::NotHosted`]). Whether contents are right is for
/// [`check`](crate::relief::check()) to say.
pub fn simulate(
    graph: &Graph,
    link: &Link,
    steps: &[Step],
    budget: u64,
) -> Result<Outcome, Refusal> {
    let mut device = Device::new(graph, link, budget);
    let count = steps.iter().take_while(|step| matches!(step, Step::Hosted(_))).count();
    for (at, &step) in steps[..count].iter().enumerate() {
        device.host(step).map_err(|fault| Refusal { step: at, fault })?;
    }
    device.begin().map_err(|fault| Refusal { step: count, fault })?;
    for (at, &step) in steps.iter().enumerate().skip(count) {
        let span = device.issue(step).map_err(|fault| Refusal { step: at, fault })?;
        device.outcome.nanos = device.outcome.nanos.max(span.end);
        device.outcome.spans.push(span);
    }
    device.outcome.peak = device.highest();
    Ok(device.outcome)
}

/// Where a storage is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Away,
    Plain { since: u64 },
    Encoded { since: u64 },
}

struct Device<'a> {
    graph: &'a Graph,
    link: &'a Link,
    budget: u64,
    places: Vec<Place>,
    /// When each has reached the host, if it has.
    hosted: Vec<Option<u64>>,
    ran: Vec<bool>,
    /// Bytes of what is on the device and of what is leaving it.
    held: u64,
    leaving: BinaryHeap<Reverse<(u64, u64)>>,
    /// No allocation is earlier: memory that one has waited for.
    waited: u64,
    compute: u64,
    out: u64,
    back: u64,
    /// When bytes come (false) and go (true), by the clock and then in the order of issue.
    changes: Vec<(u64, usize, bool, u64)>,
    outcome: Outcome,
}

impl<'a> Device<'a> {
    fn new(graph: &'a Graph, link: &'a Link, budget: u64) -> Self {
        let mut device = Self {
            graph,
            link,
            budget,
            places: Vec::with_capacity(graph.storages.len()),
            hosted: alloc::vec![None; graph.storages.len()],
            ran: alloc::vec![false; graph.operations.len()],
            held: 0,
            leaving: BinaryHeap::new(),
            waited: 0,
            compute: 0,
            out: 0,
            back: 0,
            changes: Vec::new(),
            outcome: Outcome::default(),
        };
        for storage in &graph.storages {
            let there = storage.initial && storage.alias.is_none();
            device.places.push(if there { Place::Plain { since: 0 } } else { Place::Away });
        }
        device
    }

    /// A storage is on the host before the iteration.
    fn host(&mut self, step: Step) -> Result<(), Fault> {
        let Step::Hosted(storage) = step else { return Err(Fault::Unknown) };
        let known = self.graph.storages.get(storage as usize).ok_or(Fault::Unknown)?;
        let place = &mut self.places[storage as usize];
        if !known.persists() || *place == Place::Away {
            return Err(Fault::NotHosted { storage });
        }
        *place = Place::Away;
        self.hosted[storage as usize] = Some(0);
        self.outcome.spans.push(Span::default());
        Ok(())
    }

    /// What is on the device before the iteration.
    fn begin(&mut self) -> Result<(), Fault> {
        for (storage, place) in self.graph.storages.iter().zip(&self.places) {
            if *place != Place::Away {
                self.held += storage.bytes;
                self.changes.push((0, 0, false, storage.bytes));
            }
        }
        let bytes = self.held;
        if bytes > self.budget { Err(Fault::OverBudget { bytes }) } else { Ok(()) }
    }

    fn bytes(&self, storage: u32) -> Result<u64, Fault> {
        let storage = self.graph.storages.get(storage as usize).filter(|s| s.alias.is_none());
        storage.map(|storage| storage.bytes).ok_or(Fault::Unknown)
    }

    fn plain(&self, storage: u32) -> Result<u64, Fault> {
        match self.places[storage as usize] {
            Place::Plain { since } => Ok(since),
            _ => Err(Fault::Absent { storage }),
        }
    }

    fn issue(&mut self, step: Step) -> Result<Span, Fault> {
        match step {
            Step::Hosted(storage) => Err(Fault::NotHosted { storage }),
            Step::Run(operation) => self.run(operation),
            Step::Drop(storage) => self.drop(storage),
            Step::Out(storage) => self.leave(storage),
            Step::In(storage) => self.return_back(storage),
            Step::Encode(storage) => self.recode(storage, true),
            Step::Decode(storage) => self.recode(storage, false),
        }
    }

    /// Takes bytes: the earliest moment from `from` on at which there is room.
    fn take(&mut self, bytes: u64, from: u64) -> Result<u64, Fault> {
        while let Some(&Reverse((end, gone))) = self.leaving.peek() {
            let over = self.held.saturating_add(bytes) > self.budget;
            // No step from here on begins before compute has come so far.
            if end > self.compute && !over {
                break;
            }
            if end > self.compute {
                self.waited = self.waited.max(end);
            }
            self.held -= gone;
            self.leaving.pop();
        }
        let held = self.held.saturating_add(bytes);
        if held > self.budget {
            return Err(Fault::OverBudget { bytes: held });
        }
        self.held = held;
        let at = from.max(self.waited);
        self.note(at, false, bytes);
        Ok(at)
    }

    fn note(&mut self, at: u64, goes: bool, bytes: u64) {
        self.changes.push((at, self.outcome.spans.len(), goes, bytes));
    }

    fn give(&mut self, bytes: u64, at: u64) {
        self.held -= bytes;
        self.note(at, true, bytes);
    }

    fn run(&mut self, index: u32) -> Result<Span, Fault> {
        let graph = self.graph;
        let operation = graph.operations.get(index as usize).ok_or(Fault::Unknown)?;
        let (mut from, mut fresh) = (self.compute, 0);
        for &(storage, _) in &graph.needs[index as usize] {
            from = from.max(self.plain(storage)?);
        }
        let made = &graph.makes[index as usize];
        for &(storage, version) in made {
            // A version above the first is a change in place, of what is needed.
            if version == 0 {
                if self.places[storage as usize] != Place::Away {
                    return Err(Fault::Present { storage });
                }
                fresh += graph.storages[storage as usize].bytes;
            }
        }
        let start = self.take(fresh, from)?;
        self.compute = start.saturating_add(operation.nanos);
        for &(storage, _) in made {
            self.places[storage as usize] = Place::Plain { since: self.compute };
            self.hosted[storage as usize] = None;
        }
        if core::mem::replace(&mut self.ran[index as usize], true) {
            self.outcome.recomputed = self.outcome.recomputed.saturating_add(operation.nanos);
        }
        Ok(Span { start, end: self.compute })
    }

    fn drop(&mut self, storage: u32) -> Result<Span, Fault> {
        let bytes = self.bytes(storage)?;
        let (bytes, since) = match self.places[storage as usize] {
            Place::Plain { since } => (bytes, since),
            Place::Encoded { since } => (self.encoding(storage)?.bytes, since),
            Place::Away => return Err(Fault::Absent { storage }),
        };
        // What is still on its way from the host has to arrive first.
        self.compute = self.compute.max(since);
        self.places[storage as usize] = Place::Away;
        self.give(bytes, self.compute);
        Ok(Span { start: self.compute, end: self.compute })
    }

    fn leave(&mut self, storage: u32) -> Result<Span, Fault> {
        let bytes = self.bytes(storage)?;
        let start = self.plain(storage)?.max(self.compute).max(self.out);
        let end = start.saturating_add(self.link.nanos_out(bytes));
        self.out = end;
        self.places[storage as usize] = Place::Away;
        self.hosted[storage as usize] = Some(end);
        self.leaving.push(Reverse((end, bytes)));
        self.note(end, true, bytes);
        self.outcome.moved = self.outcome.moved.saturating_add(bytes);
        Ok(Span { start, end })
    }

    fn return_back(&mut self, storage: u32) -> Result<Span, Fault> {
        let bytes = self.bytes(storage)?;
        if self.places[storage as usize] != Place::Away {
            return Err(Fault::Present { storage });
        }
        let hosted = self.hosted[storage as usize].ok_or(Fault::Absent { storage })?;
        let start = self.take(bytes, hosted.max(self.compute).max(self.back))?;
        let end = start.saturating_add(self.link.nanos_back(bytes));
        self.back = end;
        self.places[storage as usize] = Place::Plain { since: end };
        self.outcome.moved = self.outcome.moved.saturating_add(bytes);
        Ok(Span { start, end })
    }

    fn encoding(&self, storage: u32) -> Result<Encoding, Fault> {
        self.graph.storages[storage as usize].encoding.ok_or(Fault::Unknown)
    }

    fn recode(&mut self, storage: u32, encode: bool) -> Result<Span, Fault> {
        let bytes = self.bytes(storage)?;
        let encoding = self.encoding(storage)?;
        let since = match self.places[storage as usize] {
            Place::Plain { since } if encode => since,
            Place::Encoded { since } if !encode => since,
            _ => return Err(Fault::Absent { storage }),
        };
        let (new, old, nanos) = if encode {
            (encoding.bytes, bytes, encoding.encode)
        } else {
            (bytes, encoding.bytes, encoding.decode)
        };
        let start = self.take(new, self.compute.max(since))?;
        self.compute = start.saturating_add(nanos);
        let since = self.compute;
        self.places[storage as usize] =
            if encode { Place::Encoded { since } } else { Place::Plain { since } };
        self.give(old, self.compute);
        self.outcome.encoding = self.outcome.encoding.saturating_add(nanos);
        Ok(Span { start, end: self.compute })
    }

    /// The most bytes at a moment. Where several steps come and go at one, they do so in order.
    fn highest(&mut self) -> u64 {
        self.changes.sort_unstable();
        let (mut now, mut most) = (0_u64, 0);
        for &(_, _, goes, bytes) in &self.changes {
            now = if goes { now.saturating_sub(bytes) } else { now.saturating_add(bytes) };
            most = most.max(now);
        }
        most
    }
}
