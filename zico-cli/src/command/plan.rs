//! `zico plan`

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use zico_core::Bytes;
use zico_plan::{Baseline, Block, Plan, PlanError, Planner, baseline, check, extent};

use crate::args::{Plan as Args, RecordingArgs};
use crate::import::csv;
use crate::load::{check as check_options, load};
use crate::output::Output;
use crate::report;
use crate::table::table;
use crate::{Exit, Failure};

/// How often a person sees how far it is, in steps.
const SLICE: u64 = 1 << 24;

/// More blocks than this are not placed as in the literature too, which takes the square of their number.
const COMPARED: usize = 1 << 14;

/// Plans blocks and says how good the plan is.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = Output::of(args.report.as_deref(), args.force, [&args.file])?;
    let input = Input::open(&args.file, &args.recording)?;
    let refused = |source: PlanError| Failure::Plan { name: input.name.clone(), source };
    let before = Instant::now();
    let plan = work(args, &input.blocks).map_err(refused)?;
    let seconds = before.elapsed().as_secs_f64();
    let summary = Summary::new(args, &input, plan, seconds).map_err(refused)?;
    if let Some(file) = file {
        file.write(&report::packing(&summary, &input.blocks)?)?;
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        summary.print(&mut out)?;
        if let Some(path) = &args.report {
            writeln!(out, "Report: {}", path.display())?;
        }
    }
    Ok(if summary.feasible { Exit::Fine } else { Exit::Bad })
}

/// What is planned.
struct Input {
    name: String,
    ids: Vec<String>,
    blocks: Vec<Block>,
    /// Of a trace: what its persistent blocks come to.
    persistent: Option<Bytes>,
}

impl Input {
    fn open(file: &str, recording: &RecordingArgs) -> Result<Self, Failure> {
        let path = Path::new(file);
        if csv::looks_like(path) {
            check_options(&[], &recording.options())?;
            let csv::Blocks { ids, blocks } = csv::open(path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Self { name, ids, blocks, persistent: None });
        }
        let trace = load(file, recording)?;
        let repeating = trace.repeating();
        let ids = repeating.ids.iter().map(|id| id.value().to_string()).collect();
        let (name, persistent) = (trace.name().to_owned(), Some(repeating.persistent));
        Ok(Self { name, ids, blocks: repeating.blocks, persistent })
    }
}

/// Runs the planner in slices, so that a person can see how it goes on.
fn work(args: &Args, blocks: &[Block]) -> Result<Plan, PlanError> {
    let bar = progress(args.work);
    let mut planner = Planner::new(blocks)?
        .capacity(args.capacity.map(Bytes::value))
        .regions(args.region_size.map(Bytes::value));
    let mut left = args.work;
    loop {
        planner = planner.work(left.min(SLICE));
        let plan = planner.run();
        bar.set_position(plan.work);
        bar.set_message(format!("{:.4} of the bound", plan.gap()));
        let done = plan.work.saturating_sub(args.work - left);
        if done == 0 || plan.work >= args.work {
            bar.finish_and_clear();
            return Ok(plan);
        }
        left = args.work - plan.work;
    }
}

/// A bar where somebody is looking.
fn progress(steps: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    // A template that cannot be read leaves the default look.
    let style = "planning, {msg} {spinner} {wide_bar} {human_pos}/{human_len} steps, {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_message("first plan");
    // The first plan of a million blocks takes seconds.
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The figures of a plan. Sizes are in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
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
    pub(crate) baselines: Vec<Known>,
    /// Of a trace: the bytes of persistent blocks, which lie elsewhere.
    pub(crate) persistent_bytes: Option<u64>,
    /// The bytes of regions in use over the live bytes, both over all moments.
    pub(crate) extent: Option<f64>,
    pub(crate) ids: Vec<String>,
    pub(crate) offsets: Vec<u64>,
}

/// The height of a placement of the literature.
#[derive(Debug, Serialize)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) height: u64,
}

impl Summary {
    fn new(args: &Args, input: &Input, plan: Plan, seconds: f64) -> Result<Self, PlanError> {
        let blocks = &input.blocks;
        let known = |of: Baseline| {
            let height = check(blocks, &baseline(blocks, of)?)?;
            Ok(Known { name: of.name(), height })
        };
        let compared = Baseline::ALL.into_iter().filter(|_| blocks.len() <= COMPARED);
        let region = args.region_size.map(Bytes::value);
        let measure = |region| extent(blocks, &plan.offsets, region).map(|extent| extent.ratio());
        let capacity = args.capacity.map(Bytes::value);
        Ok(Self {
            name: input.name.clone(),
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
            persistent_bytes: input.persistent.map(Bytes::value),
            extent: region.map(measure).transpose()?,
            ids: input.ids.clone(),
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

    fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(
            out,
            "{}, {} blocks: {}",
            crate::terminal::line(&self.name),
            self.blocks,
            self.verdict()
        )?;
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
