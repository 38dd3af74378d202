//! Which processes have jobs, in a file beside the socket: so that a broker that starts after one
//! that has been killed knows for whom it has to wait.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zico_core::{Bytes, JobId};

/// The first word of the file, and the version of what follows.
const HEAD: &str = "zico 1";

pub(super) struct Journal {
    path: PathBuf,
    region: Bytes,
    budget: Bytes,
    /// The processes with jobs: one entry for each connection.
    processes: BTreeMap<u64, (u32, u64)>,
    /// Jobs that have been told to stay on the host.
    held: Vec<JobId>,
}

/// A process that has to tell what it has, or to end.
pub(super) struct Awaited {
    /// Under which it is in the journal: a broker that comes after this one has to wait for it too,
    /// if this one does not live to see it.
    pub(super) key: u64,
    began: u64,
    pub(super) pid: u32,
    pub(super) life: OwnedFd,
    /// Since when it has ended.
    pub(super) ended: Option<Instant>,
}

/// What the broker before this one has left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) region: Bytes,
    pub(super) budget: Bytes,
    /// Numbers of processes, and when each began.
    processes: Vec<(u32, u64)>,
    /// Jobs that were held on the host.
    pub(super) held: Vec<JobId>,
}

impl Journal {
    /// With those that the broker before this one has left.
    pub(super) fn new(socket: &Path, region: Bytes, budget: Bytes, awaited: &[Awaited]) -> Self {
        let processes = awaited.iter().map(|left| (left.key, (left.pid, left.began))).collect();
        Self { path: path(socket), region, budget, processes, held: Vec::new() }
    }

    /// A connection has come that may have jobs, in the place of an awaited process if it is one
    /// that comes back.
    pub(super) fn add(&mut self, key: u64, pid: u32, instead: Option<u64>) {
        if let Some(instead) = instead {
            self.processes.remove(&instead);
        }
        // Without a time it is another process of that number that is looked for, and not found.
        self.processes.insert(key, (pid, began(pid).unwrap_or(0)));
        self.write();
    }

    /// One has gone, and has nothing.
    pub(super) fn remove(&mut self, key: u64) {
        if self.processes.remove(&key).is_some() {
            self.write();
        }
    }

    pub(super) fn set_budget(&mut self, budget: Bytes) {
        if self.budget != budget {
            self.budget = budget;
            self.write();
        }
    }

    pub(super) fn set_held(&mut self, held: Vec<JobId>) {
        if self.held != held {
            self.held = held;
            self.write();
        }
    }

    /// In one step: a broker that is killed meanwhile leaves the old one or the new one.
    fn write(&self) {
        let mut text = format!("{HEAD} {} {}\n", self.region.value(), self.budget.value());
        for (pid, began) in self.processes.values() {
            let _ = writeln!(text, "{pid} {began}");
        }
        for job in &self.held {
            let _ = writeln!(text, "held {job}");
        }
        let new = self.path.with_extension("new");
        // Where it cannot be written a killed broker's jobs end with it; there is nobody to tell.
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.processes.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".jobs");
    PathBuf::from(name)
}

/// What the broker before this one has left, if it has left anything.
pub(super) fn left(socket: &Path) -> Option<Left> {
    parse(&fs::read_to_string(path(socket)).ok()?)
}

fn parse(text: &str) -> Option<Left> {
    let mut lines = text.lines();
    let mut head = lines.next()?.strip_prefix(HEAD)?.split_whitespace();
    let mut number = || head.next()?.parse().ok().map(Bytes::new);
    let (region, budget) = (number()?, number()?);
    let process = |line: &str| {
        let (pid, began) = line.split_once(' ')?;
        Some((pid.parse().ok()?, began.parse().ok()?))
    };
    let held = |line: &str| Some(JobId::from_number(line.strip_prefix("held ")?.parse().ok()?));
    let processes = lines.clone().filter_map(process).collect();
    Some(Left { region, budget, processes, held: lines.filter_map(held).collect() })
}

impl Left {
    /// Those of the processes that still run.
    pub(super) fn awaited(&self) -> Vec<Awaited> {
        // From the highest keys downwards: those of connections are counted from the lowest.
        let awaited = |(key, &(pid, start)): (u64, &(u32, u64))| {
            let life = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty());
            // Another one may have got the number, before the descriptor was opened.
            let life = life.ok().filter(|_| began(pid) == Some(start))?;
            Some(Awaited { key, began: start, pid, life, ended: None })
        };
        let keys = (0..u64::MAX).rev();
        keys.zip(&self.processes).filter_map(awaited).collect()
    }
}

/// When a process began, in the kernel's ticks since it was started.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;

    #[test]
    fn what_is_written_is_read_and_those_that_have_ended_are_not_awaited() {
        let folder = std::env::temp_dir().join(format!("zico-journal-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("socket");
        assert_eq!(left(&socket), None);
        let own = std::process::id();
        let mut journal = Journal::new(&socket, Bytes::kib(64), Bytes::mib(2), &[]);
        journal.add(1, own, None);
        journal.add(2, u32::MAX / 4, None);
        let found = left(&socket).unwrap();
        assert_eq!((found.region, found.budget), (Bytes::kib(64), Bytes::mib(2)));
        assert_eq!((found.processes.len(), found.held.len()), (2, 0));
        journal.set_held(vec![JobId::from_number(7), JobId::from_number(9)]);
        let held = left(&socket).unwrap();
        assert_eq!((held.processes.len(), held.held), (2, journal.held.clone()));
        journal.set_held(Vec::new());
        let awaited: Vec<u32> = found.awaited().iter().map(|awaited| awaited.pid).collect();
        assert_eq!(awaited, [own]);
        // A broker that takes its place and does not live long has waited for the same.
        let mut next = Journal::new(&socket, Bytes::kib(64), Bytes::mib(2), &found.awaited());
        next.add(1, own, None);
        assert_eq!(left(&socket).unwrap().processes.len(), 2);
        next.add(2, own, Some(u64::MAX - 1));
        assert_eq!(left(&socket).unwrap().processes.len(), 2, "in its place");
        next.processes.clear();
        let later = Left { processes: vec![(own, 1)], ..found };
        assert!(later.awaited().is_empty(), "another process of that number");
        journal.remove(1);
        journal.remove(2);
        drop(journal);
        assert_eq!(left(&socket), None, "nobody is left");
        assert_eq!(parse("something else"), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
