//! A broker that ends with the last job that needs it.
//!
//! Whoever needs one holds a lock on a file beside the socket, shared with all others who do. A
//! broker that gets that lock for itself is needed by nobody; it keeps the lock until it has gone,
//! so whoever comes meanwhile waits for it, and then finds no broker instead of one that is about
//! to end. The kernel lets a lock go with the last process that has it, whatever way that ends.

use std::io::Write;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdir, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::ServerError;
use crate::client::Observer;

/// How often it is looked whether anybody needs the broker.
const LOOK: Duration = Duration::from_millis(200);

/// The need for a broker at a socket, as long as this is there: one that ends when it is unused
/// ([`end_unused`]) does not. Whether there is a broker is not said by it.
#[derive(Debug)]
pub struct Use {
    lock: OwnedFd,
}

impl Use {
    /// Says that a broker at this socket is needed. Waits while one there is about to end. The
    /// socket's folder is made, for this user alone, if it is not there.
    ///
    /// # Errors
    /// If the file `SOCKET.users` cannot be made or locked.
    pub fn of(socket: &Path) -> Result<Self, ServerError> {
        if let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            match mkdir(folder, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused(folder.to_owned(), "mkdir", error)),
            }
        }
        let lock = file(socket)?;
        loop {
            match flock(&lock, FlockOperation::LockShared) {
                Ok(()) => return Ok(Self { lock }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(refused(path(socket), "flock", error)),
            }
        }
    }

    /// Leaves the need to the program that takes this process's place, and to its children that do
    /// not close what they inherit.
    ///
    /// # Errors
    /// If the kernel refuses to pass the descriptor on.
    pub fn pass_on(self) -> std::io::Result<()> {
        fcntl_setfd(&self.lock, FdFlags::empty())?;
        let _ = self.lock.into_raw_fd();
        Ok(())
    }
}

/// Writes a byte to `stop` once nobody needs the broker of this process at a socket any more: no
/// [`Use`] of the socket, and no job. The thread looks a few times a second.
///
/// What the thread returns is to be dropped when the broker has gone; who waits in [`Use::of`]
/// waits for that. The end of the process will do.
///
/// # Errors
/// If the file `SOCKET.users` or the thread cannot be made.
pub fn end_unused(
    socket: &Path,
    mut stop: impl Write + Send + 'static,
) -> Result<JoinHandle<Use>, ServerError> {
    let lock = file(socket)?;
    let socket = socket.to_owned();
    let watch = move || {
        loop {
            std::thread::sleep(LOOK);
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            if !has_jobs(&socket) {
                // Whoever reads it has stopped already if this fails.
                let _ = stop.write_all(&[0]);
                return Use { lock };
            }
            let _ = flock(&lock, FlockOperation::Unlock);
        }
    };
    let thread = std::thread::Builder::new().name("zico-unused".to_owned()).spawn(watch);
    thread.map_err(|error| {
        let error = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
        refused(PathBuf::from("a thread"), "spawn", error)
    })
}

/// Whether there are jobs of processes that hold no lock: they have found the socket themselves.
fn has_jobs(socket: &Path) -> bool {
    let snapshot = Observer::connect(socket).map(|observer| observer.snapshot());
    matches!(snapshot, Ok(Ok(snapshot)) if !snapshot.jobs.is_empty())
}

fn path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".users");
    PathBuf::from(name)
}

fn file(socket: &Path) -> Result<OwnedFd, ServerError> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = open(path(socket), flags, Mode::from_raw_mode(0o600));
    opened.map_err(|error| refused(path(socket), "open", error))
}

fn refused(path: PathBuf, call: &'static str, error: Errno) -> ServerError {
    ServerError::Socket { path, call, error }
}
