//! Profiles written by hand, and what is said of them and of other recordings.

use std::error::Error;

use zico_cli::import::kineto::{self, KinetoError};
use zico_cli::import::{Options, Recorded};
use zico_mock::trace::{Step, Trace};

/// A `[memory]` event: `address` gets (or gives back) `bytes` at microsecond `at`.
pub(crate) fn memory(at: &str, address: u32, bytes: i64) -> String {
    format!(
        r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1,
            "ts": {at}, "args": {{"Addr": {address}, "Device Type": 0, "Device Id": -1, "Bytes": {bytes}}}}}"#
    )
}

pub(crate) fn span(category: &str, name: &str, at: &str, dur: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 1, "tid": 1, "ts": {at}, "dur": {dur}}}"#
    )
}

pub(crate) fn op(at: &str, dur: &str) -> String {
    span("cpu_op", "aten::add", at, dur)
}

pub(crate) fn annotation(name: &str, at: &str, dur: &str) -> String {
    span("user_annotation", name, at, dur)
}

pub(crate) fn profile(events: &[String]) -> String {
    format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [{{"id": 0}}], "traceEvents": [{}], "traceName": ""}}"#,
        events.join(",\n")
    )
}

pub(crate) fn read(events: &[String]) -> Result<Trace, KinetoError> {
    read_with(events, &Options::default()).map(|recorded| recorded.trace)
}

pub(crate) fn read_with(events: &[String], options: &Options) -> Result<Recorded, KinetoError> {
    kineto::read(profile(events).as_bytes(), "t".to_owned(), "by hand".to_owned(), options)
}

/// The whole message of an error, as the program prints it.
pub(crate) fn message(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", message(source)),
        None => error.to_string(),
    }
}

/// The steps of the setup and of each iteration, in short.
pub(crate) fn short(trace: &Trace) -> Vec<String> {
    let text = |steps: &[Step]| {
        let steps = steps.iter().map(|step| match *step {
            Step::Alloc { block, bytes, lifetime } => {
                format!("{lifetime} {}={}", block.value(), bytes.value())
            }
            Step::Free { block } => format!("free {}", block.value()),
            Step::Launch { work } => format!("run {}", work.value()),
            Step::Use { block, stream } => format!("use {} on {stream}", block.value()),
            Step::Phase(phase) => phase.to_string(),
        });
        steps.collect::<Vec<_>>().join(", ")
    };
    let iterations = trace.iterations().iter().map(|iteration| text(iteration.steps()));
    std::iter::once(text(trace.setup())).chain(iterations).collect()
}
