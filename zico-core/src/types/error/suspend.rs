//! Errors of a job's way to the host and back.

use core::fmt;

use super::BrokerError;
use crate::types::sync::Arc;
use crate::types::units::Bytes;

/// Why a job that goes to the host could not come back: what the others keep leaves no room for
/// all that it has.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTicket {
    /// The job.
    pub job: Arc<str>,
    /// What it has leased, or what is reserved for it if that is more.
    pub held: Bytes,
    /// What the other jobs keep between their iterations, or are to come back with themselves.
    pub kept_by_others: Bytes,
    /// The budget.
    pub budget: Bytes,
}

impl fmt::Display for NoTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, held, kept_by_others, budget } = self;
        write!(
            f,
            "{job} holds {held} and the other jobs keep {kept_by_others}: that does not fit in a \
             budget of {budget}, so it could not be sure to come back"
        )
    }
}

impl core::error::Error for NoTicket {}

/// What the books have against a suspension.
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSuspended {
    /// An iteration runs, or the job has asked to start one.
    InIteration,
    /// The job could not be sure to come back.
    NoTicket(NoTicket),
    /// The broker has yet to hear what other jobs hold.
    Recovering,
    /// The job has been made to leave, or there is none.
    Left,
    /// The job does not take turns: nobody else may take it to the host.
    NotPreemptible,
    /// A user who has started the broker says so, and nobody else.
    NotTheOwner,
}

impl fmt::Display for NotSuspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InIteration => f.write_str("the job is in an iteration"),
            Self::NoTicket(why) => why.fmt(f),
            Self::Recovering => f.write_str("the broker has yet to hear what other jobs hold"),
            Self::Left => f.write_str("there is no such job"),
            Self::NotPreemptible => f.write_str(
                "the job takes no turns with others (zico run --time-slice, JobConfig::preemptible)",
            ),
            Self::NotTheOwner => f.write_str("the broker is another user's"),
        }
    }
}

impl core::error::Error for NotSuspended {}

/// A job cannot be [suspended](crate::Job::suspend). Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspendError<E> {
    /// An iteration runs, or the job has asked to start one.
    InIteration,
    /// Another thread of the job leases memory just now, or a broker has yet to hear of other jobs.
    /// The call can be repeated.
    Busy,
    /// It is suspended already, or on its way back.
    Suspended,
    /// A block is to stay, and the job takes turns with others: it goes with all that it has.
    TakesTurns,
    /// It could not be sure to come back.
    NoTicket(NoTicket),
    /// The device has no [host tier](crate::HostTier).
    Unsupported,
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The device or the host refused. The call can be repeated.
    Device(E),
    /// The pool's broker cannot be asked.
    Broker(BrokerError),
}

impl<E> From<NotSuspended> for SuspendError<E> {
    fn from(why: NotSuspended) -> Self {
        match why {
            NotSuspended::InIteration => Self::InIteration,
            NotSuspended::NoTicket(why) => Self::NoTicket(why),
            NotSuspended::Recovering => Self::Busy,
            NotSuspended::Left => Self::Left,
            // Nobody asks that of a job that does it itself.
            NotSuspended::NotPreemptible | NotSuspended::NotTheOwner => Self::Unsupported,
        }
    }
}

impl<E: fmt::Display> fmt::Display for SuspendError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InIteration => f.write_str("the job is in an iteration"),
            Self::Busy => {
                f.write_str("another call of the job, or of the broker, is at it just now")
            }
            Self::Suspended => f.write_str("the job is suspended already"),
            Self::TakesTurns => f.write_str(
                "the job takes turns with others: it goes with all that it has, and no block stays",
            ),
            Self::NoTicket(why) => why.fmt(f),
            Self::Unsupported => f.write_str("there is no memory of the host to go to"),
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for SuspendError<E> {}

/// A job cannot come back from the host just now. What has come back is there, the rest is where it
/// was, and the call can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError<E> {
    /// The job has been made to leave ([`Pool::evict`](crate::Pool::evict)).
    Left,
    /// The device refused.
    Device(E),
    /// The pool's broker cannot be asked.
    Broker(BrokerError),
}

impl<E: fmt::Display> fmt::Display for ResumeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the job has been made to leave"),
            Self::Device(error) => write!(f, "the device refused: {error}"),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for ResumeError<E> {}
