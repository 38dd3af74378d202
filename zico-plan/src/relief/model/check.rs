//! Whether a schedule with its times is one: a checker that knows nothing of how it was found.

use alloc::vec::Vec;

use crate::relief::{Encoding, Fault, Graph, Link, Refusal, Span, Step};

/// What a schedule has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The bytes that may be on the device at once.
    pub budget: u64,
    /// Whether an encoding may change the contents.
    pub lossy: bool,
}

/// Checks a schedule and the times at which its steps take place, and gives the most bytes on the
/// device.
///
/// In the order of the steps: each operation runs; each time it finds the versions of its storages
/// that it read when it was recorded; one that is not repeatable runs once, and in the recorded
/// order of those; and what is kept is there in the end, on the host if it was there before. By the
/// clock: a step takes as long as it
/// has to, no channel does two things at once, nothing begins before what it uses is there, nothing
/// leaves before what uses it has ended. And bytes: a storage counts from when the step that makes
/// it begins to when the one that takes it away ends, and at no moment is there more than the
/// budget.
///
/// It shares no code with [`simulate`](crate::relief::simulate). O(s log s) for s steps and their
/// reads.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(
    graph: &Graph,
    link: &Link,
    steps: &[Step],
    spans: &[Span],
    terms: Terms,
) -> Result<u64, Refusal> {
    let mut checker = Checker::new(graph, link, terms);
    for (at, &step) in steps.iter().enumerate() {
        checker.at = at;
        let fault = match spans.get(at) {
            Some(&span) => checker.step(step, span),
            None => Err(Fault::Untimely),
        };
        fault.map_err(|fault| Refusal { step: at, fault })?;
    }
    checker.end().map_err(|fault| Refusal { step: steps.len(), fault })?;
    checker.highest(terms.budget).map_err(|fault| Refusal { step: steps.len(), fault })
}

/// Contents of a storage somewhere: the version, when it was complete, and when it was last in use.
#[derive(Clone, Copy, Debug)]
struct Copy {
    version: u32,
    ready: u64,
    used: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Whereabouts {
    plain: Option<Copy>,
    encoded: Option<Copy>,
    host: Option<Copy>,
}

/// A moment, the position of the step, and the bytes.
type Change = (u64, usize, u64);

struct Checker<'a> {
    graph: &'a Graph,
    link: &'a Link,
    lossy: bool,
    storages: Vec<Whereabouts>,
    ran: Vec<bool>,
    /// The last operation that ran of those that must not run twice.
    once: Option<u32>,
    /// When each channel is free: compute, out, back.
    free: [u64; 3],
    /// Moments at which bytes come and go, but for what is on the device in the beginning.
    comes: Vec<Change>,
    goes: Vec<Change>,
    /// The position of the step.
    at: usize,
    /// What is on the host before the iteration and after it, and the bytes of that.
    outside: Vec<bool>,
    outside_bytes: u64,
}

impl<'a> Checker<'a> {
    fn new(graph: &'a Graph, link: &'a Link, terms: Terms) -> Self {
        let mut storages = alloc::vec![Whereabouts::default(); graph.storages().len()];
        for (at, storage) in graph.storages().iter().enumerate() {
            if storage.initial && storage.alias.is_none() {
                storages[at].plain = Some(Copy { version: 0, ready: 0, used: 0 });
            }
        }
        Self {
            graph,
            link,
            lossy: terms.lossy,
            storages,
            ran: alloc::vec![false; graph.operations().len()],
            once: None,
            free: [0; 3],
            comes: Vec::new(),
            goes: Vec::new(),
            at: 0,
            outside: alloc::vec![false; graph.storages().len()],
            outside_bytes: 0,
        }
    }

    fn step(&mut self, step: Step, span: Span) -> Result<(), Fault> {
        match step {
            Step::Hosted(storage) => self.hosted(storage, span),
            Step::Run(operation) => self.run(operation, span),
            Step::Drop(storage) => self.drop(storage, span),
            Step::Out(storage) => self.out(storage, span),
            Step::In(storage) => self.back(storage, span),
            Step::Encode(storage) => self.encode(storage, span),
            Step::Decode(storage) => self.decode(storage, span),
        }
    }

