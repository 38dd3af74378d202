//! The command line and its help.

#[cfg(target_os = "linux")]
mod node;
mod recording;
mod relief;
mod relieve;
mod run;

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use zico_core::Bytes;
use zico_plan::Planner;

use crate::size::{self, Budget};

#[cfg(target_os = "linux")]
pub(crate) use node::LONGEST_NAME;
#[cfg(target_os = "linux")]
pub use node::{
    BudgetArgs, HoldArgs, NodeCommand, Place, RunJob, Serve, ServedDevice, Status, Top,
};
pub use recording::RecordingArgs;
pub use relief::{Limit, Relief, TimeUnit};
pub use relieve::RelieveArgs;
pub use run::{DeviceName, HandOverName, MachineArgs, PolicyName, RunArgs};

/// Several training jobs under one memory budget.
///
/// Within an iteration a job's memory rises through the forward pass and falls through the backward
/// pass. zico lets jobs share one budget: it hands memory that one job has given up to the others,
/// and starts iterations at moments where the waves fit together. This program replays recorded
/// training jobs, on a simulated device or a CUDA one, and shows what happens.
#[derive(Debug, Parser)]
#[command(name = "zico", version, after_help = EXAMPLES, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  zico inspect                                   the traces that come with zico
  zico inspect resnet50 bert-base                what they need, alone and together
  zico replay resnet50 bert-base --budget 3GiB   run them together, with zico deciding
  zico replay resnet50 bert-base --budget f=0.25 --policy exclusive --json
  zico replay resnet50 bert-base --budget f=0.25 --carry 8MiB   if each kept its loss until the next
  zico replay resnet50 bert-base --budget f=-0.25 --relief   below the least budget: some memory leaves
  zico compare resnet50 bert-base --budget f=0.25,f=0.5   every policy beside the others
  zico plan resnet50 --report plan.html          addresses for its blocks, and how good they are
  zico convert profile.json.gz my-job.ztrace     a trace of your own job: of a PyTorch profile,
  zico convert snapshot.pickle my-job.ztrace     or of a CUDA memory snapshot
  zico relief graph.json --budget p=0.5          fit in half of the peak
  zico devices                                   the CUDA devices of this machine
  zico replay dlrm gnmt --budget f=0.5 --device cuda:0
  zico serve --device cuda:0 --budget 70GiB      one budget for the jobs of several processes
  zico run -- python train.py                    one of them; `zico top` watches them

Exit codes:
  0  all is well
  1  the replay saw a violation, a job failed, or a plan does not fit in the capacity (a policy
     that a budget is too small for is no failure of a comparison; jobs that wait for ever are)
  2  bad input, or something that cannot work";

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run recorded jobs together under one memory budget
    Replay(Replay),
    /// Run them under each policy and put what comes of it side by side
    Compare(Compare),
    /// Show what is in traces, and what the jobs need together
    Inspect(Inspect),
    /// Plan where the blocks of an iteration lie, in as little memory as can be
    ///
    /// An iteration that repeats allocates the same blocks each time, so their addresses can be
    /// settled beforehand. No plan can be lower than the largest sum of bytes that are alive at
    /// once, the lower bound. The planner makes fast plans first. Where these stay above the bound,
    /// it searches for lower ones, until it has one, or the proof that there is none, or has done
    /// the work that it may do. There is an answer in any case.
    ///
    /// Of a trace the last iteration is planned, as one that repeats. Persistent blocks
    /// (parameters) are no part of it: they never move. A block that outlives its iteration gets
    /// two slots, which it and the next iteration's take in turn. Sizes are rounded up to 512
    /// bytes, and time is counted in allocations and frees.
    Plan(Plan),
    /// Plan what to move to the host and what to run again, so that an iteration fits in less
    /// memory
    ///
    /// Where a budget is below what an iteration keeps, bytes have to leave: over the link to the
    /// host while nothing waits for them, or by dropping them and running again what made them.
    /// Every planner of the literature that is here is put beside ours, at each budget: the time of
    /// the iteration, what moved, what ran again, and how far it may be from the best.
    ///
    /// The iteration is one with operations, their times, and what they read and write. What was
    /// there before the iteration (parameters) stays.
    Relief(Relief),
    /// Make a compact .ztrace file of a PyTorch profile or memory snapshot
    Convert(Convert),
    /// List the CUDA devices of this machine, or say why there is none
    Devices(Devices),
    /// One job of `zico replay --processes`, which says on standard input what is to be done.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ReplayJob,
    /// One budget for several processes.
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Node(NodeCommand),
}

