//! `zico convert`

use std::io::Write;
use std::path::PathBuf;

use zico_core::Bytes;

use crate::args::Convert;
use crate::convert::{Description, convert};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::{Options, Origin};
use crate::output::Output;
use crate::terminal::{line, stdout};

/// Writes a temporary file beside the output and renames it, so that a failure loses nothing.
pub(crate) fn run(args: &Convert) -> Result<Exit, Failure> {
    Output::new(&args.output, args.force, [&args.input])?;
    let mut beside = args.output.clone().into_os_string();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let description = Description {
        name: args.name.clone(),
        provenance: args.provenance.clone(),
        bandwidth: args.bandwidth,
    };
    let options = args.recording.options();
    let converted = convert(&args.input, &beside, description, &options).map_err(Failure::from);
    let renamed = converted.and_then(|summary| {
        if summary.origin.is_none() && options != Options::default() {
            return Err(Failure::NoRecording);
        }
        let failed = |source| Failure::Write { path: args.output.clone(), source };
        std::fs::rename(&beside, &args.output).map_err(failed).map(|()| summary)
    });
    if renamed.is_err() {
        // Most likely the file does not exist; the first error matters more than this one.
        let _ = std::fs::remove_file(&beside);
    }
    let summary = renamed?;
    writeln!(
        stdout(),
        "{}: {} iterations, {} blocks ({} of them from before the first iteration), {} launches; \
         {} read, {} written to {}",
        line(&summary.name),
        summary.iterations,
        summary.blocks,
        summary.setup_blocks,
        summary.launches,
        Bytes::new(summary.read),
        Bytes::new(summary.written),
        args.output.display(),
    )?;
    for said in summary.origin.iter().flat_map(Origin::lines) {
        writeln!(stdout(), "{}: {}", line(&summary.name), line(&said))?;
    }
    Ok(Exit::Fine)
}
