//! `zico serve`

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use zico_core::{PoolConfig, Ticks};
use zico_cuda::{CudaPhysical, Physical};
use zico_mock::replay::PolicyKind;
use zico_node::host::{HostConfig, HostDevice};
use zico_node::{DeviceLock, Server, ServerConfig, end_unused};

use super::metrics::Metrics;
use super::{NodeError, background, place};
use crate::args::{Serve, ServedDevice};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::{stderr, stdout};

/// How long after a process has ended its work on a GPU is taken to be over, unless told otherwise.
const GRACE: Ticks = Ticks::millis(2000);

/// Serves until it is interrupted.
pub(crate) fn run(args: &Serve) -> Result<Exit, Failure> {
    if args.background {
        return background::serve();
    }
    match args.device {
        ServedDevice::Host => {
            let mut config = HostConfig::new();
            if let Some(capacity) = args.capacity {
                config = config.capacity(capacity);
            }
            let device = HostDevice::new(config).map_err(NodeError::Host)?;
            serve(args, device, "host", Ticks::ZERO)
        }
        ServedDevice::Cuda(number) => {
            if args.capacity.is_some() {
                return Err(NodeError::Capacity.into());
            }
            let device = CudaPhysical::open(number).map_err(NodeError::Cuda)?;
            let name = device.uuid().to_string();
            let _lock = DeviceLock::take(&name).map_err(NodeError::Server)?;
            serve(args, device, &name, GRACE)
        }
    }
}

fn serve<D: Physical>(args: &Serve, device: D, name: &str, grace: Ticks) -> Result<Exit, Failure> {
    let (stop, told) = signals()?;
    let socket = place::to_serve(args.socket.as_deref(), name, !args.allow_user.is_empty())?;
    let config = ServerConfig {
        socket,
        pool: pool(args)?,
        device: name.to_owned(),
        users: args.allow_user.clone(),
    };
    let grace = Duration::from_nanos(args.grace.unwrap_or(grace).value());
    let metrics = args.metrics.map(Metrics::bind).transpose()?;
    let mut server = Server::bind(config, device, grace).map_err(NodeError::Server)?;
    let at = metrics.map(|metrics| metrics.start(server.socket())).transpose()?;
    let unused = args.while_used.then(|| end_unused(server.socket(), told)).transpose();
    // Held until the process ends: who comes meanwhile waits for that.
    let _unused = unused.map_err(NodeError::Server)?;
    announce(&server, name, at.as_deref())?;
    // Tells whoever has started it as a service, if somebody has; one that has gone does not want
    // to know.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    server.run(&stop).map_err(NodeError::Server)?;
    let (_, jobs) = server.jobs();
    if jobs > 0 {
        let jobs = if jobs == 1 { "1 job goes".to_owned() } else { format!("{jobs} jobs go") };
        // Standard error may be closed.
        let _ = writeln!(stderr(), "zico: stopped; {jobs} on with what is held");
    }
    Ok(Exit::Fine)
}

/// Says in one line what is served, and where.
fn announce<D: Physical>(
    server: &Server<D>,
    name: &str,
    metrics: Option<&str>,
) -> Result<(), Failure> {
    let (budget, region) = (server.budget(), server.region_size());
    let count = budget.value() / region.value().max(1);
    let metrics = metrics.map_or_else(String::new, |at| format!("; metrics at {at}"));
    let mut out = stdout();
    writeln!(
        out,
        "zico serves {name} at {}: a budget of {budget} in {count} regions of {region}{metrics}",
        server.socket().display(),
    )?;
    out.flush()?;
    Ok(())
}

fn pool(args: &Serve) -> Result<PoolConfig, NodeError> {
    let kind = PolicyKind::from(args.policy);
    let for_replays =
        matches!(kind, PolicyKind::SalusSrtf | PolicyKind::Static | PolicyKind::Unmanaged);
    let policy = kind.policy(0).filter(|_| !for_replays);
    let policy = policy.ok_or(NodeError::Policy(kind.name()))?;
    let pool = PoolConfig::new(args.budget).policy(policy).fewest_calls(true);
    Ok(match args.region {
        Some(region) => pool.region_size(region),
        None => pool,
    })
}

/// What can be read from as soon as this process is to end, and what to write to so that it is.
fn signals() -> Result<(OwnedFd, UnixStream), NodeError> {
    let prepare = || {
        let (stop, told) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
        }
        Ok((OwnedFd::from(stop), told))
    };
    prepare().map_err(|source| NodeError::Process { what: "signals", source })
}
