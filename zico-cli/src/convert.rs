//! `zico convert`: makes a `.ztrace` of a recorded profile.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use zico_mock::trace::{Trace, TraceError};

use crate::import::{self, ImportError, Imported, Options, Origin};

/// What is said of a converted trace, if anything is, instead of what the recording says.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Its name in reports.
    pub name: Option<String>,
    /// Who made it from what, in free text.
    pub provenance: Option<String>,
    /// Times by the bytes of blocks, which are written at so many bytes a second.
    pub bandwidth: Option<NonZeroU64>,
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The name of the trace.
    pub name: String,
    /// The length of the file read, in bytes.
    pub read: u64,
    /// The length of the file written, in bytes.
    pub written: u64,
    /// Iterations in the trace.
    pub iterations: usize,
    /// Blocks in the trace, those of the setup included.
    pub blocks: usize,
    /// Blocks alive when the first iteration starts.
    pub setup_blocks: usize,
    /// Launches in all iterations.
    pub launches: usize,
    /// The origin in a recording; none if a `.ztrace` was read.
    pub origin: Option<Origin>,
}

/// Why nothing was converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The input is no recorded job.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The blocks of the input take longer to write than time can be counted.
    #[error("no times can be made at this bandwidth")]
    Times(#[source] TraceError),
    /// The output could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Reads any file that [`import::open`] reads, and writes the trace in it to `output`, over what
/// may be there. The input is read in full before anything is written. A provenance that is given
/// is followed by what the import adds of what was in use before the recording.
///
/// # Errors
///
/// The input cannot be imported, or the output not be written.
pub fn convert(
    input: &Path,
    output: &Path,
    description: Description,
    options: &Options,
) -> Result<Summary, ConvertError> {
    let Imported { trace, origin } = import::open_with(input, options)?;
    let Description { name, provenance, bandwidth } = description;
    let name = name.unwrap_or_else(|| trace.name().to_owned());
    let more = origin.as_ref().map(Origin::provenance).unwrap_or_default();
    let provenance = provenance.map(|text| text + &more);
    let mut provenance = provenance.unwrap_or_else(|| trace.provenance().to_owned());
    let trace = match bandwidth {
        None => trace,
        Some(rate) => {
            let rule = format!("; times by a rule: each block written at {} GB/s", gigabytes(rate));
            provenance.push_str(&rule);
            trace.timed_by_bytes(rate).map_err(ConvertError::Times)?
        }
    };
    let trace = trace.described(name, provenance);

    let failed = |source| ConvertError::Write { path: output.to_owned(), source };
    let length = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let read = length(input);
    let mut file = Vec::new();
    trace.write(&mut file).map_err(failed)?;
    fs::write(output, &file).map_err(failed)?;
    Ok(summary(&trace, read, file.len() as u64, origin))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn gigabytes(bytes: NonZeroU64) -> f64 {
    bytes.get() as f64 / 1e9
}

fn summary(trace: &Trace, read: u64, written: u64, origin: Option<Origin>) -> Summary {
    let stats = trace.stats();
    Summary {
        name: trace.name().to_owned(),
        read,
        written,
        iterations: trace.iterations().len(),
        blocks: trace.blocks().len(),
        setup_blocks: trace.setup().len(),
        launches: stats.iterations.iter().map(|iteration| iteration.launches).sum(),
        origin,
    }
}
