//! One broker for a device, whatever sockets they listen at.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::Pid;

use super::ServerError;

/// A name of this machine that one process at a time has: the right to serve a device.
///
/// It is an address in the kernel's own space of socket names, so it is the same for all users,
/// nothing of it is left over whatever way the process ends, and no folder has to be writable for
/// it. Processes in different network namespaces (containers, unless they share the host's) have
/// different ones and do not see each other.
#[derive(Debug)]
pub struct DeviceLock {
    _socket: OwnedFd,
}

impl DeviceLock {
    /// Takes the lock of a device, by the name that tells it from all others: the UUID of a GPU.
    ///
    /// # Errors
    /// If another process has it, and which; or if the kernel refuses.
    pub fn take(device: &str) -> Result<Self, ServerError> {
        let refused = |call| {
            let path = format!("the lock of {device}").into();
            move |error| ServerError::Socket { path, call, error }
        };
        let name = format!("zico/broker/{device}");
        let address =
            SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(refused("name"))?;
        let socket = stream().map_err(refused("socket"))?;
        match bind(&socket, &address) {
            // Whoever is refused can see who has it: a listening socket has its process's
            // credentials.
            Ok(()) => listen(&socket, 1).map_err(refused("listen"))?,
            Err(Errno::ADDRINUSE) => {
                return Err(ServerError::Served { device: device.to_owned(), by: owner(&address) });
            }
            Err(error) => return Err(refused("bind")(error)),
        }
        Ok(Self { _socket: socket })
    }
}

fn stream() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The process that has the lock, if it is still there.
fn owner(address: &SocketAddrUnix) -> Option<u32> {
    let socket = stream().ok()?;
    connect(&socket, address).ok()?;
    u32::try_from(Pid::as_raw(Some(socket_peercred(&socket).ok()?.pid))).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_is_named() {
        let device = format!("GPU-test-{}", std::process::id());
        let lock = DeviceLock::take(&device).unwrap();
        for _ in 0..20 {
            let refused = DeviceLock::take(&device).unwrap_err();
            assert!(
                matches!(&refused, ServerError::Served { device: other, .. } if *other == device),
                "{refused}"
            );
        }
        let other = DeviceLock::take(&format!("{device}-other")).unwrap();
        drop(lock);
        drop(DeviceLock::take(&device).unwrap());
        drop(other);
    }

    #[test]
    fn the_first_who_is_refused_hears_by_whom() {
        let device = format!("GPU-named-{}", std::process::id());
        let _lock = DeviceLock::take(&device).unwrap();
        let text = DeviceLock::take(&device).unwrap_err().to_string();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    }
}