/// `zico replay`
#[derive(Debug, Parser)]
pub struct Replay {
    /// Files (PyTorch profiles or CUDA memory snapshots, plain or gzip, or .ztrace), or names of
    /// bundled traces. The same one may be given several times
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<String>,

    /// The memory that all jobs together may hold: a size (8GiB, 3.2G), or f=F for L + F * (S - L),
    /// where L is the least budget under which the jobs can share and S the sum of their peaks.
    /// Below L, with F below 0, they need --relief
    #[arg(short, long, value_parser = size::budget, value_name = "SIZE|f=F", allow_hyphen_values = true)]
    pub budget: Budget,

    /// Who decides when an iteration starts
    #[arg(short, long, default_value = "zico")]
    pub policy: PolicyName,

    /// On which device: the simulated one, the memory of this machine, or a CUDA device (`zico
    /// devices` lists them). On the last two the jobs run in real time, write patterns to their
    /// memory and check them; of the options for the simulated device only --scale-time and
    /// --run-ahead count
    #[arg(
        long, default_value = "mock", default_value_if("processes", "true", "host"),
        value_parser = run::device, value_name = "mock|host|cuda:N"
    )]
    pub device: DeviceName,

    /// Each job is a process of its own under one broker, as with `zico serve` [default device:
    /// host]
    #[arg(long)]
    pub processes: bool,

    /// Below the least budget.
    #[command(flatten)]
    pub relieve: RelieveArgs,

    /// How to run the jobs, and the output.
    #[command(flatten)]
    pub run: RunArgs,
}

/// `zico compare`
#[derive(Debug, Parser)]
pub struct Compare {
    /// Files (PyTorch profiles or CUDA memory snapshots, plain or gzip, or .ztrace), or names of
    /// bundled traces. The same one may be given several times
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<String>,

    /// The memory that all jobs together may hold, each a size (8GiB, 3.2G), or f=F for
    /// L + F * (S - L), where L is the least budget under which the jobs can share and S the sum of
    /// their peaks
    #[arg(
        short, long, required = true, value_delimiter = ',',
        value_parser = size::budget, value_name = "SIZE|f=F,...", allow_hyphen_values = true
    )]
    pub budget: Vec<Budget>,

    /// Who decides when an iteration starts, in the order in which they are listed [default: all]
    #[arg(short, long, value_delimiter = ',', value_name = "POLICY,...")]
    pub policy: Vec<PolicyName>,

    /// How to run the jobs, and the output.
    #[command(flatten)]
    pub run: RunArgs,
}

/// `zico inspect`
#[derive(Debug, Parser)]
pub struct Inspect {
    /// Files or names of bundled traces; without any, the bundled ones are listed
    #[arg(value_name = "TRACE")]
    pub traces: Vec<String>,

    /// Show the jobs with one more block of SIZE in each iteration, which is freed in the next one,
    /// as with `zico replay --carry`
    #[arg(long, value_parser = size::size, value_name = "SIZE", requires = "traces")]
    pub carry: Option<Bytes>,

    /// Options for recordings.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// The unit in which what the jobs need is counted [default: as a pool would choose]
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub region_size: Option<Bytes>,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `zico plan`
#[derive(Debug, Parser)]
#[command(after_help = PLAN_EXAMPLES)]
pub struct Plan {
    /// A trace (a file or the name of a bundled one), or a list of blocks as MiniMalloc takes them:
    /// a CSV with the columns id, lower, upper and size, in any order, where upper is the moment at
    /// which a block is gone
    #[arg(value_name = "FILE")]
    pub file: String,

