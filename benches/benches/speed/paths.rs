//! The time of the other paths of zico: leases, iterations, decisions, plans, files, replays.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::limit;
use zico_bench::speed::{Outcome, job, pool, started};
use zico_bench::table::table;
use zico_core::policy::{Policy, Tenant, TimeShift, View};
use zico_core::{Activity, Bytes, Device, Lifetime, Profile, Progress, Regions, Request};
use zico_mock::bundled;
use zico_mock::replay::{Machine, ReplayConfig, needs, replay};
use zico_mock::trace::Step;
use zico_plan::Planner;

/// Short runs of one kind, in nanoseconds for each of what it consists of.
pub(crate) struct Runs(Vec<f64>);

impl Runs {
    /// `count` runs; each returns the number of operations that it has done.
    pub(crate) fn of(count: usize, mut run: impl FnMut() -> Outcome<usize>) -> Outcome<Self> {
        run()?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let done = run()?;
            times.push(start.elapsed().as_nanos() as f64 / done.max(1) as f64);
        }
        Ok(Self::sorted(times))
    }

    fn sorted(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}

pub(crate) fn run() -> Outcome<()> {
    let mut figures = table(&["", "least", "median", "99%"]);
    let mut row = |what: &str, runs: &Runs| {
        let cells = [runs.0[0], runs.at(50), runs.at(99)].map(time);
        figures.add_row(std::iter::once(what.to_owned()).chain(cells));
    };
    for pages in [1, 16] {
        let [come, go] = lease(pages)?;
        row(&format!("a block of {pages} leased pages, no device call"), &come);
        row(&format!("a free that gives {pages} pages back"), &go);
    }
    row("a lease of a page that the device creates and maps", &first_lease()?);
    row("begin and end, a job alone", &turn(0)?);
    row("begin and end beside 7 jobs that run", &turn(7)?);
    row("a decision for 8 jobs", &decision(8)?);
    for name in ["bert-base", "nasnetalarge"] {
        let blocks = bundled::open(name)?.repeating().blocks;
        let plan = || Ok(black_box(Planner::new(&blocks)?.run()).offsets.len().min(1));
        row(&format!("a plan for {name}, {} blocks", blocks.len()), &Runs::of(15, plan)?);
    }
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../zico-cli/tests/data/midrun-sample.json.gz");
    let import = || zico_cli::import::open(&file).map(|_| 1).map_err(Into::into);
    row("importing a profile of PyTorch, 19 KB gzipped", &Runs::of(51, import)?);
    row("a step of a replay, resnet50 + bert-base", &replayed()?);
    row("the machine: a compare and an add", &limit::compare_and_add()?);
    for kib in [256, 8 << 10, 256 << 10] {
        row(&format!("the machine: a load from {kib} KiB at random"), &limit::loads(kib << 10)?);
    }
    println!("The rest, on the mock device:\n\n{figures}\n");
    Ok(())
}

