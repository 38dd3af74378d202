//! The socket: one broker at a time, and a file that is left over is no obstacle.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, chmod, flock, mkdir, open, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use super::ServerError;

/// So many connections wait to be accepted.
const BACKLOG: i32 = 64;

pub(super) struct Listener {
    path: PathBuf,
    socket: OwnedFd,
    /// Locked as long as the broker is there, by whatever way it ends.
    _lock: OwnedFd,
}

impl Listener {
    /// Listens at a path. Its folder is made, for this user alone unless others are to come in.
    pub(super) fn bind(path: &Path, others: bool) -> Result<Self, ServerError> {
        let refused = |path: &Path, call| {
            let path = path.to_owned();
            move |error| ServerError::Socket { path, call, error }
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let mode = if others { 0o755 } else { 0o700 };
            match mkdir(folder, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused(folder, "mkdir")(error)),
            }
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock_path = PathBuf::from(name);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let lock = open(&lock_path, flags, Mode::from_raw_mode(0o600))
            .map_err(refused(&lock_path, "open"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(ServerError::Busy { socket: path.to_owned() }),
            Err(error) => return Err(refused(&lock_path, "flock")(error)),
        }
        // Nobody else serves here: a file that is there is left over.
        match unlink(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(refused(path, "unlink")(error)),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(refused(path, "socket"))?;
        let address = SocketAddrUnix::new(path).map_err(refused(path, "socket path"))?;
        bind(&socket, &address).map_err(refused(path, "bind"))?;
        let mode = if others { 0o666 } else { 0o600 };
        chmod(path, Mode::from_raw_mode(mode)).map_err(refused(path, "chmod"))?;
        listen(&socket, BACKLOG).map_err(refused(path, "listen"))?;
        Ok(Self { path: path.to_owned(), socket, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // One that cannot be removed is removed by the next broker.
        let _ = unlink(&self.path);
    }
}
