//! The part of a profile that is used, extracted while the file is read.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::error::{KinetoError, Stopped};
use super::gpu::{Activity, Call};
use super::nanoseconds;
use super::totals::Total;
use crate::import::MAX_EVENTS;
use crate::import::recording::{Annotations, Mark, Memory, Op};

/// The used part of a profile. Records are positions in the list of events.
#[derive(Default)]
pub(super) struct Profile {
    pub(super) memory: Vec<Located>,
    pub(super) ops: Vec<Op>,
    pub(super) annotations: Annotations,
    /// The activities of GPUs.
    pub(super) activities: Vec<Activity>,
    /// The host's calls that started them.
    pub(super) calls: Vec<Call>,
}

/// A memory event, its device (`Device Type` and `Device Id`), and what was in use there after it.
pub(super) type Located = ((i32, i32), (Memory, Total));

/// Reads a profile to its end.
pub(super) fn read(from: impl Read) -> Result<Profile, KinetoError> {
    let left = Rc::new(Cell::new(LONGEST_RECORD));
    let file = BufReader::with_capacity(1 << 16, Limited { from, left: Rc::clone(&left) });
    let mut json = serde_json::Deserializer::from_reader(file);
    let mut reader = Reader { left, ..Reader::default() };
    match (&mut json).deserialize_any(Whole(&mut reader)).and_then(|()| json.end()) {
        Err(error) => Err(reader.failed.take().unwrap_or_else(|| reader.explain(error))),
        Ok(()) if !reader.found => Err(KinetoError::NoTraceEvents),
        Ok(()) => Ok(reader.profile),
    }
}

/// The most bytes between two events of a profile: 64 MiB. Without a limit a small compressed file
/// could have the JSON parser hold a text of any length.
const LONGEST_RECORD: usize = 64 << 20;

/// Fails once `left` bytes have been read.
struct Limited<R> {
    from: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.left.get().checked_sub(buffer.len()) else {
            return Err(io::Error::other("a single record takes more than 64 MiB"));
        };
        let read = self.from.read(buffer)?;
        self.left.set(left + (buffer.len() - read));
        Ok(read)
    }
}

#[derive(Default)]
struct Reader {
    profile: Profile,
    /// How many bytes may be read before the next event.
    left: Rc<Cell<usize>>,
    /// Whether there were `traceEvents`.
    found: bool,
    /// Whether the file is just the list of events.
    bare: bool,
    /// The event that is being read, while one is.
    record: Option<u32>,
    /// Why an event was not accepted: errors of the parser can only carry text.
    failed: Option<KinetoError>,
}

impl Reader {
    fn explain(&self, error: serde_json::Error) -> KinetoError {
        let events = if self.bare { "the list" } else { "traceEvents" };
        let (record, line, column) = (self.record, error.line(), error.column());
        let stopped = Stopped { events, record, line, column };
        match (error.classify(), error.io_error_kind()) {
            (Category::Eof, _) | (_, Some(io::ErrorKind::UnexpectedEof)) => {
                KinetoError::CutOff { stopped }
            }
            (Category::Io, _) => KinetoError::Io { stopped, source: error.into() },
            (Category::Data, _) => KinetoError::Unexpected { stopped, source: error },
            (Category::Syntax, _) => KinetoError::Json { stopped, source: error },
        }
    }
}

/// The whole file.
struct Whole<'a>(&'a mut Reader);

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents, as the PyTorch profiler exports it, or their list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        (self.0.found, self.0.bare) = (true, true);
        Events(self.0).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            self.0.left.set(LONGEST_RECORD);
            if key == "traceEvents" {
                self.0.found = true;
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The list of events.
struct Events<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let reader = self.0;
        for record in 0.. {
            reader.record = Some(record);
            reader.left.set(LONGEST_RECORD);
            let Some(event) = list.next_element::<Event>()? else { break };
            if let Err(error) = reader.profile.add(&event, record) {
                reader.failed = Some(error);
                return Err(A::Error::custom("not accepted"));
            }
        }
        reader.record = None;
        Ok(())
    }
}

/// An event, with the text of its fields: few events are used, and of those that are not, the
/// fields may have any type.
#[derive(Deserialize)]
struct Event {
    ph: Option<Box<RawValue>>,
    cat: Option<Box<RawValue>>,
    name: Option<Box<RawValue>>,
    ts: Option<Box<RawValue>>,
    dur: Option<Box<RawValue>>,
    args: Option<Box<RawValue>>,
}

