//! Brokers that nobody's terminal is taken up with.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use zico_core::Bytes;
use zico_cuda::CudaPhysical;
use zico_node::{ConnectError, Observer, Use};

use super::{NodeError, place};
use crate::args::ServedDevice;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::{stderr, stdout};

/// Starts this same command in a process of its own, and returns when that listens.
pub(super) fn serve() -> Result<Exit, Failure> {
    let args = env::args_os().skip(1).filter(|arg| arg != "--background");
    let mut child = itself(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What the keys of this terminal interrupt it is not.
        .process_group(0)
        .spawn()
        .map_err(|source| NodeError::Process { what: "the broker", source })?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if !line.is_empty() {
        stdout().write_all(line.as_bytes())?;
        return Ok(Exit::Fine);
    }
    let mut why = Vec::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_end(&mut why)?;
    }
    stderr().write_all(&why)?;
    child.wait()?;
    Ok(Exit::Refused)
}

fn itself(args: impl IntoIterator<Item = OsString>) -> Command {
    let program = env::current_exe().unwrap_or_else(|_| "zico".into());
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command
}

/// The broker at a place, started there if there is none. It does not end as long as what is
/// returned is there.
pub(super) fn find_or_serve(
    given: Option<&Path>,
    device: ServedDevice,
    budget: Bytes,
) -> Result<(PathBuf, Use), Failure> {
    let name = match device {
        ServedDevice::Host => "host".to_owned(),
        ServedDevice::Cuda(number) => {
            CudaPhysical::open(number).map_err(NodeError::Cuda)?.uuid().to_string()
        }
    };
    let socket = place::to_serve(given, &name, false)?;
    let using = Use::of(&socket).map_err(NodeError::Server)?;
    match Observer::connect(&socket) {
        Ok(observer) => tell_if_other(&observer, &socket, budget)?,
        Err(ConnectError::NoBroker { .. }) => {
            if let Err(failure) = start(&socket, device, budget) {
                // Another job may be starting one at this moment.
                let observer = wait_for(&socket).ok_or(failure)?;
                tell_if_other(&observer, &socket, budget)?;
            }
        }
        Err(error) => return Err(NodeError::Connect(error).into()),
    }
    Ok((socket, using))
}

/// The broker that is about to listen; none if none comes in two seconds.
fn wait_for(socket: &Path) -> Option<Observer> {
    (0..40).find_map(|_| {
        let found = Observer::connect(socket).ok();
        if found.is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        found
    })
}

/// The broker that serves has its own budget: whoever asked for another has to know.
fn tell_if_other(observer: &Observer, socket: &Path, budget: Bytes) -> Result<(), Failure> {
    let own = observer.budget().map_err(NodeError::Broker)?.target;
    let asked = budget.value() / observer.region_size().value().max(1);
    if own.value() / observer.region_size().value().max(1) != asked {
        writeln!(
            stderr(),
            "zico: the broker at {} has a budget of {own}, which stays: --budget {budget} is for a broker \
             that is started (zico budget changes that of one that serves)",
            socket.display()
        )?;
    }
    Ok(())
}

fn start(socket: &Path, device: ServedDevice, budget: Bytes) -> Result<(), Failure> {
    let budget = budget.value().to_string();
    let device = device.to_string();
    let words = ["serve", "--background", "--while-used", "--device", &device, "--budget", &budget];
    let mut args: Vec<OsString> = words.iter().map(OsString::from).collect();
    args.extend(["--socket".into(), socket.into()]);
    let output = itself(args).output();
    let output = output.map_err(|source| NodeError::Process { what: "the broker", source })?;
    if output.status.success() {
        // "zico serves host at ...".
        write!(
            stderr(),
            "zico: until the last job ends, {}",
            String::from_utf8_lossy(&output.stdout)
        )?;
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NodeError::NotStarted(why).into())
}
