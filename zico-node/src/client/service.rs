//! The thread that hears the broker.
//!
//! It passes on what the broker says, and while somebody waits for memory, in whatever process, it
//! looks at this one's fences: what the device has completed here is told as soon as it has.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zico_core::broker::Notice;
use zico_core::{Device, WeakPool};

use super::AGAIN;
use super::connections::Connections;
use super::wire::Wire;
use crate::socket;
use crate::wire::{Assembler, Down, LONGEST_PACKET};

/// How often fences are looked at while somebody waits.
const LOOK: Duration = Duration::from_millis(1);
/// How often what could not be sent is tried again, once that is known ...
const BEHIND: Duration = Duration::from_millis(5);
/// ... and how often it is looked for.
const IDLE: Duration = Duration::from_millis(200);

/// Starts it. It ends with the pool and all its jobs.
pub(super) fn start<D: Device + 'static>(
    pool: WeakPool<D>,
    wire: Arc<Wire>,
    connections: Arc<Connections>,
    notices: OwnedFd,
) -> Result<(), Errno> {
    let body = move || {
        let mut notices = Some(notices);
        connections.are_made_here();
        // The pool is kept only while it is needed: this thread must not be the last to have it for
        // long.
        while let Some(socket) = notices.take() {
            if serve(&pool, &wire, &socket) {
                break;
            }
            notices = connect_anew(&pool, &wire, &connections);
        }
        connections.end();
    };
    let thread = std::thread::Builder::new().name("zico-notices".to_owned()).spawn(body);
    thread
        .map(drop)
        .map_err(|error| error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error))
}

/// Connects to another broker as soon as there is one. None if the pool has gone meanwhile.
fn connect_anew<D: Device>(
    pool: &WeakPool<D>,
    wire: &Wire,
    connections: &Connections,
) -> Option<OwnedFd> {
    wire.break_off();
    loop {
        if pool.upgrade()?.reconnect() {
            return connections.take_notices();
        }
        std::thread::sleep(AGAIN);
    }
}

/// Hears a broker until it has gone. Whether the pool has.
fn serve<D: Device>(pool: &WeakPool<D>, wire: &Wire, notices: &OwnedFd) -> bool {
    let mut assembler = Assembler::new(LONGEST_PACKET);
    let mut pressure = false;
    loop {
        let often = match (pressure, wire.is_behind()) {
            (true, _) => LOOK,
            (false, true) => BEHIND,
            (false, false) => IDLE,
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(often.subsec_nanos()) };
        let polled = poll(&mut [PollFd::new(notices, PollFlags::IN)], Some(&timeout));
        let Some(pool) = pool.upgrade() else { return true };
        if !matches!(polled, Ok(_) | Err(Errno::INTR)) {
            return false;
        }
        loop {
            match socket::receive(notices, false) {
                Ok(Some(packet)) => {
                    if let Ok(Some(Down::Notice(notice))) = assembler.push(&packet.bytes) {
                        if let Notice::Pressure(now) = notice {
                            pressure = now;
                        }
                        pool.notice(notice);
                    }
                }
                Err(Errno::AGAIN) => break,
                Ok(None) | Err(_) => return false,
            }
        }
        wire.flush();
        if pressure {
            // What the device refuses is tried again.
            let _ = pool.poll();
        }
    }
}
