//! Options common to `zico replay` and `zico compare`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use zico_core::{Bytes, HandOver, Ticks};
use zico_mock::Utilisation;
use zico_mock::replay::{Machine, MemoryCallCosts, Pacing, PolicyKind, Priority};

use super::RecordingArgs;
use crate::size;

/// Options common to `zico replay` and `zico compare`.
#[derive(Clone, Debug, Parser)]
pub struct RunArgs {
    /// How memory passes from one job to another
    #[arg(long, default_value = "fenced")]
    pub hand_over: HandOverName,

    /// Fewer calls of the device rather than least memory, as `zico run` and `zico serve` have it: what
    /// is mapped anew in each iteration gets memory of its own, while the peaks of all jobs fit side by
    /// side
    #[arg(long)]
    pub fewest_calls: bool,

    /// Iterations that repeat are not planned
    #[arg(long)]
    pub no_plans: bool,

    /// The jobs tell sizes only, as PyTorch does: how long their blocks live is learned. Otherwise
    /// they tell what the trace says
    #[arg(long)]
    pub learn_lifetimes: bool,

    /// An iteration is over when the next one begins, as where a step of PyTorch's optimizer marks
    /// it: a job that has had less time than those that wait goes on at once. Otherwise it is over
    /// where the trace says so, and whoever waits goes next
    #[arg(long)]
    pub end_with_next: bool,

    /// How many iterations each job does at least
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,

    /// Each job makes one more block of SIZE in each iteration and frees it in the next one, after
    /// its successor has been made. A training loop with `loss = model(batch)` does so: the old
    /// loss lives until the name is bound to the new one. The recorded loops free everything and
    /// have no such block; yours may have one. A job holds the block while it waits for its next
    /// iteration
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub carry: Option<Bytes>,

    /// What matters more: a production job is never to be slowed, an opportunistic one takes what is
    /// left. Names as `zico inspect` lists them; jobs that are not named are of production, and are
    /// asked first when they wait. With --policy tgs, estimating or antman the opportunistic ones are
    /// held back
    #[arg(
        long, value_delimiter = ',', value_parser = priority,
        value_name = "NAME=production|opportunistic,..."
    )]
    pub priority: Vec<(String, Priority)>,

    /// Jobs take turns on the device where they keep more than the budget: between two iterations the
    /// memory of one goes to the host (over a link of 25 GB/s), where others wait for its room, and
    /// comes back for its next one. A turn lasts for at least so long. The budget may be as low as
    /// the largest peak of one job
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    pub time_slice: Option<Ticks>,

    /// Options for recordings.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// The unit in which memory is handed over: a power of two of at least 2MiB [default: 2MiB, and
    /// 4MiB for a budget from 64GiB on]
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub region_size: Option<Bytes>,

    /// The parameters of the simulated host and device.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Write a report with pictures of the jobs' memory over time
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Write the report over a file that is there already, such as the last one (never over a trace
    /// that is replayed)
    #[arg(long, requires = "report")]
    pub force: bool,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// The devices by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The one in software.
    Mock,
    /// The memory of this machine.
    Host,
    /// A CUDA device, by its number.
    Cuda(u32),
}

pub(super) fn device(text: &str) -> Result<DeviceName, String> {
    match text.strip_prefix("cuda:").map(str::parse) {
        Some(Ok(number)) => Ok(DeviceName::Cuda(number)),
        None if text == "mock" => Ok(DeviceName::Mock),
        None if text == "host" => Ok(DeviceName::Host),
        _ => Err("a device is mock, host or cuda:N, N counted from 0".to_owned()),
    }
}

/// The simulated device.
#[derive(Clone, Debug, Parser)]
pub struct MachineArgs {
    /// How long a launch takes on the device, over the recorded time: 1 for jobs that were recorded
    /// on a GPU, less for those of a CPU [default: 0.02, and 1 with --relief]
    #[arg(long, value_parser = |s: &str| size::between(s, 1e-6, 1e3), value_name = "X")]
    pub scale_time: Option<f64>,

    /// How much of the device one launch keeps busy. A CPU trace does not tell: it is an assumption
    /// on which all figures of throughput depend
    #[arg(long, default_value_t = 0.6, value_parser = |s: &str| size::between(s, 0.001, 1.0), value_name = "U")]
    pub utilisation: f64,

    /// What a launch costs the host
    #[arg(long, default_value = "5us", value_parser = size::duration, value_name = "DURATION")]
    pub dispatch: Ticks,

    /// Creating, mapping and unmapping memory takes the host no time. Otherwise it takes what it
    /// takes CUDA on an A100: 29, 38 (and 2 for each region) and 34 us
    #[arg(long)]
    pub free_calls: bool,

    /// How many launches of a job may be enqueued and not finished
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    pub run_ahead: u64,

    /// Each launch's length is off by up to this many percent, at random
    #[arg(long, default_value_t = 5.0, value_parser = |s: &str| size::between(s, 0.0, 100.0), value_name = "PERCENT")]
    pub jitter: f64,

