//! What a job of a replay waits for, and what comes of its operations.

use zico_core::Ticks;

use super::ReplayError;
use super::relief::CarryError;

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: it goes on at this moment.
    Ready(Ticks),
    /// The device: as many launches are outstanding as may be.
    RunAhead,
    /// The pool: a start or memory.
    Pool,
    /// Nothing: it has left.
    Left,
}

/// A process that has found no broker asks again after so long.
const ASKS_AGAIN: Ticks = Ticks::micros(100);

/// The result of one operation.
pub(super) enum Done {
    /// Done.
    Yes,
    /// Done; the host is busy until then.
    Until(Ticks),
    /// It has to be tried again.
    Wait(State),
    /// Failed for good, with the reason.
    Never(String),
}

impl Done {
    /// What would need a broker that is not there yet.
    pub(super) const fn no_broker(now: Ticks) -> Self {
        Self::Wait(State::Ready(now.saturating_add(ASKS_AGAIN)))
    }

    /// What a deed of a plan comes to, `done` if it can be done: one that cannot ends the job.
    pub(super) fn of(result: Result<(), CarryError>, done: Self) -> Result<Self, ReplayError> {
        match result {
            Ok(()) => Ok(done),
            Err(CarryError::Device(error)) => Err(error.into()),
            Err(error) => Ok(Self::Never(error.to_string())),
        }
    }
}
