//! Finds the traces that are asked for: files, or bundled ones by name.

use std::path::Path;

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
    if bundled::names().any(|bundled| bundled == name) {
        return Ok(bundled::open(name)?);
    }
    let bundled = bundled::names().collect::<Vec<_>>().join(", ");
    Err(Failure::UnknownTrace { name: name.to_owned(), bundled })
}

/// All of them.
pub(crate) fn load_all(names: &[String]) -> Result<Vec<Trace>, Failure> {
    names.iter().map(|name| load(name)).collect()
}
