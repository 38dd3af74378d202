//! A broker that has been killed, and the one that takes its place: clients hand in what they hold.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zico_core::broker::{Broker, Client};
use zico_cuda::Physical;

use super::journal::{self, Awaited};
use super::session::End;
use super::{DeviceStore, Server, ServerError};
use crate::wire::{Down, Fault};

impl<D: Physical> Server<D> {
    /// The processes that have memory from the broker before this one. While there are any, nobody
    /// gets anything.
    pub(super) fn awaited(
        socket: &Path,
        broker: &mut Broker<DeviceStore<D>>,
    ) -> Result<Vec<Awaited>, ServerError> {
        let Some(left) = journal::left(socket) else { return Ok(Vec::new()) };
        let awaited = left.awaited();
        if awaited.is_empty() {
            return Ok(awaited);
        }
        if left.region != broker.region_size() || left.budget > broker.budget() {
            return Err(ServerError::Left { region: left.region, budget: left.budget });
        }
        broker.await_clients();
        broker.await_held(left.held);
        Ok(awaited)
    }

    /// A client hands in a region's memory.
    pub(super) fn take_in(
        &mut self,
        key: u64,
        client: Client,
        region: u32,
        descriptors: &[OwnedFd],
    ) -> Result<(), End> {
        let found = descriptors.len();
        let [descriptor] = descriptors else {
            return Err(End::Fault(Fault::Descriptors { found, expected: 1 }));
        };
        let is_in = self.broker.may_hand_in(client, region)
            && self.broker.store_mut().take_in(region, descriptor.as_fd());
        if is_in {
            self.broker.took_in(client, region);
        }
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        session.answer(&Down::Memory(is_in), None)
    }

    /// A connection may have jobs. If it is of a process that is waited for, it stands in the
    /// journal in its place from now on.
    pub(super) fn note_connection(&mut self, key: u64, pid: u32, resumes: bool) {
        let sessions = &self.sessions;
        let is_it = |one: &&mut Awaited| one.pid == pid && !sessions.contains_key(&one.key);
        let awaited = self.awaited.iter_mut().find(|one| resumes && is_it(one));
        let instead = awaited.map(|awaited| std::mem::replace(&mut awaited.key, key));
        self.journal.add(key, pid, instead);
    }

    /// A connection has gone that may have been one of a process which has yet to tell all: it is
    /// waited for still.
    pub(super) fn is_awaited_still(&mut self, key: u64, pid: u32) {
        let keys = self.awaited.iter().map(|awaited| awaited.key);
        let next = keys.filter(|key| *key > u64::MAX / 2).min().unwrap_or(u64::MAX);
        let awaited = self.awaited.iter_mut().find(|awaited| awaited.key == key);
        match awaited {
            Some(awaited) => {
                awaited.key = next - 1;
                self.journal.add(awaited.key, pid, Some(key));
            }
            None => self.journal.remove(key),
        }
    }

    /// A connection has told all that it has, of a process that has so many. When all of them have,
    /// the process is not waited for any more.
    pub(super) fn has_told(&mut self, pid: u32, connections: u32) {
        let sessions = &self.sessions;
        let told = sessions.values().filter(|other| other.peer.pid == pid && other.has_told);
        if told.count() >= connections as usize {
            let journal = &mut self.journal;
            self.awaited.retain(|awaited| {
                // Connections that are there stay in the journal.
                if awaited.pid == pid && !sessions.contains_key(&awaited.key) {
                    journal.remove(awaited.key);
                }
                awaited.pid != pid
            });
        }
        self.end_recovery();
    }

    /// Looks which of those that have yet to tell have ended, and have nothing on the device any
    /// more.
    pub(super) fn look_for_awaited(&mut self) {
        let (teardown, journal) = (&mut self.teardown, &mut self.journal);
        self.awaited.retain_mut(|awaited| {
            if awaited.ended.is_none() && has_ended(&awaited.life) {
                awaited.ended = Some(Instant::now());
            }
            let ended = awaited.ended.map(|since| since.elapsed());
            let is_over = ended.is_some_and(|ended| teardown.is_over(awaited.pid, ended));
            if is_over {
                journal.remove(awaited.key);
            }
            !is_over
        });
        self.end_recovery();
    }

    fn end_recovery(&mut self) {
        if self.awaited.is_empty() {
            self.broker.has_recovered();
        }
    }
}

fn has_ended(life: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(life, PollFlags::IN)], Some(&now)), Ok(1..))
}