/// Blocks of whole pages: the time of an allocation and of a free.
fn lease(pages: u64) -> Outcome<[Runs; 2]> {
    const REGION: u64 = 2 << 20;
    const BLOCKS: u64 = 64;
    let job = job(REGION, 2 * BLOCKS * pages * REGION)?;
    started(&job)?;
    let request = Request::new(Bytes::new(pages * REGION), Lifetime::Iteration);
    let (mut come, mut go, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..501 {
        let start = Instant::now();
        for _ in 0..BLOCKS {
            blocks.push(job.alloc(request)?);
        }
        come.push(start.elapsed().as_nanos() as f64 / BLOCKS as f64);
        let start = Instant::now();
        blocks.drain(..).try_for_each(|block| job.free(block))?;
        go.push(start.elapsed().as_nanos() as f64 / BLOCKS as f64);
    }
    Ok([Runs::sorted(come), Runs::sorted(go)])
}

fn first_lease() -> Outcome<Runs> {
    Runs::of(51, || {
        let job = job(2 << 20, 1 << 30)?;
        let request = Request::new(Bytes::mib(2), Lifetime::Persistent);
        for _ in 0..512 {
            job.alloc(request)?;
        }
        Ok(512)
    })
}

/// Iterations of a job beside others that are in the middle of theirs.
fn turn(others: usize) -> Outcome<Runs> {
    let pool = pool(2 << 20, 16 << 30)?;
    let mut jobs = Vec::new();
    for number in 0..=others {
        let job = pool.join(format!("{number}"), pool.device().add_stream())?;
        let wave = || -> Outcome<()> {
            for _ in 0..8 {
                let blocks: Vec<_> = (0..16)
                    .map(|_| job.alloc(Request::new(Bytes::mib(2), Lifetime::Iteration)))
                    .collect::<Result<_, _>>()?;
                blocks.into_iter().try_for_each(|block| job.free(block))?;
            }
            Ok(())
        };
        for _ in 0..3 {
            started(&job)?;
            wave()?;
            job.end()?;
        }
        jobs.push(job);
    }
    let Some((own, others)) = jobs.split_first() else { return Err("no job".into()) };
    others.iter().try_for_each(started)?;
    Runs::of(501, || {
        for _ in 0..20 {
            started(own)?;
            own.end()?;
        }
        Ok(20)
    })
}

/// One job asks while all others run, at different points of their iterations, under half the sum
/// of their peaks.
fn decision(count: usize) -> Outcome<Runs> {
    let recorded: Vec<Arc<Profile>> = bundled::names().map(profile).collect::<Outcome<_>>()?;
    let mut jobs: Vec<Tenant> = (0..count)
        .map(|i| Tenant {
            profile: Some(recorded[i % recorded.len()].clone()),
            activity: if i + 1 < count { Activity::Running } else { Activity::Waiting },
            ..Tenant::default()
        })
        .collect();
    let peaks = jobs.iter().filter_map(|job| Some(job.profile.as_ref()?.peak().value()));
    let budget = Regions::new(peaks.sum::<u32>() / 2);
    let (mut random, mut policy) = (fastrand::Rng::with_seed(7), TimeShift::default());
    Runs::of(10_000, || {
        for job in &mut jobs {
            let of = job.profile.as_ref().map_or(1, |profile| profile.operations().value());
            job.progress = Progress::new(random.u32(..of.max(1)));
        }
        black_box(policy.decide(&View::new(budget, black_box(&jobs), count - 1)));
        Ok(1)
    })
}

/// What a recorded job's iterations take when it is alone, on a device that works as long as
/// recorded.
fn profile(name: &str) -> Outcome<Arc<Profile>> {
    let trace = bundled::open(name)?;
    let pool = pool(2 << 20, 16 << 30)?;
    let job = pool.join(name, pool.device().add_stream())?;
    let mut blocks = vec![None; trace.blocks().len()];
    let mut run = |steps: &[Step]| -> Outcome<()> {
        for step in steps {
            match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    blocks[block.index()] = Some(job.alloc(Request::new(bytes, lifetime))?);
                }
                Step::Free { block } => {
                    blocks[block.index()].take().map_or(Ok(()), |block| job.free(block))?;
                }
                Step::Launch { work } => {
                    let device = pool.device();
                    device.advance_to(device.now().saturating_add(work));
                }
                Step::Use { .. } | Step::Phase(_) => {}
            }
        }
        Ok(())
    };
    run(trace.setup())?;
    for iteration in trace.iterations() {
        started(&job)?;
        run(iteration.steps())?;
        job.end()?;
    }
    Ok(Arc::new(job.profile().ok_or("no iteration has ended")?))
}

/// Both jobs together half-way between the least budget and the sum of their peaks.
fn replayed() -> Outcome<Runs> {
    const ITERATIONS: u64 = 20;
    let traces = [bundled::open("resnet50")?, bundled::open("bert-base")?];
    let traces: Vec<_> = traces.iter().collect();
    let needs = needs(&traces, None, 3, &Machine::default())?;
    let mut config = ReplayConfig::new(needs.budget_at(0.5));
    config.iterations = ITERATIONS;
    Runs::of(7, || {
        let outcome = replay(&traces, &config, &mut |_| {})?;
        Ok(usize::try_from(outcome.steps)?)
    })
}

/// Three significant digits, with the unit.
fn time(nanos: f64) -> String {
    let (figure, unit) = match nanos {
        ..1e3 => (nanos, "ns"),
        1e3..1e6 => (nanos / 1e3, "us"),
        _ => (nanos / 1e6, "ms"),
    };
    format!("{} {unit}", crate::versus::digits(figure))
}
