//! The socket to the broker, for several threads.
//!
//! Whoever asks has the socket until the answer has come. Whoever only tells never waits: what it
//! says is queued, and goes with the next [`flush`](Wire::flush) or question, as soon as nobody has
//! the socket, always in the order in which it was said.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
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
    /// Is told of each message before it goes.
    probe: Option<Probe>,
    sent: AtomicU64,
    /// The process that has connected: a child that was forked from it must not speak.
    process: u32,
}

/// How often, and after how long each time, what was told last is tried to be sent.
const LAST_TRIES: u32 = 100;
const LAST_WAIT: Duration = Duration::from_millis(1);

/// Is told the number of each message before it goes, 1, 2, 3 ..., and the message.
pub(super) type Probe = Arc<dyn Fn(u64, &Up) + Send + Sync>;

/// The socket, for one thread at a time.
struct Line {
    socket: OwnedFd,
    assembler: Assembler,
    is_broken: bool,
}

impl Wire {
    pub(super) fn connect(path: &Path, probe: Option<Probe>) -> Result<Self, Errno> {
        Ok(Self {
            line: Mutex::new(Line::connect(path)?),
            queue: Mutex::default(),
            probe,
            sent: AtomicU64::new(0),
            process: std::process::id(),
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, up: &Up) -> Result<Down, BrokerError> {
        self.ask_with(up, &[], &mut |_| {}).map(|(down, _)| down)
    }

    /// The same with descriptors, which go and come with the last packets. The answer is heard
    /// before any other thread has one.
    pub(super) fn ask_with(
        &self,
        up: &Up,
        descriptors: &[BorrowedFd<'_>],
        heard: &mut dyn FnMut(&Down),
    ) -> Result<(Down, Vec<OwnedFd>), BrokerError> {
        if self.is_childs() {
            return Err(BrokerError::Unreachable);
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(packet) = self.queue().pop_front() {
            line.send(&packet, &[]);
        }
        self.count(up);
        let packets = packets(up);
        let last = packets.len() - 1;
        for (at, packet) in packets.iter().enumerate() {
            line.send(packet, if at == last { descriptors } else { &[] });
        }
        let answer = line.receive();
        if let Ok((down, _)) = &answer {
            heard(down);
        }
        drop(line);
        // What was told meanwhile.
        self.flush();
        answer
    }

    /// Tells: it goes with the next [`flush`](Self::flush), or before the next question.
    pub(super) fn tell(&self, up: &Up) {
        if self.is_childs() {
            return;
        }
        self.count(up);
        self.queue().extend(packets(up));
    }

    /// Sends what has been queued, as far as there is room and nobody else has the socket: then
    /// that one does.
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
    fn count(&self, up: &Up) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(probe) = &self.probe {
            probe(number, up);
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_childs(&self) -> bool {
        std::process::id() != self.process
    }
}

/// A new line to a broker, for one that is broken: nobody else has it until it is let go.
pub(super) struct NewLine<'a> {
    wire: &'a Wire,
    line: MutexGuard<'a, Line>,
}

impl Wire {
    /// Connects anew, if the line is broken: `None` if it is not. What was told and has not been
    /// sent is forgotten: the new broker is told how things stand.
    pub(super) fn reconnect(&self, path: &Path) -> Result<Option<NewLine<'_>>, Errno> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if !line.is_broken || self.is_childs() {
            return Ok(None);
        }
        *line = Line::connect(path)?;
        self.queue().clear();
        Ok(Some(NewLine { wire: self, line }))
    }

    /// Whether the line is broken, as far as is known.
    pub(super) fn break_off(&self) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).is_broken = true;
    }
}

impl NewLine<'_> {
    pub(super) fn ask(
        &mut self,
        up: &Up,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Down, BrokerError> {
        self.tell_with(up, descriptors);
        self.line.receive().map(|(down, _)| down)
    }

    pub(super) fn tell(&mut self, up: &Up) {
        self.tell_with(up, &[]);
    }

    fn tell_with(&mut self, up: &Up, descriptors: &[BorrowedFd<'_>]) {
        self.wire.count(up);
        let packets = packets(up);
        let last = packets.len() - 1;
        for (at, packet) in packets.iter().enumerate() {
            self.line.send(packet, if at == last { descriptors } else { &[] });
        }
    }

    /// It is of no use: the next try makes another one.
    pub(super) fn give_up(mut self) {
        self.line.is_broken = true;
    }

    /// Everybody may use it.
    pub(super) fn open(self) {
        let wire = self.wire;
        drop(self);
        wire.flush();
    }
}

impl Drop for Wire {
    /// What was told last is to arrive: the broker has this process's memory free only then. A
    /// broker that does not read for so long finds out when the process ends.
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
    fn connect(path: &Path) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self { socket, assembler: Assembler::new(LONGEST_DOWN), is_broken: false })
    }

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
        self.last_words().ok_or(BrokerError::Unreachable)
    }

    /// What a broker has said before it hung up: it may have answered before it was asked, and what
    /// has gone wrong with the socket since is reported once, before what has come.
    fn last_words(&mut self) -> Option<(Down, Vec<OwnedFd>)> {
        for _ in 0..2 {
            if let Ok(Some(packet)) = socket::receive(&self.socket, false) {
                let down = self.assembler.push(&packet.bytes).ok()??;
                return Some((down, packet.descriptors));
            }
        }
        None
    }
}
