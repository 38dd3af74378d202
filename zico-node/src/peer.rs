//! Who is at the other end of a connection, and when that process has ended.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process at the other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    /// Readable when the process has ended, all its threads and its addresses with it. A number may be
    /// another process's by then, this is not.
    pub(crate) life: OwnedFd,
}

impl Peer {
    /// Of a connection, as the kernel has noted when it was made.
    pub(crate) fn of(socket: impl AsFd) -> Result<Self, Errno> {
        let of = socket_peercred(socket)?;
        let life = pidfd_open(of.pid, PidfdFlags::empty())?;
        let pid = u32::try_from(Pid::as_raw(Some(of.pid))).unwrap_or(0);
        Ok(Self { pid, user: of.uid.as_raw(), life })
    }

    /// Whether it may change what the broker is to do: its user runs the broker, or the machine.
    pub(crate) fn may_govern(&self) -> bool {
        self.user == 0 || self.user == rustix::process::geteuid().as_raw()
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.life, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut polled, Some(&now)), Ok(1..))
    }
}