    /// Nothing but such steps has come before.
    fn hosted(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let known = self.graph.storages().get(storage as usize).ok_or(Fault::Unknown)?;
        let first = self.outside.iter().filter(|&&is| is).count() == self.at;
        let may = known.initial && known.kept && known.alias.is_none();
        if !may || !first || core::mem::replace(&mut self.outside[storage as usize], true) {
            return Err(Fault::NotHosted { storage });
        }
        if span != Span::default() {
            return Err(Fault::Untimely);
        }
        let place = &mut self.storages[storage as usize];
        place.host = place.plain.take();
        self.outside_bytes += known.bytes;
        Ok(())
    }

    /// The channel is busy for exactly so long, and was free before.
    fn busy(&mut self, channel: usize, span: Span, nanos: u64) -> Result<(), Fault> {
        if span.start < self.free[channel] || span.end != span.start.saturating_add(nanos) {
            return Err(Fault::Untimely);
        }
        self.free[channel] = span.end;
        Ok(())
    }

    fn storage(&self, storage: u32) -> Result<(Whereabouts, u64), Fault> {
        let known = self.graph.storages().get(storage as usize).filter(|s| s.alias.is_none());
        let bytes = known.ok_or(Fault::Unknown)?.bytes;
        Ok((self.storages[storage as usize], bytes))
    }

    fn run(&mut self, index: u32, span: Span) -> Result<(), Fault> {
        let graph = self.graph;
        let at = index as usize;
        let operation = graph.operations().get(at).ok_or(Fault::Unknown)?;
        if !operation.repeatable {
            if self.ran[at] || self.once.is_some_and(|last| last > index) {
                return Err(Fault::NotRepeatable { operation: index });
            }
            self.once = Some(index);
        }
        self.ran[at] = true;
        self.busy(0, span, operation.nanos)?;
        for &(storage, version) in &graph.needs[at] {
            let place = &mut self.storages[storage as usize];
            let copy = place.plain.as_mut().ok_or(Fault::Absent { storage })?;
            if copy.version != version {
                return Err(Fault::Stale { storage });
            }
            if copy.ready > span.start {
                return Err(Fault::Untimely);
            }
            copy.used = copy.used.max(span.end);
        }
        for &(storage, version) in &graph.makes[at] {
            let place = &mut self.storages[storage as usize];
            match &mut place.plain {
                None if version > 0 => return Err(Fault::Absent { storage }),
                None => {
                    let bytes = graph.storages()[storage as usize].bytes;
                    self.comes.push((span.start, self.at, bytes));
                }
                Some(_) if version == 0 => return Err(Fault::Present { storage }),
                // Nothing else may still be using what is changed.
                Some(copy) if copy.used > span.end => return Err(Fault::Untimely),
                Some(_) => {}
            }
            if place.encoded.is_some() {
                return Err(Fault::Present { storage });
            }
            place.plain = Some(Copy { version, ready: span.end, used: span.end });
        }
        Ok(())
    }

    fn drop(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let (mut place, bytes) = self.storage(storage)?;
        let (copy, bytes) = match (place.plain.take(), place.encoded.take()) {
            (Some(copy), None) => (copy, bytes),
            (None, Some(copy)) => (copy, self.encoding(storage)?.bytes),
            _ => return Err(Fault::Absent { storage }),
        };
        if span.start != span.end || span.start < copy.ready.max(copy.used) {
            return Err(Fault::Untimely);
        }
        self.goes.push((span.end, self.at, bytes));
        self.storages[storage as usize] = place;
        Ok(())
    }

    fn out(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let (mut place, bytes) = self.storage(storage)?;
        let copy = place.plain.take().ok_or(Fault::Absent { storage })?;
        self.busy(1, span, self.link.nanos_out(bytes))?;
        if span.start < copy.ready || span.end < copy.used {
            return Err(Fault::Untimely);
        }
        place.host = Some(Copy { version: copy.version, ready: span.end, used: span.end });
        self.goes.push((span.end, self.at, bytes));
        self.storages[storage as usize] = place;
        Ok(())
    }

