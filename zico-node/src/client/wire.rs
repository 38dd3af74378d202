//! The socket to the broker, for several threads.
//!
//! Whoever asks has the socket until the answer has come. Whoever only tells never waits: what it says is
//! queued, and goes as soon as nobody has the socket, always in the order in which it was said.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use zico_core::BrokerError;

use crate::socket;
use crate::wire::{Assembler, Down, LONGEST_DOWN, Up, packets};

pub(super) struct Wire {
    line: Mutex<Line>,
    /// What has been told and not been sent.
    queue: Mutex<VecDeque<Vec<u8>>>,
    /// The process that has connected: a child that was forked from it must not speak.
    process: u32,
}

/// The socket, for one thread at a time.
struct Line {
    socket: OwnedFd,
    assembler: Assembler,
    is_broken: bool,
}

impl Wire {
    pub(super) fn connect(path: &Path) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let assembler = Assembler::new(LONGEST_DOWN);
        Ok(Self {
            line: Mutex::new(Line { socket, assembler, is_broken: false }),
            queue: Mutex::default(),
            process: std::process::id(),
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, up: &Up) -> Result<Down, BrokerError> {
        self.ask_with(up, &[]).map(|(down, _)| down)
    }

    /// The same with descriptors, which go and come with the last packets.
    pub(super) fn ask_with(
        &self,
        up: &Up,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Down, Vec<OwnedFd>), BrokerError> {
        if self.is_childs() {
            return Err(BrokerError::Unreachable);
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(packet) = self.queue().pop_front() {
            line.send(&packet, &[]);
        }
        let packets = packets(up);
        let last = packets.len() - 1;
        for (at, packet) in packets.iter().enumerate() {
            line.send(packet, if at == last { descriptors } else { &[] });
        }
        let answer = line.receive();
        drop(line);
        // What was told meanwhile.
        self.flush();
        answer
    }

    /// Tells, without waiting.
    pub(super) fn tell(&self, up: &Up) {
        if self.is_childs() {
            return;
        }
        self.queue().extend(packets(up));
        self.flush();
    }

    /// Sends what has been queued, as far as there is room and nobody else has the socket: then that one does.
    pub(super) fn flush(&self) {
        while !self.queue().is_empty() {
            let mut line = match self.line.try_lock() {
                Ok(line) => line,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            loop {
                // The queue's lock is not held while something is sent.
                let Some(packet) = self.queue().pop_front() else { break };
                if !line.try_send(&packet) {
                    self.queue().push_front(packet);
                    return;
                }
            }
        }
    }

    /// Whether something that was told has found no room yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.queue().is_empty()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_childs(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Line {
    /// Sends a packet, and waits for room. Nothing is sent to a broker that has gone.
    fn send(&mut self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) {
        if !self.is_broken {
            self.is_broken = socket::send(&self.socket, packet, descriptors, true).is_err();
        }
    }

    /// Sends a packet if there is room for it. Whether it is dealt with.
    fn try_send(&mut self, packet: &[u8]) -> bool {
        if self.is_broken {
            return true;
        }
        match socket::send(&self.socket, packet, &[], false) {
            Ok(()) => true,
            Err(Errno::AGAIN) => false,
            Err(_) => {
                self.is_broken = true;
                true
            }
        }
    }

    fn receive(&mut self) -> Result<(Down, Vec<OwnedFd>), BrokerError> {
        while !self.is_broken {
            let packet = match socket::receive(&self.socket, true) {
                Ok(Some(packet)) => packet,
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None);
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            match self.assembler.push(&packet.bytes) {
                Ok(Some(down)) => return Ok((down, packet.descriptors)),
                Ok(None) => {}
                Err(_) => {
                    self.is_broken = true;
                    return Err(BrokerError::Confused);
                }
            }
        }
        self.is_broken = true;
        Err(BrokerError::Unreachable)
    }
}
