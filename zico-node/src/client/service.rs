//! The thread that hears the broker.
//!
//! It passes on what the broker says, and while somebody waits for memory, in whatever process, it looks
//! at this one's fences: what the device has completed here is told as soon as it has.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zico_core::broker::Notice;
use zico_core::{Device, WeakPool};

use super::wire::Wire;
use crate::socket;
use crate::wire::{Assembler, Down, LONGEST_PACKET};

/// How often fences are looked at while somebody waits.
const LOOK: Duration = Duration::from_millis(1);
/// How often what could not be sent is tried again, once that is known ...
const BEHIND: Duration = Duration::from_millis(5);
/// ... and how often it is looked for.
const IDLE: Duration = Duration::from_millis(200);

/// Starts it. It ends when the broker, or the pool and all its jobs, are gone.
pub(super) fn start<D: Device + 'static>(
    pool: WeakPool<D>,
    wire: Arc<Wire>,
    notices: OwnedFd,
) -> Result<(), Errno> {
    let body = move || serve(&pool, &wire, &notices);
    let thread = std::thread::Builder::new().name("zico-notices".to_owned()).spawn(body);
    thread
        .map(drop)
        .map_err(|error| error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error))
}

fn serve<D: Device>(pool: &WeakPool<D>, wire: &Wire, notices: &OwnedFd) {
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
        if !matches!(polled, Ok(_) | Err(Errno::INTR)) {
            return;
        }
        // The pool is kept only while it is needed: this thread must not be the last to have it for long.
        loop {
            match socket::receive(notices, false) {
                Ok(Some(packet)) => {
                    let Some(pool) = pool.upgrade() else { return };
                    if let Ok(Some(Down::Notice(notice))) = assembler.push(&packet.bytes) {
                        if let Notice::Pressure(now) = notice {
                            pressure = now;
                        }
                        pool.notice(notice);
                    }
                }
                Err(Errno::AGAIN) => break,
                // The broker has gone: those who wait are to find out.
                Ok(None) | Err(_) => {
                    if let Some(pool) = pool.upgrade() {
                        pool.notice(Notice::Changed);
                    }
                    return;
                }
            }
        }
        wire.flush();
        if pressure {
            let Some(pool) = pool.upgrade() else { return };
            // What the device refuses is tried again.
            let _ = pool.poll();
        }
    }
}
