//! The functions of `zico.h` for several processes under one budget.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use zico_core::{Bytes, PoolConfig};
use zico_cuda::{CudaDevice, CudaPhysical, Options, Physical, Share};
use zico_node::host::{HostConfig, HostDevice, raise_descriptor_limit};
use zico_node::{
    Client, ConnectError, DeviceLock, Observer, Server, ServerConfig, ServerError, end_unused,
};

use crate::abi::{PoolHandle, check, give};
use crate::fork;
use crate::handles::pools;
use crate::stats::PoolStats;
use crate::status::{Failure, Status, call};
use crate::streams::Adopt;
use crate::tenant;

/// The path in a text.
///
/// # Safety
/// `socket` is null or ends with a zero.
unsafe fn path(socket: *const c_char) -> Result<PathBuf, Failure> {
    if socket.is_null() {
        return Err(Failure::new(Status::ZicoInvalid, "the path of the socket is null"));
    }
    // SAFETY: not null, so a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(socket) };
    Ok(PathBuf::from(OsStr::from_bytes(text.to_bytes())))
}

/// Connects on a device, and gives the pool to the caller.
///
/// # Safety
/// `socket` is null or ends with a zero; `pool` is null or points to a handle that may be written.
unsafe fn connect<D: Adopt + Share + Clone>(
    device: D,
    socket: *const c_char,
    pool: *mut PoolHandle,
) -> Result<(), Failure> {
    // SAFETY: as the caller has promised.
    let socket = unsafe { path(socket) }?;
    let opened = tenant::opened(Client::connect(device, &socket)?);
    // SAFETY: as the caller has promised.
    unsafe { give(pool, pools().add(opened)) }
}

/// Connects to the broker of this machine's own memory that serves at `socket`: a pool whose jobs
/// share the broker's budget with those of all other processes. `capacity` is as for
/// `zico_open_host`.
///
/// # Safety
/// `socket` is null, which is refused, or ends with a zero. `pool` points to a handle that may be
/// written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_connect_host(
    socket: *const c_char,
    capacity: u64,
    pool: *mut PoolHandle,
) -> Status {
    call(|| {
        check(pool)?;
        fork::watch();
        let mut config = HostConfig::new();
        if capacity > 0 {
            config = config.capacity(Bytes::new(capacity));
        }
        // Where that is refused the limit is what it is.
        let _ = raise_descriptor_limit();
        // SAFETY: as the caller has promised.
        unsafe { connect(HostDevice::new(config)?, socket, pool) }
    })
}

/// Connects to the broker of a CUDA device that serves at `socket`. `device` is this process's
/// number for it.
///
/// # Safety
/// As `zico_connect_host`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_connect_cuda(
    socket: *const c_char,
    device: u32,
    pool: *mut PoolHandle,
) -> Status {
    call(|| {
        check(pool)?;
        fork::watch();
        let _ = raise_descriptor_limit();
        let device = CudaDevice::open(device, Options::new().shareable(true))?;
        // SAFETY: as the caller has promised.
        unsafe { connect(device, socket, pool) }
    })
}

/// How long after a process has ended its work on a GPU is taken to be over.
const GRACE: Duration = Duration::from_secs(2);

/// Until when a broker serves.
enum Until {
    /// This descriptor can be read from; never, if it is negative.
    Stopped(c_int),
    /// Nobody needs it any more. This descriptor gets a byte when it listens, unless it is negative.
    Unused(c_int),
}

/// Serves.
///
/// # Safety
/// `socket` is null or ends with a zero. The descriptor in `until` is open, or negative.
unsafe fn serve<D: Physical>(
    device: D,
    name: &str,
    grace: Duration,
    (socket, budget, until): (*const c_char, u64, Until),
) -> Result<(), Failure> {
    // SAFETY: as the caller has promised.
    let socket = unsafe { path(socket) }?;
    let pool = PoolConfig::new(Bytes::new(budget)).fewest_calls(true);
    let config = ServerConfig { socket, pool, device: name.to_owned(), users: Vec::new() };
    let (Until::Stopped(descriptor) | Until::Unused(descriptor)) = until;
    // SAFETY: as the caller has promised; the copy is ours.
    let lent = (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) });
    let own = lent.map(|lent| lent.try_clone_to_owned()).transpose().map_err(failed)?;
    let mut server = Server::bind(config, device, grace)?;
    if let (Until::Stopped(_), Some(stop)) = (&until, &own) {
        return Ok(server.run(stop)?);
    }
    let (stop, writer) = std::io::pipe().map_err(failed)?;
    // Never written to, and closed when it is to end.
    let _never = match until {
        Until::Stopped(_) => Some(writer),
        Until::Unused(_) => {
            // Its lock is held until the process ends.
            end_unused(server.socket(), writer)?;
            if let Some(listening) = own {
                File::from(listening).write_all(&[1]).map_err(failed)?;
            }
            None
        }
    };
    Ok(server.run(&OwnedFd::from(stop))?)
}

/// Of this machine's own memory.
///
/// # Safety
/// As `serve`.
unsafe fn serve_host(socket: *const c_char, budget: u64, until: Until) -> Status {
    call(|| {
        let device = HostDevice::new(HostConfig::new())?;
        // Host memory that a process had mapped has gone with it.
        // SAFETY: as the caller has promised.
        unsafe { serve(device, "host", Duration::ZERO, (socket, budget, until)) }
    })
}

