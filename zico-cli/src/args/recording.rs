//! Options for recordings, common to all commands that read traces.

use clap::Parser;
use zico_core::Bytes;

use crate::import::Options;
use crate::size;

/// Options for reading a recording.
#[derive(Clone, Copy, Debug, Default, Parser)]
pub struct RecordingArgs {
    /// Of a profile or snapshot of several GPUs take the memory of this one [default: of the one
    /// that allocates the most]
    #[arg(long, value_name = "N")]
    pub device_index: Option<u32>,

    /// So much was in use when the profile or snapshot began: what it does not show of that is one
    /// more persistent block. For recordings that begin in the middle of the training and do not
    /// say so themselves (`zico inspect` tells) [default: what the recording says]
    #[arg(long, value_parser = size::amount, value_name = "SIZE")]
    pub kept_before: Option<Bytes>,
}

impl RecordingArgs {
    /// These options for the importers.
    #[must_use]
    pub fn options(&self) -> Options {
        let Self { device_index, kept_before } = *self;
        Options { device_index, kept_before }
    }
}
