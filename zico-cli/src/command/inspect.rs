//! `zico inspect`

use std::io::Write;

use serde::Serialize;
use zico_core::Bytes;
use zico_mock::bundled;
use zico_mock::replay::{Machine, Needs, needs};
use zico_mock::trace::Trace;

use crate::args::Inspect;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::{Imported, Origin};
use crate::load::{check, import_all};
use crate::table::{sparkline, table};
use crate::terminal::{line, stdout};

/// The columns in the plot of memory over an iteration.
const COLUMNS: u16 = 60;

/// The iterations of each job alone, to measure its needs: the first one, which creates the
/// optimizer's state, and some that repeat.
const ITERATIONS: u64 = 5;

/// The shares for which budgets are shown.
const SHARES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0];

/// Shows traces, and the needs of their jobs together.
pub(crate) fn run(args: &Inspect) -> Result<Exit, Failure> {
    let mut out = stdout();
    if args.traces.is_empty() {
        let traces: Vec<Trace> = bundled::every().map(bundled::open).collect::<Result<_, _>>()?;
        check(&[], &args.recording.options())?;
        if args.json {
            let traces: Vec<TraceJson<'_>> =
                traces.iter().map(|trace| TraceJson::new(trace, None)).collect();
            writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&serde_json::json!({ "traces": traces }))?
            )?;
        } else {
            list(&mut out, &traces)?;
        }
        return Ok(Exit::Fine);
    }
    let loaded = import_all(&args.traces, args.carry, &args.recording)?;
    let traces: Vec<&Trace> = loaded.iter().map(|imported| &imported.trace).collect();
    let needs = needs(&traces, args.region_size, ITERATIONS, &Machine::default())?;
    if args.json {
        let json = InspectJson::new(&loaded, &needs);
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
    } else {
        loaded.iter().try_for_each(|imported| show(&mut out, imported))?;
        show_needs(&mut out, &traces, &needs)?;
    }
    Ok(Exit::Fine)
}

fn list(out: &mut impl Write, traces: &[Trace]) -> Result<(), Failure> {
    let mut all = table(&["bundled trace", "iterations", "kept", "peak", "allocations"]);
    for trace in traces {
        let stats = trace.stats();
        let last = stats.iterations.last();
        all.add_row([
            trace.name().to_owned(),
            trace.iterations().len().to_string(),
            last.map_or_else(String::new, |last| last.live_at_start.to_string()),
            stats.peak.to_string(),
            last.map_or_else(String::new, |last| last.allocations.to_string()),
        ]);
    }
    writeln!(out, "{all}\n`zico inspect NAME...` shows more of them.")?;
    Ok(())
}

fn show(out: &mut impl Write, Imported { trace, origin }: &Imported) -> Result<(), Failure> {
    writeln!(out, "{}\n{}", line(trace.name()), line(trace.provenance()))?;
    for said in origin.iter().flat_map(Origin::lines) {
        writeln!(out, "{}", line(&said))?;
    }
    let mut iterations =
        table(&["", "allocs", "frees", "launches", "recorded", "kept", "peak", "in", "trough"]);
    for (i, stats) in trace.stats().iterations.iter().enumerate() {
        iterations.add_row([
            format!("{}", i + 1),
            stats.allocations.to_string(),
            stats.frees.to_string(),
            stats.launches.to_string(),
            stats.recorded.to_string(),
            stats.live_at_start.to_string(),
            stats.peak.to_string(),
            stats.peak_phase.map_or_else(String::new, |phase| phase.to_string()),
            stats.trough.to_string(),
        ]);
    }
    writeln!(out, "{iterations}")?;
    for i in 0..trace.iterations().len() {
        let wave: Vec<u64> = trace.wave(i, COLUMNS).iter().map(|bytes| bytes.value()).collect();
        writeln!(out, "{:>3} {}", i + 1, sparkline(&wave))?;
    }
    writeln!(out)?;
    Ok(())
}

fn show_needs(out: &mut impl Write, traces: &[&Trace], needs: &Needs) -> Result<(), Failure> {
    writeln!(out, "What they need on the device, in regions of {}:", needs.region)?;
    let mut jobs = table(&["job alone", "peak", "kept between iterations"]);
    for (trace, solo) in traces.iter().zip(&needs.solos) {
        jobs.add_row([trace.name().to_owned(), solo.peak.to_string(), solo.kept.to_string()]);
    }
    writeln!(out, "{jobs}")?;
    if traces.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "L = {}: the least budget under which they can share (the largest of a job's peak and what \
         the\n    others keep). S = {}: the sum of the peaks, from where on nobody waits.\n\
         Budgets at L + f (S - L), for `zico replay --budget`:",
        needs.least, needs.sum,
    )?;
    for f in SHARES {
        let budget = needs.budget_at(f);
        writeln!(out, "  f={f:<5} {:>12}  ({})", format!("{}MiB", budget.value() >> 20), budget)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct InspectJson<'t> {
    traces: Vec<TraceJson<'t>>,
    region_bytes: u64,
    jobs: Vec<NeedJson<'t>>,
    least_budget_bytes: u64,
    sum_of_solo_peaks_bytes: u64,
    budgets: Vec<BudgetJson>,
}

