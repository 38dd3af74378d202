//! How long operations took, by the Kineto profile of the run.
//!
//! The time of a call is that of the kernels and copies that it and the calls within it have
//! launched, or on the CPU its own. A profile that has been recorded together with the execution
//! trace names its calls (`Record function id`). In another one of the same model a call is found
//! by its name and its position among the calls of that name, where the profile has as many of them
//! or a multiple of it (then it is the mean over the iterations); and else it takes the mean time
//! of its name.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::InputProblem;
use super::calls::Calls;

/// The calls of a profile with their times, in order.
#[derive(Debug)]
pub struct Times {
    calls: Vec<Timed>,
    has_kernels: bool,
}

#[derive(Debug)]
struct Timed {
    name: String,
    record: Option<u64>,
    /// Nanoseconds on the host, and of what it has launched.
    host: f64,
    device: f64,
}

/// How the time of an operation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The profile names this call.
    Recorded,
    /// By the name and the position.
    Placed,
    /// The mean of its name.
    Mean,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(rename = "External id")]
    external: Option<u64>,
    #[serde(rename = "Record function id")]
    record: Option<u64>,
}

impl Times {
    /// Reads a profile: Chrome trace JSON.
    ///
    /// # Errors
    /// It is none, or one of its events is wrong, which is named.
    pub fn parse(text: &str) -> Result<Self, InputProblem> {
        let mut raw: Value = serde_json::from_str(text)?;
        let events = raw.get_mut("traceEvents").map(Value::take);
        let Some(Value::Array(raw)) = events else {
            return Err(InputProblem::Node("a profile has traceEvents".to_owned()));
        };
        let mut events = Vec::new();
        for (at, raw) in raw.into_iter().enumerate() {
            let kind = raw.get("cat").and_then(Value::as_str).unwrap_or_default();
            if !(kind == "cpu_op" || is_of_device(kind)) {
                continue;
            }
            let event: Event = serde_json::from_value(raw)
                .map_err(|error| InputProblem::Node(format!("event {at}: {error}")))?;
            if event.ph == "X" && event.ts.is_finite() && event.dur >= 0.0 {
                events.push(event);
            }
        }
        Ok(Self::new(events))
    }

    fn new(mut events: Vec<Event>) -> Self {
        // A call that begins where another one does and is longer is around it.
        events.sort_by(|a, b| a.ts.total_cmp(&b.ts).then(b.dur.total_cmp(&a.dur)));
        let mut device: HashMap<u64, f64> = HashMap::new();
        for event in events.iter().filter(|event| is_of_device(&event.cat)) {
            if let Some(id) = event.args.external {
                *device.entry(id).or_default() += event.dur * 1e3;
            }
        }
        let has_kernels = !device.is_empty();
        let mut calls: Vec<Timed> = Vec::new();
        // Of each thread the calls that are not over: their ends and positions.
        let mut open: HashMap<(String, String), Vec<(f64, usize)>> = HashMap::new();
        for event in events.into_iter().filter(|event| event.cat == "cpu_op") {
            let thread = open.entry((event.pid.to_string(), event.tid.to_string())).or_default();
            while thread.last().is_some_and(|&(end, _)| end <= event.ts) {
                thread.pop();
            }
            // An id names one call: its kernels count once.
            let own = event.args.external.and_then(|id| device.remove(&id)).unwrap_or(0.0);
            thread.iter().for_each(|&(_, around)| calls[around].device += own);
            thread.push((event.ts + event.dur, calls.len()));
            let (name, record) = (event.name, event.args.record);
            calls.push(Timed { name, record, host: event.dur * 1e3, device: own });
        }
        Self { calls, has_kernels }
    }

    /// The times of operations in nanoseconds, as far as they are known.
    pub(super) fn of(&self, calls: &Calls, chosen: &[usize]) -> Vec<Option<(u64, Found)>> {
        let device = self.has_kernels && !calls.on_cpu;
        let time = |timed: &Timed| if device { timed.device } else { timed.host };
        let records: HashMap<u64, &Timed> =
            self.calls.iter().filter_map(|timed| Some((timed.record?, timed))).collect();
        let same = |&at: &usize| {
            let call = &calls.all[at];
            let timed = records.get(&call.record?).filter(|timed| timed.name == call.name)?;
            Some((rounded(time(timed)), Found::Recorded))
        };
        let found: Vec<_> = chosen.iter().map(same).collect();
        if 2 * found.iter().flatten().count() >= chosen.len() {
            return found;
        }
        let mut named: HashMap<&str, Vec<f64>> = HashMap::new();
        for timed in &self.calls {
            named.entry(&timed.name).or_default().push(time(timed));
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        // Among all calls of a name, also those that are no operations.
        let position: Vec<usize> =
            calls.all.iter().map(|call| next(&mut counts, &call.name)).collect();
        let placed = |&at: &usize| {
            let name = calls.all[at].name.as_str();
            let (all, count) = (named.get(name)?, *counts.get(name)?);
            let fits = all.len().is_multiple_of(count);
            let (from, step) = if fits { (position[at], count) } else { (0, 1) };
            let taken: Vec<f64> = all.iter().skip(from).step_by(step).copied().collect();
            let mean = taken.iter().sum::<f64>() / taken.len() as f64;
            Some((rounded(mean), if fits { Found::Placed } else { Found::Mean }))
        };
        chosen.iter().map(placed).collect()
    }
}

fn is_of_device(kind: &str) -> bool {
    matches!(kind, "kernel" | "gpu_memcpy" | "gpu_memset")
}

fn next<'a>(positions: &mut HashMap<&'a str, usize>, name: &'a str) -> usize {
    let count = positions.entry(name).or_default();
    *count += 1;
    *count - 1
}

/// At most 2^40, a quarter of an hour, so that many can be added.
fn rounded(nanos: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = nanos.max(0.0).round() as u64;
    whole.min(1 << 40)
}