    fn back(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let (mut place, bytes) = self.storage(storage)?;
        let host = place.host.ok_or(Fault::Absent { storage })?;
        if place.plain.is_some() || place.encoded.is_some() {
            return Err(Fault::Present { storage });
        }
        self.busy(2, span, self.link.nanos_back(bytes))?;
        if span.start < host.ready {
            return Err(Fault::Untimely);
        }
        place.plain = Some(Copy { version: host.version, ready: span.end, used: span.end });
        self.comes.push((span.start, self.at, bytes));
        self.storages[storage as usize] = place;
        Ok(())
    }

    fn encoding(&self, storage: u32) -> Result<Encoding, Fault> {
        self.graph.storages()[storage as usize].encoding.ok_or(Fault::Unknown)
    }

    fn encode(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let (mut place, bytes) = self.storage(storage)?;
        let encoding = self.encoding(storage)?;
        if encoding.lossy && !self.lossy {
            return Err(Fault::Lossy { storage });
        }
        let copy = place.plain.take().ok_or(Fault::Absent { storage })?;
        self.busy(0, span, encoding.encode)?;
        if span.start < copy.ready || span.end < copy.used {
            return Err(Fault::Untimely);
        }
        place.encoded = Some(Copy { version: copy.version, ready: span.end, used: span.end });
        self.comes.push((span.start, self.at, encoding.bytes));
        self.goes.push((span.end, self.at, bytes));
        self.storages[storage as usize] = place;
        Ok(())
    }

    fn decode(&mut self, storage: u32, span: Span) -> Result<(), Fault> {
        let (mut place, bytes) = self.storage(storage)?;
        let encoding = self.encoding(storage)?;
        let copy = place.encoded.take().ok_or(Fault::Absent { storage })?;
        self.busy(0, span, encoding.decode)?;
        if span.start < copy.ready {
            return Err(Fault::Untimely);
        }
        place.plain = Some(Copy { version: copy.version, ready: span.end, used: span.end });
        self.comes.push((span.start, self.at, bytes));
        self.goes.push((span.end, self.at, encoding.bytes));
        self.storages[storage as usize] = place;
        Ok(())
    }

    /// All has run, and what is kept is there in its last version.
    fn end(&self) -> Result<(), Fault> {
        if let Some(operation) = (0_u32..).zip(&self.ran).find_map(|(i, ran)| (!ran).then_some(i)) {
            return Err(Fault::Missing { operation });
        }
        for ((storage, known), place) in (0_u32..).zip(self.graph.storages()).zip(&self.storages) {
            let writes = self.graph.writers[storage as usize].len();
            if !known.kept || known.alias.is_some() || (writes == 0 && !known.initial) {
                continue;
            }
            let last = writes - usize::from(!known.initial);
            let copy = if self.outside[storage as usize] {
                let alone = place.host.filter(|_| place.plain.is_none() && place.encoded.is_none());
                alone.ok_or(Fault::NotHosted { storage })?
            } else {
                place.plain.ok_or(Fault::Absent { storage })?
            };
            if copy.version as usize != last {
                return Err(Fault::Stale { storage });
            }
        }
        Ok(())
    }

    /// Goes through time. Where several steps come and go at one moment, they do so in order; what
    /// one step makes is there before what it takes away has gone.
    fn highest(&mut self, budget: u64) -> Result<u64, Fault> {
        self.comes.sort_unstable();
        self.goes.sort_unstable();
        let there = self.graph.storages().iter().filter(|one| one.initial && one.alias.is_none());
        let there: u64 = there.map(|one| one.bytes).sum();
        let mut now = u128::from(there - self.outside_bytes);
        let (mut most, mut gone) = (now, 0);
        for &(at, step, bytes) in &self.comes {
            let earlier = |going: &&Change| (going.0, going.1) < (at, step);
            while let Some(&(_, _, bytes)) = self.goes.get(gone).filter(earlier) {
                now = now.saturating_sub(u128::from(bytes));
                gone += 1;
            }
            now += u128::from(bytes);
            most = most.max(now);
        }
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        if most > budget { Err(Fault::OverBudget { bytes: most }) } else { Ok(most) }
    }
}
