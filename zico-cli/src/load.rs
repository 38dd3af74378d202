//! Loads traces: files, or bundled ones by name.

use std::io::Write;
use std::path::Path;

use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::trace::Trace;
use zico_plan::Block;

use crate::args::RecordingArgs;
use crate::failure::Failure;
use crate::import::{self, Imported, Options, Origin, csv};
use crate::terminal::{line, stderr};

/// The trace in the file `name`, or the bundled one of that name. A file takes precedence. Warnings
/// about a recording go to standard error.
pub(crate) fn load(name: &str, recording: &RecordingArgs) -> Result<Trace, Failure> {
    let imported = find(name, &recording.options())?;
    check(&[(name, &imported)], &recording.options())?;
    warn(name, &imported);
    Ok(imported.trace)
}

/// All of them, each with an additional block that is carried over from one iteration to the next,
/// if asked for.
pub(crate) fn load_all(
    names: &[String],
    carry: Option<Bytes>,
    recording: &RecordingArgs,
) -> Result<Vec<Trace>, Failure> {
    let all = import_all(names, carry, recording)?;
    // Once, where the same one is given several times.
    let new = |at: &usize| !names[..*at].contains(&names[*at]);
    (0..names.len()).filter(new).for_each(|at| warn(&names[at], &all[at]));
    Ok(all.into_iter().map(|imported| imported.trace).collect())
}

/// The same, with the origins of the recordings, and without warnings.
pub(crate) fn import_all(
    names: &[String],
    carry: Option<Bytes>,
    recording: &RecordingArgs,
) -> Result<Vec<Imported>, Failure> {
    let options = recording.options();
    let all: Vec<Imported> =
        names.iter().map(|name| find(name, &options)).collect::<Result<_, _>>()?;
    let named: Vec<(&str, &Imported)> = names.iter().map(String::as_str).zip(&all).collect();
    check(&named, &options)?;
    let carrying =
        |Imported { trace, origin }| carrying(trace, carry).map(|trace| Imported { trace, origin });
    all.into_iter().map(carrying).collect()
}

/// The traces in files, or the bundled recordings of these names, that say what each launch reads
/// and writes.
pub(crate) fn load_operations(
    names: &[String],
    recording: &RecordingArgs,
) -> Result<Vec<Trace>, Failure> {
    let one = |name: &String| {
        let bundled = !is_file(name) && bundled::operations().any(|bundled| bundled == name);
        let trace = if bundled { bundled::open_operations(name)? } else { load(name, recording)? };
        let known = trace.has_operations().then_some(trace);
        known.ok_or_else(|| Failure::NoOperations {
            name: name.clone(),
            bundled: bundled::operations().collect::<Vec<_>>().join(", "),
        })
    };
    names.iter().map(one).collect()
}

/// Blocks to plan, of a CSV file or of a trace's repeating iteration.
pub(crate) struct Problem {
    /// The file's name, or the trace's.
    pub(crate) name: String,
    /// What each block is called, in the order of the blocks.
    pub(crate) ids: Vec<String>,
    /// The blocks.
    pub(crate) blocks: Vec<Block>,
    /// Of a trace: the sum of its persistent blocks.
    pub(crate) persistent: Option<Bytes>,
}

impl Problem {
    /// Reads a CSV file of blocks, or else a trace as [`load`] does.
    pub(crate) fn open(file: &str, recording: &RecordingArgs) -> Result<Self, Failure> {
        let path = Path::new(file);
        if csv::looks_like(path) {
            check(&[], &recording.options())?;
            let csv::Blocks { ids, blocks } = csv::open(path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Self { name, ids, blocks, persistent: None });
        }
        let trace = load(file, recording)?;
        let repeating = trace.repeating();
        let ids = repeating.ids.iter().map(|id| id.value().to_string()).collect();
        let (name, persistent) = (trace.name().to_owned(), Some(repeating.persistent));
        Ok(Self { name, ids, blocks: repeating.blocks, persistent })
    }
}

fn find(name: &str, options: &Options) -> Result<Imported, Failure> {
    if is_file(name) {
        return Ok(import::open_with(Path::new(name), options)?);
    }
    if bundled::every().any(|bundled| bundled == name) {
        return Ok(Imported { trace: bundled::open(name)?, origin: None });
    }
    let bundled = bundled::every().collect::<Vec<_>>().join(", ");
    Err(Failure::UnknownTrace { name: name.to_owned(), bundled })
}

/// A file, or else the name of a bundled trace.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || path.components().count() > 1
}

/// Refuses options for recordings without a recording, and `--kept-before` with several.
pub(crate) fn check(all: &[(&str, &Imported)], options: &Options) -> Result<(), Failure> {
    let recordings = all.iter().filter(|(_, imported)| imported.origin.is_some());
    let mut names: Vec<&str> = recordings.map(|&(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    match (names.as_slice(), options.kept_before) {
        _ if *options == Options::default() => Ok(()),
        ([], _) => Err(Failure::NoRecording),
        ([first, second, ..], Some(_)) => {
            Err(Failure::KeptBeforeOfSeveral((*first).to_owned(), (*second).to_owned()))
        }
        _ => Ok(()),
    }
}

fn warn(name: &str, imported: &Imported) {
    let warnings = imported.origin.iter().flat_map(Origin::warnings);
    for warning in warnings {
        // Standard error may be closed.
        let _ = writeln!(stderr(), "zico: {}: {}", line(name), line(&warning));
    }
}

/// The trace with that block, and with the block in its name.
fn carrying(trace: Trace, carry: Option<Bytes>) -> Result<Trace, Failure> {
    let Some(bytes) = carry else { return Ok(trace) };
    let name = format!("{} + {bytes}", trace.name());
    let provenance = format!("{}; {bytes} more carried over each iteration", trace.provenance());
    let failed = |source| Failure::Carry { name: trace.name().to_owned(), bytes, source };
    Ok(trace.carrying(bytes).map_err(failed)?.described(name, provenance))
}
