//! Connections that end, and processes that are no more.

use zico_cuda::Physical;

use super::Server;
use super::session::{End, Role};

impl<D: Physical> Server<D> {
    /// A connection ends. What its jobs held stays charged until its process has gone.
    pub(super) fn end(&mut self, key: u64, _: End) {
        let now = self.now();
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.socket = None;
        let pid = session.peer.pid;
        match session.client() {
            Some(client) => {
                session.role = Role::CutOff(client);
                self.broker.cut_off(client, now);
                if !self.broker.holds(client) {
                    self.broker.gone(client, now);
                    self.sessions.remove(&key);
                    self.is_awaited_still(key, pid);
                }
            }
            None => drop(self.sessions.remove(&key)),
        }
    }

    /// What processes held that have ended, and whose work on the device is over, is free.
    pub(super) fn bury(&mut self) {
        let now = self.now();
        let teardown = &mut self.teardown;
        let over: Vec<u64> = self
            .ended
            .iter()
            .filter(|&(key, since)| {
                let pid = self.sessions.get(key).map_or(0, |session| session.peer.pid);
                teardown.is_over(pid, since.elapsed())
            })
            .map(|(&key, _)| key)
            .collect();
        for key in over {
            self.ended.remove(&key);
            self.journal.remove(key);
            if let Some(client) = self.sessions.remove(&key).and_then(|session| session.client()) {
                self.broker.gone(client, now);
            }
        }
    }
}
