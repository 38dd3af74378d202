//! The part of a snapshot that is used, extracted from its pickle.

use std::collections::{HashMap, HashSet};

use super::error::{Place, SnapshotError};
use super::pickle::{Heap, Value};
use crate::import::MAX_EVENTS;
use crate::import::before::Device;
use crate::import::recording::{Annotations, Mark, Memory};

/// The used part of a snapshot. Times are nanoseconds.
pub(super) struct Snapshot {
    /// Of the one device that counts, each at a moment of its own, in the order of its list:
    /// that is the order of the program, and times of microseconds are not fine enough.
    pub(super) memory: Vec<Memory>,
    /// Blocks that are not in that list: allocated before the recording and alive at its end.
    pub(super) older: Vec<Memory>,
    /// Whether there are segments, which have those.
    pub(super) segments: bool,
    pub(super) device: Device,
    /// Other devices that have allocated.
    pub(super) others: Vec<Device>,
    pub(super) annotations: Annotations,
    /// When the last thing happened.
    pub(super) end: i64,
}

/// Takes what is used out of a pickle.
pub(super) fn snapshot(
    heap: &Heap,
    root: Value,
    index: Option<u32>,
) -> Result<Snapshot, SnapshotError> {
    let mut reader = Reader { heap, left: MAX_EVENTS };
    let root = heap.dict(root).ok_or(SnapshotError::NotASnapshot)?;
    let traces = reader.field(root, "device_traces").ok_or(SnapshotError::NotASnapshot)?;
    let (device, others, trace) = reader.one_device(traces, index)?;
    let segments = reader.field(root, "segments");
    let older = match segments {
        Some(segments) => reader.older(segments, device, &trace.memory)?,
        None => Vec::new(),
    };
    let annotations = match reader.field(root, "external_annotations") {
        Some(annotations) => reader.annotations(annotations)?,
        None => Annotations::default(),
    };
    let Trace { memory, end } = trace;
    let (device, others) = (cuda(device), others.into_iter().map(cuda).collect());
    Ok(Snapshot { memory, older, segments: segments.is_some(), device, others, annotations, end })
}

fn cuda(index: usize) -> Device {
    Device::Accelerator { kind: 1, index: i32::try_from(index).unwrap_or(i32::MAX) }
}

/// The most fields of a record. PyTorch writes fewer than 20; the limit bounds the search in them.
const MAX_FIELDS: usize = 64;

/// What happened on a device.
struct Trace {
    memory: Vec<Memory>,
    end: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
}

/// A record, and where it stands.
#[derive(Clone, Copy)]
struct Record<'h> {
    place: Place,
    fields: &'h [(Value, Value)],
}

struct Reader<'h> {
    heap: &'h Heap,
    /// The remaining number of records. Lists may be shared, so the file's length does not bound
    /// the work.
    left: usize,
}

impl<'h> Reader<'h> {
    /// The device that counts, the others with allocations, and what happened on it: of the devices
    /// with allocations the one of this number, or the one that allocates the most.
    fn one_device(
        &mut self,
        traces: Value,
        index: Option<u32>,
    ) -> Result<(usize, Vec<usize>, Trace), SnapshotError> {
        let place = Place { list: "device_traces", index: None, inner: None };
        let wanted = index.map(|index| usize::try_from(index).unwrap_or(usize::MAX));
        let mut there = Vec::new();
        let mut found: Option<(usize, u64, Trace)> = None;
        for (device, &entries) in self.list(place, traces)?.iter().enumerate() {
            let trace = self.trace(Place { index: Some(device), ..place }, entries)?;
            if trace.memory.is_empty() {
                continue;
            }
            there.push(device);
            let allocated = trace.memory.iter().filter_map(|event| u64::try_from(event.bytes).ok());
            let bytes = allocated.fold(0, u64::saturating_add);
            // Of several that have allocated the same, the first.
            let more = found.as_ref().is_none_or(|&(_, most, _)| bytes > most);
            if wanted.map_or(more, |wanted| wanted == device) {
                found = Some((device, bytes, trace));
            }
        }
        match (found, index) {
            (Some((device, _, trace)), _) => {
                there.retain(|&other| other != device);
                Ok((device, there, trace))
            }
            (None, Some(index)) if !there.is_empty() => {
                let there = there.into_iter().map(cuda).collect();
                Err(SnapshotError::NoSuchDevice { index, there })
            }
            (None, _) => Err(SnapshotError::NoHistory),
        }
    }

    /// What happened on a device. A block is freed when the program asks for it or, where that was
    /// not recorded (`skip_actions`), when the device has passed it.
    fn trace(&mut self, place: Place, entries: Value) -> Result<Trace, SnapshotError> {
        let entries = self.list(place, entries)?;
        let mut events = Vec::new();
        let mut end = i64::MIN;
        for (index, &entry) in entries.iter().enumerate() {
            let entry = self.record(Place { inner: Some(index), ..place }, entry)?;
            let action = match self.text(entry, "action")? {
                "alloc" => Action::Alloc,
                "free_requested" => Action::FreeRequested,
                "free_completed" => Action::FreeCompleted,
                _ => continue,
            };
            end = end.saturating_add(1).max(self.time(entry)?);
            let (address, size) = (self.int(entry, "addr")?, self.int(entry, "size")?);
            let record = u32::try_from(index).unwrap_or(u32::MAX);
            match size {
                0 => continue,
                1.. => {}
                found => {
                    return Err(SnapshotError::Range { place: entry.place, field: "size", found });
                }
            }
            let bytes = if action == Action::Alloc { size } else { -size };
            events.push((action, Memory { at: end, address, bytes, record }));
        }
        let requested = events.iter().any(|&(action, _)| action == Action::FreeRequested);
        let free = if requested { Action::FreeRequested } else { Action::FreeCompleted };
        let counts = |&(action, _): &(Action, Memory)| action == Action::Alloc || action == free;
        let memory = events.into_iter().filter(counts).map(|(_, memory)| memory).collect();
        Ok(Trace { memory, end })
    }

