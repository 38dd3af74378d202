//! Finds the traces that are asked for: files, or bundled ones by name.

use std::path::Path;

use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::trace::Trace;

use crate::Failure;
use crate::import;

/// The trace in the file `name`, or the bundled one of that name. A file wins.
pub(crate) fn load(name: &str) -> Result<Trace, Failure> {
    let path = Path::new(name);
    if path.exists() || path.components().count() > 1 {
        return Ok(import::open(path)?);
    }
    let bundled = || bundled::names().chain(bundled::made());
    if bundled().any(|bundled| bundled == name) {
        return Ok(bundled::open(name)?);
    }
    let bundled = bundled().collect::<Vec<_>>().join(", ");
    Err(Failure::UnknownTrace { name: name.to_owned(), bundled })
}

/// All of them, each with a block that it carries over from one iteration to the next, if so asked.
pub(crate) fn load_all(names: &[String], carry: Option<Bytes>) -> Result<Vec<Trace>, Failure> {
    names.iter().map(|name| carrying(load(name)?, carry)).collect()
}

/// The trace with that block, of which its name tells.
fn carrying(trace: Trace, carry: Option<Bytes>) -> Result<Trace, Failure> {
    let Some(bytes) = carry else { return Ok(trace) };
    let name = format!("{} + {bytes}", trace.name());
    let provenance = format!("{}; {bytes} more carried over each iteration", trace.provenance());
    let failed = |source| Failure::Carry { name: trace.name().to_owned(), bytes, source };
    Ok(trace.carrying(bytes).map_err(failed)?.described(name, provenance))
}
