//! A replay whose jobs are processes of their own, under a broker in this one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zico_core::{Bytes, Snapshot};
use zico_cuda::{CudaPhysical, Physical};
use zico_mock::replay::{ReplayConfig, names};
use zico_mock::trace::Trace;
use zico_node::host::{HostConfig, HostDevice, held_by_the_kernel};
use zico_node::{DeviceLock, Observer, Server, ServerConfig};

use super::outcome::{JobOutcome, Outcome};
use super::worker::{Said, Task};
use super::{Failed, Shared};
use crate::args::DeviceName;
use crate::failure::Failure;

/// How often the memory of all regions is counted.
const SAMPLE: Duration = Duration::from_millis(20);
/// The seeds of patterns of one process.
const SEEDS: u32 = 1 << 26;

/// Replays each trace in a process of its own.
pub(super) fn replay(
    device: DeviceName,
    pool: Shared,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &(dyn Fn() + Sync),
) -> Result<Outcome, Failure> {
    let outcome = match device {
        DeviceName::Cuda(ordinal) => {
            let physical = CudaPhysical::open(ordinal)?;
            let name = physical.uuid().to_string();
            let lock = DeviceLock::take(&name).map_err(|error| Failure::OnDevice(error.into()))?;
            let of = (Some(ordinal), &*name);
            let outcome = under_broker(physical, of, pool, traces, config, progress);
            drop(lock);
            outcome
        }
        DeviceName::Host => HostDevice::new(HostConfig::new())
            .map_err(Failed::from)
            .and_then(|host| under_broker(host, (None, "host"), pool, traces, config, progress)),
        DeviceName::Mock => return Err(Failure::ProcessesOnMock),
    };
    outcome.map_err(Failure::OnDevice)
}

fn under_broker<D: Physical + Send>(
    physical: D,
    (cuda, device): (Option<u32>, &str),
    (pool, policy): Shared,
    traces: &[&Trace],
    config: &ReplayConfig,
    progress: &(dyn Fn() + Sync),
) -> Result<Outcome, Failed>
where
    D::Memory: Send,
{
    let folder = Folder::new()?;
    let socket = folder.0.join("socket");
    let server =
        ServerConfig { socket: socket.clone(), pool, device: device.to_owned(), users: Vec::new() };
    let mut server = Server::bind(server, physical, Duration::ZERO)?;
    let (budget, region) = (server.budget(), server.region_size());
    let (stop, keep) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let played = std::thread::scope(|scope| {
        let served = scope.spawn(move || server.run(&stop));
        let played = Workers::start(&folder.0, &socket, cuda, traces, config)
            .and_then(|workers| workers.play(&socket, config, progress));
        drop::<OwnedFd>(keep);
        served.join().map_err(|_| Failure::Thread)??;
        played
    })?;
    let Played { window, held, snapshot, reports } = played;
    Ok(Outcome {
        device: device.to_owned(),
        policy,
        budget,
        region,
        window,
        // The memory of a GPU is no file whose blocks could be counted.
        held: if cuda.is_some() { snapshot.held } else { held },
        counts: snapshot.counts,
        checked: reports.iter().map(|report| report.checked).sum(),
        mismatches: reports.iter().map(|report| report.mismatches).sum(),
        calls: Vec::new(),
        jobs: reports.into_iter().map(|report| report.job).collect(),
    })
}

