//! `zico relief`

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use zico_core::Bytes;
use zico_plan::relief::{Link, Strategy};

use crate::size;

/// `zico relief`
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Relief {
    /// An iteration with its operations: a .ztrace of version 2, a bundled one by its name
    /// (resnet50, bert-base, gcn), an execution trace of PyTorch (JSON), a node-link graph of
    /// networkx (JSON), or a log of DTR's recorder (JSON lines), each plain or in gzip
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// The memory that the iteration may hold, each a size (8GiB, 3.2G), or p=P for P times the
    /// peak of the iteration as it was recorded
    #[arg(
        short, long, required = true, value_delimiter = ',',
        value_parser = limit, value_name = "SIZE|p=P,...", allow_hyphen_values = true
    )]
    pub budget: Vec<Limit>,

    /// The way to the host: a name, or GB/s each way (12.5). pcie4 is 25, pcie5 50, nvlink-c2c 450
    /// GB/s
    #[arg(short, long, default_value = "pcie4", value_parser = link, value_name = "LINK|GB/s")]
    pub link: Link,

    /// Which planners, in the order in which they are listed [default: all]
    #[arg(short, long, value_delimiter = ',', value_parser = strategy, value_name = "STRATEGY,...")]
    pub strategy: Vec<Strategy>,

    /// Parameters, the optimizer's state and what else is there before the iteration stay on the
    /// device: no plan moves them to the host
    #[arg(long)]
    pub resident: bool,

    /// How many steps our own planners may work beyond their first plans; a step takes a nanosecond
    /// or a few
    #[arg(short, long, default_value_t = 1 << 27, value_name = "N")]
    pub work: u64,

    /// The unit of the times in a node-link graph
    #[arg(long, default_value = "us")]
    pub time_unit: TimeUnit,

    /// The profile (Kineto, JSON) with the times of an execution trace [default: NAME_kineto.json
    /// beside NAME_et.json]
    #[arg(long, visible_alias = "kineto", value_name = "FILE")]
    pub times: Option<PathBuf>,

    /// Write a report: time against budget, and memory over time with what left and when
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Write the report over a file that is there already (never over the one that is read)
    #[arg(long, requires = "report")]
    pub force: bool,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Strategies:
  liveness        each storage leaves after its last use, and nothing else
  autoswap        AutoSwap: to the host between the uses around the peak, by the sum of its ranks; by one
                  score alone: autoswap-doa, autoswap-aoa, autoswap-wdoa, autoswap-swdoa
  capuchin        Capuchin: swap what is hidden, then recompute what frees most per second
  dtr             DTR: evict on shortage by cost with the evicted neighbourhood, size and staleness; also
                  dtr-eq, dtr-local, dtr-lru, dtr-size
  vdnn-all        vDNN: what layers read to the host, back one layer ahead; vdnn-conv of convolutions alone
  superneurons    SuperNeurons: convolutions' outputs to the host, what is cheap again; superneurons-pool without
  swapadvisor     SwapAdvisor: an order of operations by a genetic algorithm, swaps by next use
  chen-sqrt       checkpoints at every sqrt(n)th operation; chen-greedy whenever so many bytes are made;
                  ap-sqrt and ap-greedy at articulation points alone; griewank binomially at those
  checkmate-lp    Checkmate's linear program, rounded
  knapsack        PyTorch's memory budget: keep what takes most time to make again for its bytes
  echo            Echo: what is cheap again, where its own footprint leaves a gain
  rockmate-cheap  Rockmate's cheap rule: again if in less than half of a transfer, or else to the host
  gist            Gist: encoded between the passes, where storages have encodings; gist-lossy with loss
  recompute       ours, recomputation alone
  zico            ours, recomputation, the link and encodings together; zico-lossy with loss

Examples:
  zico relief resnet50 --budget p=0.5                     every planner at half of the peak
  zico relief job_et.json --times job_kineto.json --budget p=0.7
  zico relief unet.log.gz --budget p=0.8,p=0.5,p=0.4 --strategy recompute,zico
  zico relief bert-base --budget p=0.9,p=0.7,p=0.5 --link pcie5 --report bert.html
  zico relief graph.json --budget 8GiB --link 12 --json   with 12 GB/s each way

The bound of a row is the time that no plan within the budget can be faster than, with what the
strategy may use. Every plan is checked by a checker that does not know how it was found.

Exit codes:
  0  at each budget one of the strategies fits
  1  at some budget none does
  2  bad input";

/// A budget: a size, or a share of the peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many bytes.
    Size(Bytes),
    /// So many times the recorded peak.
    Share(f64),
}

impl Limit {
    /// The bytes, of a peak.
    #[must_use]
    pub fn bytes(self, peak: u64) -> u64 {
        match self {
            Self::Size(bytes) => bytes.value(),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            Self::Share(share) => (peak as f64 * share) as u64,
        }
    }
}

/// Units of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Its nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ms => 1e6,
            Self::S => 1e9,
        }
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    let Some(share) = text.trim().strip_prefix("p=") else {
        return size::size(text)
            .map(Limit::Size)
            .map_err(|error| error + "; or p=0.5 for half of the peak");
    };
    size::between(share, 1e-6, 1e6).map(Limit::Share)
}

pub(super) fn link(text: &str) -> Result<Link, String> {
    let rate = match text.trim() {
        "pcie4" => 25_000_000_000,
        "pcie5" => 50_000_000_000,
        "nvlink-c2c" => 450_000_000_000,
        other => size::bandwidth(other).map(NonZeroU64::get).map_err(|_| {
            format!("{other:?} is no link: pcie4, pcie5, nvlink-c2c, or GB/s from 0.001 to 100000")
        })?,
    };
    Ok(Link::symmetric(rate))
}

pub(super) fn strategy(text: &str) -> Result<Strategy, String> {
    let found = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text.trim());
    let names = Strategy::ALL.map(Strategy::name).join(", ");
    found.ok_or_else(|| format!("the strategies are {names}"))
}