    /// Options for recordings.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// Stop as soon as the plan is at most this high: bytes, or a size (1GiB)
    #[arg(short, long, value_parser = size::size, value_name = "SIZE|N")]
    pub capacity: Option<Bytes>,

    /// How many steps to work at most; a step takes a nanosecond or a few. The first plan is made
    /// in any case: 40 n log2 n steps at most for n blocks, seconds for a million
    #[arg(short, long, default_value_t = Planner::WORK, value_name = "N")]
    pub work: u64,

    /// Among plans of one height prefer the one whose regions of this size are in use for the
    /// shortest
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub region_size: Option<Bytes>,

    /// Write a report with a picture of the plan: time from left to right, addresses upwards
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Write the report over a file that is there already (never over the one that is planned)
    #[arg(long, requires = "report")]
    pub force: bool,

    /// Print one JSON object, offsets included, and nothing else
    #[arg(long)]
    pub json: bool,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  zico plan resnet50                      the height of the best plan, beside the bound and others
  zico plan gnmt --report plan.html       a picture of it
  zico plan A.csv --capacity 1048576      stop when it fits in so many bytes
  zico plan A.csv --work 100000000000     work up to some minutes
  zico plan dlrm --json | jq .offsets     where each block lies

Exit codes:
  0  there is a plan, and it fits in the capacity if one is given
  1  none has been found that fits
  2  bad input";

/// `zico convert`
#[derive(Debug, Parser)]
#[command(after_long_help = RECORDING)]
pub struct Convert {
    /// A PyTorch profile (Kineto JSON) recorded with profile_memory=True, a CUDA memory snapshot of
    /// PyTorch (pickle), either plain or in gzip, or a .ztrace
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// The .ztrace file to write
    #[arg(value_name = "OUT")]
    pub output: PathBuf,

    /// Options for recordings.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// Take no times from the recording: each block takes as long as it takes to write it once at
    /// so many GB/s, right after its allocation. For recordings whose times mean nothing
    #[arg(long, value_parser = size::bandwidth, value_name = "GB/s")]
    pub bandwidth: Option<NonZeroU64>,

    /// What the job is called in reports [default: the file's name up to the first dot]
    #[arg(long)]
    pub name: Option<String>,

    /// Who recorded it from what, kept in the file
    #[arg(long, value_name = "TEXT")]
    pub provenance: Option<String>,

    /// Write over a file that is there already (never over the one that is read)
    #[arg(long)]
    pub force: bool,
}

const RECORDING: &str = "\
Recording a job:
  `import torch.profiler`, put `with torch.profiler.record_function(\"iteration\"):` around each of
  two or more iterations, and start before the model is built.

  A profile has the memory and, on a GPU, how long each launch kept it busy:
    with torch.profiler.profile(profile_memory=True) as prof:
        train()
    prof.export_chrome_trace(\"my-job.json.gz\")

  A memory snapshot has the sizes as they were asked for, and no kernels: the time between two
  allocations is taken for work of the GPU, so let the host wait for it:
    # CUDA_LAUNCH_BLOCKING=1 python my_job.py
    torch.cuda.memory._record_memory_history(context=None)
    train()
    torch.cuda.memory._dump_snapshot(\"my-job.pickle\")

  A recording may begin in the middle of the training: `zico inspect` says what was in use before, or
  that this is unknown. Then `torch.cuda.memory_allocated()` before it begins is what --kept-before
  wants.

  Without \"iteration\" a profile needs the steps of a profiler with a schedule; of a snapshot, three
  iterations that allocate the same sizes are recognised. Replay what was recorded on a GPU with
  --scale-time 1.";

/// `zico devices`
#[derive(Debug, Parser)]
pub struct Devices {
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}
