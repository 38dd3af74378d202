//! The address ranges of a job: an arena for each lifetime.

use crate::types::lifetime::Lifetime;

/// Which of a job's address ranges something lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Zone {
    /// The arena of what outlives the iteration.
    Persistent,
    /// The arena of what lives within one iteration, and of all that a plan places.
    Iteration,
}

impl Zone {
    pub(crate) const COUNT: usize = 2;
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Persistent, Self::Iteration];

    /// The position in [`ALL`](Self::ALL), where the arenas are in the order of their lifetimes.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The lifetime that people are told of what lies there.
    pub(crate) const fn lifetime(self) -> Lifetime {
        match self {
            Self::Persistent => Lifetime::Persistent,
            Self::Iteration => Lifetime::Iteration,
        }
    }
}

impl From<Lifetime> for Zone {
    fn from(lifetime: Lifetime) -> Self {
        match lifetime {
            Lifetime::Persistent => Self::Persistent,
            Lifetime::Iteration => Self::Iteration,
        }
    }
}