    /// The seed of that randomness: the same seed gives the same outcome
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl MachineArgs {
    /// These options for the replay of jobs whose times are as recorded, or else of times by a rule.
    #[must_use]
    pub fn machine(&self, ruled: bool) -> Machine {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "parsed as 0.001..=1"
        )]
        let permille = (self.utilisation * 1000.0).round() as u16;
        Machine {
            time_scale: self.scale_time.unwrap_or(if ruled { 1.0 } else { 0.02 }),
            dispatch: self.dispatch,
            memory_calls: if self.free_calls {
                MemoryCallCosts::NONE
            } else {
                MemoryCallCosts::default()
            },
            run_ahead: self.run_ahead,
            utilisation: Utilisation::new(permille).unwrap_or(Utilisation::FULL),
            jitter: self.jitter / 100.0,
            seed: self.seed,
        }
    }
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Start when the waves fit together (time shift)
    Zico,
    /// The same, for throughput more than for fairness
    ZicoThroughput,
    /// The same, for fairness more than for throughput: each job gets on alike
    ZicoFairness,
    /// Start when the peak fits beside the most that the others may still come to hold
    Conservative,
    /// Zico as published: sampled waves, up to the end of the other's iteration
    ModelBased,
    /// Start while all others are in their backward passes
    TickTock,
    /// Start if the peaks fit at once
    Spatial,
    /// Salus: one iteration at a time in each lane, in the order of asking
    SalusPack,
    /// Salus: the same, the job that has had the least memory x time first, by estimate
    SalusFair,
    /// Salus: the same, the job with the shortest remaining time first
    SalusSrtf,
    /// Each job has a fixed share of the budget, in proportion to its peak
    Static,
    /// One iteration at a time, by turns
    Exclusive,
    /// No decision and no hand-over: each job has a pool of its own and keeps its own peak
    Unmanaged,
    /// As zico, and opportunistic jobs (--priority) are paced by TGS's controller. It profiles for
    /// 25 s of simulated time first: that takes some hundred iterations
    Tgs,
    /// The same by our own controller, which estimates what the opportunistic jobs cost
    Estimating,
    /// Gandiva: jobs whose peaks fit at once run side by side; all others take turns of a minute, or
    /// of --time-slice, between which their memory is on the host
    Gandiva,
    /// AntMan: each job has a cap on the device's memory, by what production jobs (--priority) need;
    /// what it has beyond that is host memory, which its launches reach over a link of 25 GB/s. The
    /// opportunistic ones have the time in which production is not slowed
    Antman,
}

impl PolicyName {
    /// How opportunistic jobs are paced under it.
    pub(crate) const fn pacing(self) -> Option<Pacing> {
        match self {
            Self::Tgs => Some(Pacing::Tgs),
            Self::Estimating => Some(Pacing::Estimating),
            _ => None,
        }
    }

    /// Whether jobs have elastic caps under it.
    pub(crate) const fn is_elastic(self) -> bool {
        matches!(self, Self::Antman)
    }

    /// Whether it is of no use unless some jobs are opportunistic.
    pub(crate) const fn needs_priorities(self) -> bool {
        self.is_elastic() || self.pacing().is_some()
    }

    /// The slice of a turn on the device, if jobs take turns under it.
    pub(crate) fn slice(self, given: Option<Ticks>) -> Option<Ticks> {
        let takes_none = PolicyKind::from(self).needs_every_peak();
        let usual = (self == Self::Gandiva).then_some(GANDIVA_SLICE);
        given.or(usual).filter(|_| !takes_none)
    }

    /// The name by which people choose it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gandiva => "gandiva",
            Self::Antman => "antman",
            _ => self.pacing().map_or(PolicyKind::from(self).name(), Pacing::name),
        }
    }
}

/// Published: Gandiva's slices of 60 s (Xiao et al., OSDI 2018).
const GANDIVA_SLICE: Ticks = Ticks::millis(60_000);

fn priority(text: &str) -> Result<(String, Priority), String> {
    let wrong = || "a priority is NAME=production or NAME=opportunistic".to_owned();
    let (name, priority) = text.rsplit_once('=').ok_or_else(wrong)?;
    let priority = match priority {
        "production" => Priority::Production,
        "opportunistic" => Priority::Opportunistic,
        _ => return Err(wrong()),
    };
    Ok((name.to_owned(), priority))
}

impl From<PolicyName> for PolicyKind {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Zico | PolicyName::Tgs | PolicyName::Estimating => Self::Zico,
            PolicyName::ZicoThroughput => Self::ZicoThroughput,
            PolicyName::ZicoFairness => Self::ZicoFairness,
            PolicyName::Conservative => Self::Conservative,
            PolicyName::ModelBased => Self::ModelBased,
            PolicyName::TickTock => Self::TickTock,
            PolicyName::Spatial | PolicyName::Gandiva => Self::Spatial,
            PolicyName::SalusPack => Self::SalusPack,
            PolicyName::SalusFair => Self::SalusFair,
            PolicyName::SalusSrtf => Self::SalusSrtf,
            PolicyName::Static => Self::Static,
            PolicyName::Exclusive => Self::Exclusive,
            PolicyName::Unmanaged | PolicyName::Antman => Self::Unmanaged,
        }
    }
}

/// The kinds of hand-over by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HandOverName {
    /// The host waits until the device has passed what used it
    Fenced,
    /// As fenced, and it leaves the addresses of all other jobs
    Isolated,
}

impl From<HandOverName> for HandOver {
    fn from(name: HandOverName) -> Self {
        match name {
            HandOverName::Fenced => Self::Fenced,
            HandOverName::Isolated => Self::Isolated,
        }
    }
}
