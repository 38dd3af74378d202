//! What one decision costs, for 2 to 16 jobs with recorded profiles.
//!
//! ```text
//! cargo run --release -p zico-core --example decision
//! ```
//!
//! All jobs but one run, each somewhere in its iteration, or, in the second table, only the first
//! one does; the last one asks. Positions are drawn anew for each decision. The budget is a share
//! of what nobody would have to wait for, and large enough for the candidate alone.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zico_core::policy::{Policy, Tenant, TickTock, TimeShift, View};
use zico_core::{
    Activity, Begin, Bytes, Device, Pool, PoolConfig, Profile, Progress, Regions, Request,
};
use zico_mock::policy::{Conservative, Lanes, ModelBased, Spatial};
use zico_mock::trace::{Step, Trace};
use zico_mock::{MockConfig, MockDevice, Utilisation, bundled};

const DECISIONS: usize = 20_000;
const REGION: Bytes = Bytes::mib(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorded: Vec<Arc<Profile>> = bundled::names()
        .map(|name| Ok(Arc::new(profile(&bundled::open(name)?)?)))
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let steps: Vec<usize> = recorded.iter().map(|profile| profile.steps().len()).collect();
    println!("steps of the profiles: {steps:?}\n");
    println!("| policy | budget | 2 jobs | 4 | 8 | 16 |\n|---|---|---|---|---|---|");
    let mut policies: [Box<dyn Policy>; 6] = [
        Box::new(TimeShift::default()),
        Box::new(Conservative),
        Box::new(ModelBased),
        Box::new(TickTock),
        Box::new(Spatial),
        Box::new(Lanes::default()),
    ];
    for policy in &mut policies {
        for share in [0.75, 0.5, 0.25] {
            print!("| {} | {share} of the peaks |", policy.name());
            for jobs in [2, 4, 8, 16] {
                let (median, late) = cost(&mut **policy, &recorded, (jobs, jobs - 1), share);
                print!(" {:.1} / {:.1} |", micros(median), micros(late));
            }
            println!();
        }
    }
    println!("\n| one runs, the others wait | 2 jobs | 4 | 8 | 16 |\n|---|---|---|---|---|");
    for share in [0.75, 0.5, 0.25] {
        print!("| zico, {share} of the peaks |");
        for jobs in [2, 4, 8, 16] {
            let (median, late) = cost(&mut TimeShift::default(), &recorded, (jobs, 1), share);
            print!(" {:.1} / {:.1} |", micros(median), micros(late));
        }
        println!();
    }
    println!("\nMicroseconds: median / 99th percentile of {DECISIONS} decisions.");
    Ok(())
}

/// The profile of a recorded job, from running it alone.
fn profile(trace: &Trace) -> Result<Profile, Box<dyn std::error::Error>> {
    let budget = Bytes::gib(16);
    let device = MockDevice::new(MockConfig::new(budget))?;
    let pool = Pool::new(device.clone(), PoolConfig::new(budget).region_size(REGION))?;
    let stream = device.add_stream();
    let job = pool.join(trace.name(), stream)?;
    let mut blocks = std::collections::HashMap::new();
    let mut run = |steps: &[Step]| -> Result<(), Box<dyn std::error::Error>> {
        for step in steps {
            match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    blocks.insert(block, job.alloc(Request::new(bytes, lifetime))?);
                }
                Step::Free { block } => {
                    if let Some(block) = blocks.remove(&block) {
                        job.free(block)?;
                    }
                }
                Step::Launch { work } => {
                    device.launch(stream, work, Utilisation::FULL)?;
                    device.advance_to(device.now().saturating_add(work));
                }
                Step::Use { .. } | Step::Phase(_) => {}
            }
        }
        Ok(())
    };
    run(trace.setup())?;
    for iteration in trace.iterations() {
        if job.begin(None)? != Begin::Started {
            return Err("a job that is alone has to wait".into());
        }
        run(iteration.steps())?;
        job.end()?;
    }
    job.profile().ok_or_else(|| "no iteration has ended".into())
}

/// The median and the 99th percentile of the time that a decision takes where so many of the jobs
/// run.
fn cost(
    policy: &mut dyn Policy,
    recorded: &[Arc<Profile>],
    (count, running): (usize, usize),
    share: f64,
) -> (Duration, Duration) {
    let mut jobs: Vec<Tenant> = (0..count)
        .map(|i| Tenant {
            profile: Some(recorded[i % recorded.len()].clone()),
            activity: if i < running { Activity::Running } else { Activity::Waiting },
            ..Tenant::default()
        })
        .collect();
    let peaks = jobs.iter().filter_map(|job| Some(job.profile.as_ref()?.peak().value()));
    let (sum, last) = peaks.fold((0, 0), |(sum, _), peak| (sum + peak, peak));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a sum")]
    let budget = Regions::new(((f64::from(sum) * share) as u32).max(last));
    let mut random = 1u64;
    let mut times = Vec::with_capacity(DECISIONS);
    for _ in 0..DECISIONS {
        for job in &mut jobs {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let of = job.profile.as_ref().map_or(1, |profile| profile.operations().value());
            let here = u32::try_from((random >> 33) % u64::from(of.max(1))).unwrap_or_default();
            job.progress = Progress::new(here);
        }
        let before = Instant::now();
        black_box(policy.decide(&View::new(budget, black_box(&jobs), count - 1)));
        times.push(before.elapsed());
    }
    times.sort_unstable();
    (times[DECISIONS / 2], times[DECISIONS / 100 * 99])
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