    /// Blocks in use of which the trace says nothing.
    fn older(
        &mut self,
        segments: Value,
        device: usize,
        memory: &[Memory],
    ) -> Result<Vec<Memory>, SnapshotError> {
        let known: HashSet<i64> = memory.iter().map(|event| event.address).collect();
        let mut older = Vec::new();
        let place = Place { list: "segments", index: None, inner: None };
        for (index, &segment) in self.list(place, segments)?.iter().enumerate() {
            let place = Place { index: Some(index), ..place };
            let segment = self.record(place, segment)?;
            if usize::try_from(self.int(segment, "device")?) != Ok(device) {
                continue;
            }
            // Its blocks lie side by side.
            let mut address = self.int(segment, "address")?;
            let blocks = self.field(segment.fields, "blocks");
            let missing = SnapshotError::Field { place, field: "blocks", missing: true };
            for (inner, &block) in self.list(place, blocks.ok_or(missing)?)?.iter().enumerate() {
                let place = Place { inner: Some(inner), ..place };
                let block = self.record(place, block)?;
                let size = self.int(block, "size")?;
                let requested = match self.field(block.fields, "requested_size") {
                    Some(_) => self.int(block, "requested_size")?,
                    None => size,
                };
                let in_use = self.text(block, "state")? == "active_allocated";
                if in_use && requested > 0 && !known.contains(&address) {
                    let (at, bytes) = (i64::MIN, requested);
                    older.push(Memory { at, address, bytes, record: 0 });
                }
                let out_of_range = SnapshotError::Range { place, field: "size", found: size };
                address = address.checked_add(size).filter(|_| size >= 0).ok_or(out_of_range)?;
            }
        }
        Ok(older)
    }

    /// Annotations that began and ended within the recording.
    fn annotations(&mut self, list: Value) -> Result<Annotations, SnapshotError> {
        let place = Place { list: "external_annotations", index: None, inner: None };
        let mut annotations = Annotations::default();
        let mut open: HashMap<&str, Vec<(i64, u32)>> = HashMap::new();
        for (index, &annotation) in self.list(place, list)?.iter().enumerate() {
            let annotation = self.record(Place { index: Some(index), ..place }, annotation)?;
            // Marks of single moments have no stage.
            let (Some(name), Some(stage)) = (
                self.field(annotation.fields, "name").and_then(|name| self.heap.text(name)),
                self.field(annotation.fields, "stage").and_then(|stage| self.heap.text(stage)),
            ) else {
                continue;
            };
            if !Annotations::knows(name) {
                continue;
            }
            let at = self.time(annotation)?;
            let begun = open.entry(name).or_default();
            if stage == "START" {
                begun.push((at, u32::try_from(index).unwrap_or(u32::MAX)));
            } else if let Some((start, record)) = begun.pop() {
                annotations.add(name, Mark { start, end: at.max(start), record });
            }
        }
        Ok(annotations)
    }

    /// A list of records.
    fn list(&self, place: Place, value: Value) -> Result<&'h [Value], SnapshotError> {
        self.heap.list(value).ok_or(SnapshotError::Type { place, expected: "list" })
    }

    fn record(&mut self, place: Place, value: Value) -> Result<Record<'h>, SnapshotError> {
        self.left = self.left.checked_sub(1).ok_or(SnapshotError::TooMany)?;
        let fields = self.heap.dict(value);
        let fields = fields.ok_or(SnapshotError::Type { place, expected: "dictionary" })?;
        match fields.len() {
            ..=MAX_FIELDS => Ok(Record { place, fields }),
            found => Err(SnapshotError::Fields { place, found }),
        }
    }

    fn field(&self, fields: &[(Value, Value)], name: &str) -> Option<Value> {
        let is_it = |&&(key, _): &&(Value, Value)| self.heap.text(key) == Some(name);
        fields.iter().rev().find(is_it).map(|&(_, value)| value)
    }

    fn int(&self, record: Record<'h>, field: &'static str) -> Result<i64, SnapshotError> {
        match self.field(record.fields, field) {
            Some(Value::Int(value)) => Ok(value),
            other => {
                let missing = other.is_none();
                Err(SnapshotError::Field { place: record.place, field, missing })
            }
        }
    }

    fn text(&self, record: Record<'h>, field: &'static str) -> Result<&'h str, SnapshotError> {
        let value = self.field(record.fields, field);
        value.and_then(|value| self.heap.text(value)).ok_or(SnapshotError::Field {
            place: record.place,
            field,
            missing: value.is_none(),
        })
    }

    fn time(&self, record: Record<'h>) -> Result<i64, SnapshotError> {
        let (place, field, found) = (record.place, "time_us", self.int(record, "time_us")?);
        found.checked_mul(1000).ok_or(SnapshotError::Range { place, field, found })
    }
}
