//! Who waits for what, and for whom.

use alloc::vec::Vec;
use core::fmt;

use crate::types::JobId;
use crate::types::report::Holder;
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Ticks};

/// What a job waits for.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// That its iteration may start.
    Start,
    /// That so much of its memory may come back from the host.
    Return(Bytes),
    /// Memory: so much has to be leased for what it asked for last.
    Memory(Bytes),
    /// That its [pace](crate::Pool::set_pace) lets it go on: from this moment of the device's clock
    /// on, or, where there is none, when it is given another one. Nobody is in its way.
    Pace(Option<Ticks>),
}

/// A job that waits.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Which job.
    pub id: JobId,
    /// Its name.
    pub job: Arc<str>,
    /// What it waits for.
    pub awaited: Awaited,
    /// The other jobs that run an iteration, hold what they may still free, or have given up what
    /// the device has yet to pass, the one that has most first; for one that is to come back, those
    /// that hold anything. None where it is only its turn that it waits for.
    pub blockers: Vec<Holder>,
}

impl fmt::Display for Waiting {
    /// A sentence: "b waits for 8 MiB: a (Idle) holds 2 MiB".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.awaited {
            Awaited::Start => write!(f, "{} waits to start an iteration", self.job)?,
            Awaited::Return(bytes) => {
                write!(f, "{} waits to come back with {bytes}", self.job)?;
            }
            Awaited::Memory(bytes) => write!(f, "{} waits for {bytes}", self.job)?,
            Awaited::Pace(None) => write!(f, "{} is held up by a pace of none", self.job)?,
            Awaited::Pace(Some(until)) => {
                write!(f, "{} is held up by its pace until {until}", self.job)?;
            }
        }
        for (i, Holder { job, activity, held, .. }) in self.blockers.iter().enumerate() {
            let before = if i == 0 { ": " } else { "; " };
            write!(f, "{before}{job} ({activity:?}) holds {}", held.total())?;
        }
        Ok(())
    }
}