#[derive(Serialize)]
struct TraceJson<'t> {
    name: &'t str,
    provenance: &'t str,
    /// Set for a recording; other traces have only a provenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<RecordingJson>,
    peak_bytes: u64,
    iterations: Vec<IterationJson>,
}

/// The part of a recording that the trace contains.
#[derive(Serialize)]
struct RecordingJson {
    device: String,
    other_devices: Vec<String>,
    /// What was in use when it began.
    before_bytes: u64,
    /// Of these, what is one persistent block because the recording tells no more of it.
    before_block_bytes: u64,
    before_source: String,
    /// Why the figure may be incomplete or wrong.
    before_doubt: Option<String>,
}

#[derive(Serialize)]
struct IterationJson {
    allocations: usize,
    frees: usize,
    launches: usize,
    work_seconds: f64,
    recorded_seconds: f64,
    persistent_bytes: u64,
    start_bytes: u64,
    end_bytes: u64,
    peak_bytes: u64,
    peak_phase: Option<String>,
    trough_bytes: u64,
    wave_bytes: Vec<u64>,
}

#[derive(Serialize)]
struct NeedJson<'t> {
    name: &'t str,
    solo_peak_bytes: u64,
    persistent_bytes: u64,
    /// With what it carries over from one iteration to the next.
    kept_bytes: u64,
}

#[derive(Serialize)]
struct BudgetJson {
    f: f64,
    bytes: u64,
}

impl<'t> InspectJson<'t> {
    fn new(traces: &'t [Imported], needs: &Needs) -> Self {
        let job = |(imported, solo): (&'t Imported, &zico_mock::replay::Solo)| NeedJson {
            name: imported.trace.name(),
            solo_peak_bytes: solo.peak.value(),
            persistent_bytes: solo.persistent.value(),
            kept_bytes: solo.kept.value(),
        };
        let budget = |f| BudgetJson { f, bytes: needs.budget_at(f).value() };
        Self {
            traces: traces
                .iter()
                .map(|Imported { trace, origin }| TraceJson::new(trace, origin.as_ref()))
                .collect(),
            region_bytes: needs.region.value(),
            jobs: traces.iter().zip(&needs.solos).map(job).collect(),
            least_budget_bytes: needs.least.value(),
            sum_of_solo_peaks_bytes: needs.sum.value(),
            budgets: SHARES.into_iter().map(budget).collect(),
        }
    }
}

impl RecordingJson {
    fn new(Origin { device, others, before }: &Origin) -> Self {
        Self {
            device: device.to_string(),
            other_devices: others.iter().map(ToString::to_string).collect(),
            before_bytes: before.bytes.value(),
            before_block_bytes: before.block.value(),
            before_source: before.source.to_string(),
            before_doubt: before.doubt.map(|doubt| doubt.to_string()),
        }
    }
}

impl<'t> TraceJson<'t> {
    fn new(trace: &'t Trace, origin: Option<&Origin>) -> Self {
        let stats = trace.stats();
        let iteration = |(i, stats): (usize, &zico_mock::trace::IterationStats)| IterationJson {
            allocations: stats.allocations,
            frees: stats.frees,
            launches: stats.launches,
            work_seconds: stats.work.seconds(),
            recorded_seconds: stats.recorded.seconds(),
            persistent_bytes: stats.persistent_at_start.value(),
            start_bytes: stats.live_at_start.value(),
            end_bytes: stats.live_at_end.value(),
            peak_bytes: stats.peak.value(),
            peak_phase: stats.peak_phase.map(|phase| phase.to_string()),
            trough_bytes: stats.trough.value(),
            wave_bytes: trace.wave(i, COLUMNS).into_iter().map(Bytes::value).collect(),
        };
        Self {
            name: trace.name(),
            provenance: trace.provenance(),
            recording: origin.map(RecordingJson::new),
            peak_bytes: stats.peak.value(),
            iterations: stats.iterations.iter().enumerate().map(iteration).collect(),
        }
    }
}