/// A folder for the socket and the traces. It goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failed> {
        let path = std::env::temp_dir().join(format!("zico-replay-{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| Failure::Write { path: path.clone(), source })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left over is in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A job's process. It is killed when this is dropped.
struct Worker {
    name: String,
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Workers(Vec<Worker>);

/// What a process has come to.
struct Report {
    job: JobOutcome,
    checked: u64,
    mismatches: u64,
}

struct Played {
    window: Duration,
    /// The most that the kernel has counted.
    held: Bytes,
    snapshot: Snapshot,
    reports: Vec<Report>,
}

impl Workers {
    fn start(
        folder: &Path,
        socket: &Path,
        cuda: Option<u32>,
        traces: &[&Trace],
        config: &ReplayConfig,
    ) -> Result<Self, Failed> {
        let program = std::env::current_exe()?;
        let start = |(index, (trace, name)): (u32, (&&Trace, String))| {
            let path = folder.join(format!("{index}.ztrace"));
            trace.write(std::io::BufWriter::new(fs::File::create(&path)?))?;
            let task = Task {
                trace: path,
                socket: socket.to_owned(),
                cuda,
                name: name.clone(),
                terms: config.jobs.get(index as usize).cloned().unwrap_or_default(),
                iterations: config.iterations,
                learned: config.learned,
                ends_with_next: config.ends_with_next,
                time_scale: config.machine.time_scale,
                run_ahead: config.machine.run_ahead,
                first_seed: 1 + index.wrapping_mul(SEEDS),
            };
            Worker::start(&program, name, &task)
        };
        let all = (0..).zip(traces.iter().zip(names(traces)));
        Ok(Self(all.map(start).collect::<Result<_, Failed>>()?))
    }

    /// Lets all of them play until each has done its iterations.
    fn play(
        self,
        socket: &Path,
        config: &ReplayConfig,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Played, Failed> {
        let mut workers = self.0;
        let observer = Observer::connect(socket)?;
        for worker in &mut workers {
            // One that could not join says why when it is heard to its end.
            let _ = worker.hear();
        }
        let unfinished = AtomicUsize::new(workers.len());
        let (is_over, most, started) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
        let inputs: Vec<ChildStdin> =
            workers.iter_mut().filter_map(|worker| worker.to.take()).collect();
        let inputs = Mutex::new(inputs);
        let (mut window, broker) = (Duration::ZERO, std::process::id());
        let finished = || {
            if unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
                lock(&inputs).clear();
            }
        };
        let finished = &finished;
        let reports = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    most.fetch_max(held_by_the_kernel(broker).value(), Ordering::Relaxed);
                    std::thread::sleep(SAMPLE);
                }
            });
            for input in lock(&inputs).iter_mut() {
                // One that has ended by now is heard of below.
                let _ = input.write_all(b"go\n");
            }
            let heard = workers.into_iter().map(|worker| {
                scope.spawn(move || worker.until_its_end(config.iterations, finished, progress))
            });
            let heard: Vec<_> = heard.collect();
            let reports = heard
                .into_iter()
                .map(|thread| thread.join().map_err(|_| Failure::Thread))
                .collect::<Result<Vec<Report>, _>>();
            window = started.elapsed();
            is_over.store(true, Ordering::Release);
            sampler.join().map_err(|_| Failure::Thread)?;
            reports
        })?;
        let held = Bytes::new(most.into_inner());
        Ok(Played { window, held, snapshot: observer.snapshot()?, reports })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    fn start(program: &Path, name: String, task: &Task) -> Result<Self, Failed> {
        let mut process = Command::new(program)
            .arg("replay-job")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (to, from) = (process.stdin.take(), process.stdout.take());
        let (Some(mut to), Some(from)) = (to, from) else { return Err(Failure::Thread.into()) };
        writeln!(to, "{}", serde_json::to_string(task)?)?;
        Ok(Self { name, process, to: Some(to), from: BufReader::new(from) })
    }

    /// What it says next. None if it has ended.
    fn hear(&mut self) -> Option<Said> {
        let mut line = String::new();
        self.from.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Hears it to its end. `finished` is told once, when it has done its iterations or can do no
    /// more.
    fn until_its_end(
        mut self,
        iterations: u64,
        finished: &(dyn Fn() + Sync),
        progress: &(dyn Fn() + Sync),
    ) -> Report {
        let mut done = 0;
        let report = loop {
            match self.hear() {
                Some(Said::Joined) => {}
                Some(Said::Iteration) => {
                    done += 1;
                    progress();
                    if done == iterations {
                        finished();
                    }
                }
                Some(Said::Done { job, checked, mismatches }) => {
                    break Report { job, checked, mismatches };
                }
                None => break self.ended(done),
            }
        };
        if done < iterations {
            finished();
        }
        report
    }

    /// It has ended without a word, as it does when it is killed.
    fn ended(&mut self, iterations: u64) -> Report {
        let how = self.process.wait().map_or_else(|error| error.to_string(), |end| end.to_string());
        let mut job = JobOutcome::new(self.name.clone());
        (job.iterations, job.failure) = (iterations, Some(format!("its process has ended: {how}")));
        Report { job, checked: 0, mismatches: 0 }
    }
}
