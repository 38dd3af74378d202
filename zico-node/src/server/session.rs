//! One connection: what has come of it, what is to go to it, and what it may say.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use zico_core::JobId;
use zico_core::broker::Client;

use crate::page::{Page, SLOTS};
use crate::peer::Peer;
use crate::socket::{self, Packet};
use crate::wire::{Assembler, Down, Fault, LONGEST_UP, packets};

/// The most bytes that wait for a client to read them.
const MOST_UNREAD: usize = 4 << 20;

/// What a connection is for.
pub(super) enum Role {
    /// It has yet to say.
    New,
    /// It only looks.
    Looks,
    /// It has jobs.
    Works(Works),
    /// It is not listened to any more. What its jobs held is charged until its process has gone.
    CutOff(Client),
}

/// A client with jobs.
pub(super) struct Works {
    pub(super) client: Client,
    page: Page,
    slots: BTreeMap<JobId, u8>,
    /// On which it is told what it has not asked for.
    notices: OwnedFd,
}

pub(super) struct Session {
    /// None once it has hung up or been cut off.
    pub(super) socket: Option<OwnedFd>,
    pub(super) peer: Peer,
    pub(super) role: Role,
    assembler: Assembler,
    unread: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    unread_bytes: usize,
    /// What it is told unasked and has not read yet.
    unheard: VecDeque<Vec<u8>>,
}

impl Works {
    /// A client that has come with these two descriptors.
    pub(super) fn new(client: Client, page: &OwnedFd, notices: OwnedFd) -> Result<Self, Fault> {
        let page = Page::import(page)?;
        if !matches!(socket_type(&notices), Ok(SocketType::SEQPACKET)) {
            return Err(Fault::Socket);
        }
        Ok(Self { client, page, slots: BTreeMap::new(), notices })
    }

    /// A job's pulse is in this place from now on.
    pub(super) fn seat(&mut self, job: JobId, slot: u8, jobs: &[JobId]) -> Result<(), Fault> {
        self.slots.retain(|job, _| jobs.contains(job));
        let taken = self.slots.values().any(|&other| other == slot);
        if taken || usize::from(slot) >= SLOTS || !jobs.contains(&job) {
            return Err(Fault::Slot);
        }
        self.slots.insert(job, slot);
        Ok(())
    }

    /// The pulses of its jobs.
    pub(super) fn pulses(&self) -> impl Iterator<Item = (JobId, &zico_core::broker::Pulse)> {
        let pulse = |(&job, &slot): (&JobId, &u8)| Some((job, self.page.pulse(slot.into())?));
        self.slots.iter().filter_map(pulse)
    }
}

impl Session {
    pub(super) fn new(socket: OwnedFd, peer: Peer) -> Self {
        Self {
            socket: Some(socket),
            peer,
            role: Role::New,
            assembler: Assembler::new(LONGEST_UP),
            unread: VecDeque::new(),
            unread_bytes: 0,
            unheard: VecDeque::new(),
        }
    }

    /// Its client, if it has or had jobs.
    pub(super) const fn client(&self) -> Option<Client> {
        match &self.role {
            Role::New | Role::Looks => None,
            Role::Works(works) => Some(works.client),
            Role::CutOff(client) => Some(*client),
        }
    }

    pub(super) const fn works(&self) -> Option<&Works> {
        match &self.role {
            Role::Works(works) => Some(works),
            _ => None,
        }
    }

    /// The socket on which it hears notices, if some wait for room there.
    pub(super) fn hears(&self) -> Option<BorrowedFd<'_>> {
        let works = self.works().filter(|_| !self.unheard.is_empty())?;
        Some(works.notices.as_fd())
    }

    pub(super) fn is_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The next message that has come, and the descriptors of its last packet. `None` where there is no
    /// more for now.
    pub(super) fn next<T: for<'a> serde::Deserialize<'a>>(
        &mut self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, End> {
        let Some(socket) = &self.socket else { return Ok(None) };
        loop {
            match socket::receive(socket, false) {
                Ok(Some(Packet { bytes, descriptors })) => {
                    if let Some(message) = self.assembler.push(&bytes).map_err(End::Fault)? {
                        return Ok(Some((message, descriptors)));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::MSGSIZE) => return Err(End::Fault(Fault::Bytes)),
                Ok(None) | Err(_) => return Err(End::HungUp),
            }
        }
    }

    /// Answers. What finds no room waits until the client reads.
    pub(super) fn answer(&mut self, down: &Down, descriptor: Option<OwnedFd>) -> Result<(), End> {
        let mut packets = packets(down);
        let last = packets.pop();
        let all = packets.into_iter().map(|packet| (packet, None));
        for (packet, descriptor) in all.chain(last.map(|packet| (packet, descriptor))) {
            self.unread_bytes += packet.len();
            self.unread.push_back((packet, descriptor));
        }
        self.flush()?;
        if self.unread_bytes > MOST_UNREAD {
            return Err(End::Fault(Fault::Deaf));
        }
        Ok(())
    }

    /// Sends what has room.
    pub(super) fn flush(&mut self) -> Result<(), End> {
        let Some(socket) = &self.socket else { return Ok(()) };
        while let Some((packet, descriptor)) = self.unread.front() {
            let descriptor: Vec<BorrowedFd<'_>> = descriptor.iter().map(AsFd::as_fd).collect();
            match socket::send(socket, packet, &descriptor, false) {
                Ok(()) => {
                    self.unread_bytes -= packet.len();
                    self.unread.pop_front();
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(End::HungUp),
            }
        }
        Ok(())
    }

    /// Tells what has not been asked for. A client whose other socket is full hears it later; one that
    /// has closed it does not want to.
    pub(super) fn tell(&mut self, downs: impl Iterator<Item = Down>) {
        self.unheard.extend(downs.flat_map(|down| packets(&down)));
        let Role::Works(works) = &self.role else { return };
        while let Some(packet) = self.unheard.front() {
            match socket::send(&works.notices, packet, &[], false) {
                Err(Errno::AGAIN) => return,
                Ok(()) | Err(_) => drop(self.unheard.pop_front()),
            }
        }
    }

    /// Whether it may be told more: what it has not heard is not to grow.
    pub(super) fn listens(&self) -> bool {
        self.unheard.is_empty()
    }
}

/// A connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By the other side.
    HungUp,
    /// By this side, for what the other has sent.
    Fault(Fault),
    /// For a request that no correct client makes.
    Violation(zico_core::broker::Violation),
}
