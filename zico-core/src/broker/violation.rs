//! What no correct client asks for.

use core::fmt;

/// A request that no correct client makes. It has changed nothing, and the client is to be
/// [cut off](super::Broker::cut_off).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// It names no job of the client, or none where it has to, or one where it may not.
    NoSuchJob,
    /// A lease before the last one has been settled.
    Unsettled,
    /// A lease has come further than it could.
    NothingToSettle,
    /// A page beyond the arena, or asked for twice, or leased already; or none.
    BadPage,
    /// A message for a job on the host, or on its way, for one that is not; or the other way round.
    BadWay,
    /// A fence whose number no client has.
    BadBatch,
    /// A mark that no iteration has.
    BadMark,
    /// A name that is longer than names may be.
    BadName,
    /// It comes from a client that is not there, or has been cut off.
    CutOff,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchJob => "a request for a job that the client does not have",
            Self::Unsettled => "a lease before the last one has been settled",
            Self::NothingToSettle => "a settlement of more than was ordered",
            Self::BadPage => "a lease of pages that cannot be leased",
            Self::BadWay => "a job that is not where the client takes it to be",
            Self::BadBatch => "a fence whose number no client has",
            Self::BadMark => "a mark that no iteration has",
            Self::BadName => "a name that is too long",
            Self::CutOff => "a request of a client that has been cut off",
        })
    }
}

impl core::error::Error for Violation {}
