//! The figures of a plan.

use std::io::{self, Write};

use serde::Serialize;
use zico_core::Bytes;
use zico_plan::{Baseline, Plan, PlanError, baseline, check, extent};

use crate::args::Plan as Args;
use crate::load::Problem;
use crate::table::table;
use crate::terminal::line;

/// The most blocks for which the baselines are computed; they take time quadratic in the number of
/// blocks.
const COMPARED: usize = 1 << 14;

/// The figures of a plan. Sizes are in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct PlanSummary {
    pub(crate) name: String,
    pub(crate) blocks: usize,
    pub(crate) capacity: Option<u64>,
    /// Whether the plan fits in the capacity; without one it does.
    pub(crate) feasible: bool,
    pub(crate) height: u64,
    /// The largest sum of bytes alive at once.
    pub(crate) lower_bound: u64,
    /// No plan is lower than this, as far as is known.
    pub(crate) least: u64,
    /// Whether no plan is lower.
    pub(crate) proven: bool,
    pub(crate) seconds: f64,
    pub(crate) work: u64,
    /// None where there are too many blocks for them.
    pub(crate) baselines: Vec<BaselineHeight>,
    /// Of a trace: the bytes of persistent blocks, which lie elsewhere.
    pub(crate) persistent_bytes: Option<u64>,
    /// The bytes of regions in use over the live bytes, both over all moments.
    pub(crate) extent: Option<f64>,
    pub(crate) ids: Vec<String>,
    pub(crate) offsets: Vec<u64>,
}

/// The height of a placement of the literature.
#[derive(Debug, Serialize)]
pub(crate) struct BaselineHeight {
    pub(crate) name: &'static str,
    pub(crate) height: u64,
}

impl PlanSummary {
    pub(crate) fn new(
        args: &Args,
        problem: &Problem,
        plan: Plan,
        seconds: f64,
    ) -> Result<Self, PlanError> {
        let blocks = &problem.blocks;
        let known = |of: Baseline| {
            let height = check(blocks, &baseline(blocks, of)?)?;
            Ok(BaselineHeight { name: of.name(), height })
        };
        let compared = Baseline::ALL.into_iter().filter(|_| blocks.len() <= COMPARED);
        let region = args.region_size.map(Bytes::value);
        let measure = |region| extent(blocks, &plan.offsets, region).map(|extent| extent.ratio());
        let capacity = args.capacity.map(Bytes::value);
        Ok(Self {
            name: problem.name.clone(),
            blocks: blocks.len(),
            capacity,
            feasible: capacity.is_none_or(|capacity| plan.height <= capacity),
            height: plan.height,
            lower_bound: plan.lower_bound,
            least: plan.least,
            proven: plan.proven,
            seconds,
            work: plan.work,
            baselines: compared.map(known).collect::<Result<_, PlanError>>()?,
            persistent_bytes: problem.persistent.map(Bytes::value),
            extent: region.map(measure).transpose()?,
            ids: problem.ids.clone(),
            offsets: plan.offsets,
        })
    }

    /// The height over the lower bound.
    pub(crate) fn over(&self, height: u64) -> String {
        let gap = if self.lower_bound == 0 { 1.0 } else { height as f64 / self.lower_bound as f64 };
        format!("{gap:.4}")
    }

    /// What is known of the height.
    pub(crate) fn verdict(&self) -> String {
        let known = if self.proven {
            "no plan is lower".to_owned()
        } else {
            format!("no plan is lower than {}", self.least)
        };
        match self.capacity {
            Some(capacity) if self.feasible => format!("fits in {capacity}; {known}"),
            Some(capacity) if self.least > capacity => format!("no plan fits in {capacity}"),
            Some(capacity) => {
                format!("none that fits in {capacity} found in {} steps; {known}", self.work)
            }
            None => known,
        }
    }

    /// A table for people.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}, {} blocks: {}", line(&self.name), self.blocks, self.verdict())?;
        let mut heights = table(&["plan", "bytes", "", "over the bound"]);
        let mut row = |name: &str, bytes: u64| {
            let size = Bytes::new(bytes).to_string();
            heights.add_row([name.to_owned(), bytes.to_string(), size, self.over(bytes)]);
        };
        row("zico", self.height);
        row("lower bound", self.lower_bound);
        self.baselines.iter().for_each(|known| row(known.name, known.height));
        writeln!(out, "{heights}")?;
        if self.blocks > COMPARED {
            writeln!(
                out,
                "More than {COMPARED} blocks: not compared with the literature's placements"
            )?;
        }
        writeln!(out, "{} steps in {:.1} ms", self.work, self.seconds * 1e3)?;
        if let Some(bytes) = self.persistent_bytes {
            writeln!(out, "Persistent blocks, not in the plan: {}", Bytes::new(bytes))?;
        }
        if let Some(extent) = self.extent {
            writeln!(out, "Regions in use over live bytes, over time: {extent:.4}")?;
        }
        Ok(())
    }
}
