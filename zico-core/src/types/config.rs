//! How a job joins: its name, its priority, what is always there for it, what it may hold at most.

use alloc::string::String;

use crate::types::error::JoinError;
use crate::types::units::{Bytes, Ticks};

/// How memory that one job has given up becomes another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HandOver {
    /// When the device has passed the fence recorded after its last use; the new owner waits for
    /// that on the host. The region stays mapped where it was, so a page that gets it back needs
    /// no device call.
    #[default]
    Fenced,
    /// As `Fenced`, and the region leaves the addresses of all other jobs first. Jobs that do not
    /// trust each other can then not reach each other's memory by a stale address; each hand-over
    /// costs device calls. What is in the memory stays in it: clearing it is the new owner's to ask
    /// of the device.
    Isolated,
}

/// A job that is to join, and on which terms. A name alone will do: `pool.join("resnet50",
/// stream)`.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobConfig {
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) floor: Bytes,
    pub(crate) cap: Option<Bytes>,
    pub(crate) declared: Option<Bytes>,
    pub(crate) unplanned: bool,
    pub(crate) slice: Option<Ticks>,
    pub(crate) interruptible: bool,
    /// Nobody else's affair.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) cooperative: bool,
}

impl JobConfig {
    /// A job of this name: priority 0, no floor, no cap, nothing declared. One with no name is
    /// called "job" and the number by which it joins.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Another name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Of the jobs that wait to start an iteration those with a higher priority go first, but no
    /// job is passed over for ever ([`Job::begin`](crate::Job::begin)).
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// So much is reserved for the job from the moment it joins until it leaves: no other job can
    /// have it, whether this one uses it or not. Rounded up to whole regions.
    #[must_use]
    pub fn floor(mut self, floor: Bytes) -> Self {
        self.floor = floor;
        self
    }

    /// The job never holds more than this, what it has given up and the device has yet to pass
    /// included. Rounded down to whole regions.
    #[must_use]
    pub fn cap(mut self, cap: Bytes) -> Self {
        self.cap = Some(cap);
        self
    }

    /// What an iteration takes at most, beside what the job keeps between iterations. Its first
    /// iteration then need not run alone; afterwards what has been measured counts. A job that
    /// takes more than it has declared may have to wait for memory, or be refused it.
    #[must_use]
    pub fn declare(mut self, maximum: Bytes) -> Self {
        self.declared = Some(maximum);
        self
    }

    /// The pool may take the job to the host between its iterations, where others wait for its
    /// room, and brings it back for its next one: the jobs of a pool can keep more than the budget
    /// in all, and take turns. A turn lasts for at least one iteration and a `slice` of the
    /// device's clock, so that the copies are a small part of it: some ten times of what they take.
    /// Jobs of a higher priority need not wait for its end.
    ///
    /// [`Job::begin`](crate::Job::begin) waits for the job's memory as for its start; so does
    /// [`Job::alloc`](crate::Job::alloc). Between an iteration's end and its next start nothing may
    /// be enqueued that uses its blocks. So this is not for a job whose iterations are
    /// [detected](crate::AutoJob), or which has none.
    ///
    /// After Gandiva's suspension at the boundaries of mini-batches (Xiao et al., OSDI 2018,
    /// section 3.1).
    #[must_use]
    pub fn preemptible(mut self, slice: Ticks) -> Self {
        self.slice = Some(slice);
        self
    }

    /// As [`preemptible`](Self::preemptible), but the job goes to the host within its own calls
    /// only, where they have to wait: [`Job::begin`](crate::Job::begin) and
    /// [`Job::alloc`](crate::Job::alloc). So its blocks may be used between its iterations. Until
    /// it makes such a call others wait for it, under a broker no longer than they have patience.
    #[must_use]
    pub fn cooperative(mut self, slice: Ticks) -> Self {
        (self.slice, self.cooperative) = (Some(slice), true);
        self
    }

    /// An iteration of the job may be interrupted where it waits for memory and nothing else can go
    /// on: its memory goes to the host, another job goes on in its room, and it comes back when no
    /// other iteration runs. Without that one of two iterations that have outgrown what was expected
    /// of them is told that there is no memory, though each would fit alone.
    ///
    /// It goes within a call of [`Job::alloc`](crate::Job::alloc) that comes after one that has said
    /// [`Busy`](crate::AllocError::Busy), and is back where a call has a block. From the first to the
    /// last of them nothing may be enqueued that uses its blocks: by no thread, on no stream. What
    /// is enqueued afterwards on other streams than the job's own has to come after that one's work.
    /// If the call is given up, the next [`begin`](crate::Job::begin) or `alloc`, or
    /// [`Job::resume`](crate::Job::resume), brings the job back.
    #[must_use]
    pub fn interruptible(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// Whether it has been said to be [interruptible](Self::interruptible).
    #[must_use]
    pub const fn is_interruptible(&self) -> bool {
        self.interruptible
    }

    /// No iteration is planned.
    ///
    /// Otherwise, when an iteration has made the same allocations as an earlier one, [`Job::end`]
    /// takes the time to plan them: milliseconds for thousands of blocks, once for each kind of
    /// iteration. From then on they have fixed addresses, packed more tightly than without.
    ///
    /// [`Job::end`]: crate::Job::end
    #[must_use]
    pub fn without_plans(mut self) -> Self {
        self.unplanned = true;
        self
    }
}

impl From<&str> for JobConfig {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for JobConfig {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// A job's terms, in regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) priority: i32,
    pub(crate) floor: u32,
    pub(crate) cap: Option<u32>,
    pub(crate) declared: Option<u32>,
    /// The same to the byte, for people to read.
    pub(crate) declared_bytes: Bytes,
    /// How long a turn of a preemptible job lasts at least.
    pub(crate) slice: Option<Ticks>,
    /// Its iterations may be interrupted.
    pub(crate) interruptible: bool,
}

impl Terms {
    /// What is given in bytes, in regions of this size.
    pub(crate) fn new<E>(config: &JobConfig, region: Bytes) -> Result<Self, JoinError<E>> {
        let regions = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let up = |bytes: Bytes| regions(bytes.value().div_ceil(region.value().max(1)));
        let down = |bytes: Bytes| regions(bytes.value() / region.value().max(1));
        let (floor, cap) = (up(config.floor), config.cap.map(down));
        if cap.is_some_and(|cap| floor > cap) {
            let cap = config.cap.unwrap_or_default();
            return Err(JoinError::FloorBeyondCap { floor: config.floor, cap });
        }
        Ok(Self {
            priority: config.priority,
            floor,
            cap,
            declared: config.declared.map(up),
            declared_bytes: config.declared.unwrap_or_default(),
            slice: config.slice,
            interruptible: config.interruptible,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_rounded_up_and_caps_down() {
        let config =
            JobConfig::new("a").floor(Bytes::mib(3)).cap(Bytes::mib(7)).declare(Bytes::mib(1));
        let terms = Terms::new::<()>(&config, Bytes::mib(2));
        let (declared, declared_bytes) = (Some(1), Bytes::mib(1));
        let expected =
            Terms { floor: 2, cap: Some(3), declared, declared_bytes, ..Terms::default() };
        assert_eq!(terms, Ok(expected));
        // 3 MiB of floor are two regions of 2 MiB, and 3 MiB of cap only one.
        let config = JobConfig::new("a").floor(Bytes::mib(3)).cap(Bytes::mib(3));
        let refused = JoinError::FloorBeyondCap { floor: Bytes::mib(3), cap: Bytes::mib(3) };
        assert_eq!(Terms::new::<()>(&config, Bytes::mib(2)), Err(refused));
    }
}