/// What a `[memory]` event says besides when and where.
#[derive(Deserialize)]
struct MemoryArgs<'a> {
    #[serde(rename = "Bytes")]
    bytes: i64,
    #[serde(rename = "Addr")]
    address: i64,
    #[serde(rename = "Device Type", default)]
    device_type: i32,
    #[serde(rename = "Device Id", default)]
    device_id: i32,
    #[serde(rename = "Total Allocated", default, borrow)]
    total: Option<&'a RawValue>,
}

impl MemoryArgs<'_> {
    /// Any value: nothing else depends on it.
    fn total(&self) -> Total {
        let Some(text) = self.total.map(RawValue::get) else { return Total::Missing };
        text.parse().map_or(Total::Nonsense, Total::Bytes)
    }
}

/// What a kernel or a copy says besides when. Others than PyTorch's are not of use.
#[derive(Deserialize)]
struct ActivityArgs {
    device: i32,
    correlation: i64,
}

/// What a call of the CUDA runtime or driver says besides when.
#[derive(Deserialize)]
struct CallArgs {
    correlation: i64,
}

impl Profile {
    /// Keeps what is used of an event.
    fn add(&mut self, event: &Event, record: u32) -> Result<(), KinetoError> {
        let name = text(event.name.as_deref());
        match (&*text(event.ph.as_deref()), &*text(event.cat.as_deref()), &*name) {
            ("i" | "I", _, "[memory]") => self.memory.extend(event.memory(record)?),
            ("X", "cpu_op", _) => {
                let Mark { start, end, .. } = event.mark(record)?;
                self.ops.push(Op { start, end });
            }
            ("X", "user_annotation", name) if Annotations::knows(name) => {
                self.annotations.add(name, event.mark(record)?);
            }
            ("X", "kernel" | "gpu_memcpy" | "gpu_memset", _) => {
                if let Some(ActivityArgs { device, correlation }) = event.args() {
                    let Mark { start, end, .. } = event.mark(record)?;
                    self.activities.push(Activity { start, end, device, correlation });
                }
            }
            ("X", "cuda_runtime" | "cuda_driver", _) => {
                if let Some(CallArgs { correlation }) = event.args() {
                    let at = event.time(record, "ts", event.ts.as_deref())?;
                    self.calls.push(Call { at, correlation });
                }
            }
            _ => {}
        }
        let Self { memory, ops, annotations, activities, calls } = self;
        let host = ops.len() + annotations.len() + calls.len();
        if memory.len() + host + activities.len() > MAX_EVENTS {
            return Err(KinetoError::TooMany);
        }
        Ok(())
    }
}

impl Event {
    fn time(
        &self,
        record: u32,
        field: &'static str,
        value: Option<&RawValue>,
    ) -> Result<i64, KinetoError> {
        let time = value.and_then(|value| nanoseconds::parse(value.get()));
        time.ok_or_else(|| not_understood(record, field, value))
    }

    fn mark(&self, record: u32) -> Result<Mark, KinetoError> {
        let start = self.time(record, "ts", self.ts.as_deref())?;
        let dur = self.dur.as_deref();
        let length = self.time(record, "dur", dur)?;
        let end = start.checked_add(length).filter(|&end| end >= start);
        let end = end.ok_or_else(|| not_understood(record, "dur", dur))?;
        Ok(Mark { start, end, record })
    }

    /// Nothing if the event is of no bytes.
    fn memory(&self, record: u32) -> Result<Option<Located>, KinetoError> {
        let at = self.time(record, "ts", self.ts.as_deref())?;
        let Some(args) = self.args::<MemoryArgs<'_>>() else {
            let args = self.args.as_deref();
            return Err(not_understood(record, "args (with Bytes and Addr)", args));
        };
        let total = args.total();
        let MemoryArgs { bytes, address, device_type, device_id, .. } = args;
        let memory = Memory { at, address, bytes, record };
        Ok((bytes != 0).then_some(((device_type, device_id), (memory, total))))
    }

    /// Its arguments, if they are of this kind.
    fn args<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.args.as_deref()?.get()).ok()
    }
}

fn not_understood(record: u32, field: &'static str, value: Option<&RawValue>) -> KinetoError {
    const SHOWN: usize = 60;
    let found = value.map(|value| value.get().chars().take(SHOWN).collect());
    KinetoError::Field { record, field, found }
}

/// The text that a field holds; empty if it holds something else.
fn text(value: Option<&RawValue>) -> Cow<'_, str> {
    let json = value.map_or("", RawValue::get);
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        _ => serde_json::from_str::<String>(json).unwrap_or_default().into(),
    }
}
