//! The socket to the broker, for several threads.
//!
//! Whoever asks has the socket until the answer has come. Whoever only tells never waits: what it says is
//! queued, and goes as soon as nobody has the socket, always in the order in which it was said.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

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
    /// Is told the number of each message before it goes.
    probe: Option<Probe>,
    sent: AtomicU64,
    /// The process that has connected: a child that was forked from it must not speak.
    process: u32,
}

/// How often, and after how long each time, what was told last is tried to be sent.
const LAST_TRIES: u32 = 100;
const LAST_WAIT: Duration = Duration::from_millis(1);

/// Is told the number of each message before it goes: 1, 2, 3 ...
pub(super) type Probe = Box<dyn Fn(u64) + Send + Sync>;

/// The socket, for one thread at a time.
struct Line {
    socket: OwnedFd,
    assembler: Assembler,
    is_broken: bool,
}

impl Wire {
    pub(super) fn connect(path: &Path, probe: Option<Probe>) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let assembler = Assembler::new(LONGEST_DOWN);
        Ok(Self {
            line: Mutex::new(Line { socket, assembler, is_broken: false }),
            queue: Mutex::default(),
            probe,
            sent: AtomicU64::new(0),
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
        self.count();
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
        self.count();
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

    /// One more message is about to go.
    fn count(&self) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(probe) = &self.probe {
            probe(number);
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_childs(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Drop for Wire {
    /// What was told last is to arrive: the broker has this process's memory free only then. A broker that
    /// does not read for so long finds out when the process ends.
    fn drop(&mut self) {
        for _ in 0..LAST_TRIES {
            self.flush();
            if self.is_childs() || !self.is_behind() {
                return;
            }
            std::thread::sleep(LAST_WAIT);
        }
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
