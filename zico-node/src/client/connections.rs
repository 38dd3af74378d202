//! A process's connections to its broker, one after the other: who waits for the next one.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How long a call waits for another broker in the place of one that has gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many connections there have been, and what the newest one's notices come on.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    count: u64,
    notices: Option<OwnedFd>,
    /// There will be none any more.
    is_over: bool,
    /// Who makes them, and so cannot wait for one.
    hearer: Option<ThreadId>,
}

impl Connections {
    pub(super) fn count(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// This thread is the one that makes them.
    pub(super) fn are_made_here(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hearer = Some(std::thread::current().id());
    }

    /// There is a new one, whose notices come on this socket.
    pub(super) fn has_new(&self, notices: OwnedFd) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count += 1;
        state.notices = Some(notices);
        self.changed.notify_all();
    }

    /// The socket of the newest one, once.
    pub(super) fn take_notices(&self) -> Option<OwnedFd> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).notices.take()
    }

    /// Nobody makes another one.
    pub(super) fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.changed.notify_all();
    }

    /// Waits until there have been more than so many. Whether there have. The thread that makes them
    /// does not wait.
    pub(super) fn wait_beyond(&self, seen: u64) -> bool {
        let until = Instant::now() + PATIENCE;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let makes_them = state.hearer == Some(std::thread::current().id());
        while state.count == seen && !state.is_over && !makes_them {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.count != seen
    }
}