/// Of a CUDA device.
///
/// # Safety
/// As `serve`.
unsafe fn serve_cuda(socket: *const c_char, device: u32, budget: u64, until: Until) -> Status {
    call(|| {
        let device = CudaPhysical::open(device)?;
        let name = device.uuid().to_string();
        let _lock = DeviceLock::take(&name)?;
        // SAFETY: as the caller has promised.
        unsafe { serve(device, &name, GRACE, (socket, budget, until)) }
    })
}

/// Serves as the broker of this machine's own memory, `budget` bytes of it for all processes that
/// connect to `socket`. Returns when the descriptor `stop` can be read from, or hangs up; a
/// negative one is none, and it serves until the process ends.
///
/// # Safety
/// `socket` is null, which is refused, or ends with a zero. `stop` is open, or negative.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_serve_host(
    socket: *const c_char,
    budget: u64,
    stop: c_int,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { serve_host(socket, budget, Until::Stopped(stop)) }
}

/// Serves as the broker of the CUDA device with this number, counted from 0, as `zico_serve_host`
/// does of the machine's own memory. Makes no context on the device. One process of a machine
/// serves a device.
///
/// # Safety
/// As `zico_serve_host`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_serve_cuda(
    socket: *const c_char,
    device: u32,
    budget: u64,
    stop: c_int,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { serve_cuda(socket, device, budget, Until::Stopped(stop)) }
}

/// As `zico_serve_host`, but returns when nobody needs the broker any more: no process has a shared
/// lock (flock) on the file `SOCKET.users`, and there is no job. The descriptor `listening` gets a
/// byte, 1, when it listens; a negative one is none. The process is to end soon after the return:
/// until then it has the file locked, so that whoever locks it next finds no broker that ends.
///
/// # Safety
/// As `zico_serve_host`; `listening` is open, or negative.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_serve_host_while_used(
    socket: *const c_char,
    budget: u64,
    listening: c_int,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { serve_host(socket, budget, Until::Unused(listening)) }
}

/// As `zico_serve_cuda`, but returns when nobody needs the broker any more, as
/// `zico_serve_host_while_used` does.
///
/// # Safety
/// As `zico_serve_host_while_used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_serve_cuda_while_used(
    socket: *const c_char,
    device: u32,
    budget: u64,
    listening: c_int,
) -> Status {
    // SAFETY: as the caller has promised.
    unsafe { serve_cuda(socket, device, budget, Until::Unused(listening)) }
}

/// What all jobs of the broker that serves at `socket` hold together, whatever its device.
/// ZICO_NO_BROKER if none serves there.
///
/// # Safety
/// `socket` is null, which is refused, or ends with a zero. `stats` points to statistics that may
/// be written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_broker_stats(socket: *const c_char, stats: *mut PoolStats) -> Status {
    call(|| {
        // SAFETY: as the caller has promised.
        let socket = unsafe { path(socket) }?;
        let observer = Observer::connect(&socket).map_err(no_broker)?;
        let budget = observer.budget().map_err(no_broker)?;
        // SAFETY: as the caller has promised.
        unsafe { give(stats, budget.into()) }
    })
}

/// A table of the jobs of the broker that serves at `socket`, for people. As much as there is room
/// for is written to `text`, with a zero at its end, and the length of all of it (without the zero)
/// to `length`. ZICO_NO_BROKER if no broker serves there.
///
/// # Safety
/// `socket` is null, which is refused, or ends with a zero. `text` points to `capacity` bytes that
/// may be written, or is null, and then only the length is said. `length` points to a number that
/// may be written, or is null, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zico_broker_report(
    socket: *const c_char,
    text: *mut c_char,
    capacity: u64,
    length: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller has promised.
        let socket = unsafe { path(socket) }?;
        let observer = Observer::connect(&socket).map_err(no_broker)?;
        let report = observer.snapshot().map_err(no_broker)?.to_string();
        // SAFETY: as the caller has promised.
        unsafe { give(length, report.len() as u64) }?;
        let room = usize::try_from(capacity).unwrap_or(usize::MAX);
        let Some(most) = room.checked_sub(1).filter(|_| !text.is_null()) else { return Ok(()) };
        let written = report.len().min(most);
        // SAFETY: not null, so the caller's, and less than the capacity.
        unsafe {
            text.cast::<u8>().copy_from_nonoverlapping(report.as_ptr(), written);
            text.add(written).write(0);
        }
        Ok(())
    })
}

fn no_broker(error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::ZicoNoBroker, error)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::ZicoInvalid, error)
}

impl<E: zico_core::DeviceError> From<ConnectError<E>> for Failure {
    fn from(error: ConnectError<E>) -> Self {
        match error {
            ConnectError::Pool(error) => error.into(),
            error => Self::new(Status::ZicoNoBroker, error),
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let status = match &error {
            ServerError::Busy { .. } => Status::ZicoBusy,
            _ => Status::ZicoInvalid,
        };
        Self::new(status, error)
    }
}
