//! The errors that end the program, as messages for people.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use zico_core::Bytes;
use zico_cuda::CudaError;
use zico_mock::bundled::BundledError;
use zico_mock::replay::{ReliefError, ReplayError};
use zico_mock::trace::TraceError;
use zico_plan::PlanError;

use crate::convert::ConvertError;
use crate::import::ImportError;
use crate::import::csv::CsvError;
use crate::relief::InputError;

/// Why the program stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file is no recorded job.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A file has no operations.
    #[error(transparent)]
    Relief(#[from] InputError),
    /// A trace was named that is neither a file nor bundled.
    #[error("there is no file {name}, and no bundled trace of that name ({bundled})")]
    UnknownTrace {
        /// What was asked for.
        name: String,
        /// The names that there are.
        bundled: String,
    },
    /// A bundled trace cannot be read.
    #[error(transparent)]
    Bundled(#[from] BundledError),
    /// Relief of a trace that does not say what its operations read and write.
    #[error(
        "{name} does not say what its operations read and write, which --relief needs: take a .ztrace of version 2 \
         (zico.torch.record_operations makes one), or a bundled recording with operations ({bundled})"
    )]
    NoOperations {
        /// What was asked for.
        name: String,
        /// The names of bundled ones.
        bundled: String,
    },
    /// Jobs cannot be relieved.
    #[error(transparent)]
    Relieve(#[from] ReliefError),
    /// Relief on a device other than the simulated one.
    #[error("--relief is for the simulated device: leave it out, or --device")]
    ReliefOfDevice,
    /// Options for recordings, and no recording.
    #[error(
        "--device-index and --kept-before are for PyTorch profiles and snapshots, and this is none: they say \
         what becomes of one when it is read, as by `zico convert`"
    )]
    NoRecording,
    /// Of several recordings one figure cannot be right.
    #[error("--kept-before is of one recording: convert {0} and {1} one by one, each with its own")]
    KeptBeforeOfSeveral(String, String),
    /// A job cannot be made to carry a block.
    #[error("{name} cannot carry {bytes} more")]
    Carry {
        /// The job.
        name: String,
        /// The size of the block.
        bytes: Bytes,
        /// Why not.
        source: TraceError,
    },
    /// The jobs cannot share the budget; the text says which needs what.
    #[error("{0}")]
    CannotShare(String),
    /// A replay could not be done.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A CUDA device could not be used.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A device, or what a replay on it takes, could not be had.
    #[error(transparent)]
    OnDevice(Box<dyn Error + Send + Sync>),
    /// Replays on this device are not for this system.
    #[error("host memory and processes of their own are for Linux")]
    NotHere,
    /// The process of a job is not told what to do.
    #[error("replay-job is what `zico replay --processes` starts for each job: use that")]
    NoTask,
    /// The simulated device is in one process.
    #[error(
        "--processes needs a device that processes can share: --device host or --device cuda:N"
    )]
    ProcessesOnMock,
    /// The thread of a job has panicked: a defect.
    #[error("the thread of a job has panicked")]
    Thread,
    /// An option that only the simulated device supports.
    #[error("--report draws a replay on the simulated device: leave it out, or --device")]
    ReportOfDevice,
    /// Jobs with a pool each, where nothing holds them to the budget together.
    #[error(
        "unmanaged is for the simulated device, whose memory is the budget: elsewhere nothing would \
         hold the jobs to it"
    )]
    UnmanagedOnDevice,
    /// A priority of a job that there is not.
    #[error("--priority names {name}, and the jobs are {jobs}")]
    NoSuchJob {
        /// What was named.
        name: String,
        /// The jobs that there are.
        jobs: String,
    },
    /// Nobody is to be held back.
    #[error(
        "tgs, estimating and antman hold opportunistic jobs back: --priority says which of them are, as in --priority {0}=opportunistic"
    )]
    NobodyToPace(String),
    /// Jobs held back on a device other than the simulated one.
    #[error(
        "tgs, estimating and antman are for the simulated device: leave out --device and --processes"
    )]
    PacingOfDevice,
    /// Turns on a device other than the simulated one.
    #[error(
        "--time-slice and --policy gandiva are for the simulated device: leave out --device and --processes"
    )]
    TurnsOfDevice,
    /// A trace could not be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A list of blocks cannot be read.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// Blocks cannot be planned.
    #[error("cannot plan {name}")]
    Plan {
        /// What was to be planned.
        name: String,
        /// Why not.
        source: PlanError,
    },
    /// A file is there already.
    #[error("{} is there already; --force writes over it", .0.display())]
    Exists(PathBuf),
    /// A file that is to be written is read by the same command.
    #[error("{} is what this reads: write to another file", .0.display())]
    OverInput(PathBuf),
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The report could not be made from its template: a defect.
    #[error("cannot make the report")]
    Report(#[from] minijinja::Error),
    /// JSON could not be made of the outcome: a defect.
    #[error("cannot make JSON")]
    Json(#[from] serde_json::Error),
    /// A broker cannot serve, or cannot be asked.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Node(#[from] crate::broker_error::NodeError),
    /// Standard output cannot be written.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

/// An error and all its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
