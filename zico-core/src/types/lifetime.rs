//! How long an allocation lives, as far as where it is placed is concerned.

use core::fmt;

/// How long an allocation lives.
///
/// A region holds one lifetime only (Zico, section 4: tensor classification), so that a long-lived
/// block never strands memory that short-lived ones have given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Lifetime {
    /// Outlives the iteration: parameters, optimizer state, buffers.
    Persistent,
    /// Lives within one iteration: activations, feature maps, gradients, workspaces. One that a plan
    /// foresees to outlive its iteration is placed with what persists if it cannot be as planned.
    Iteration,
}

impl Lifetime {
    /// All of them, in the order in which statistics list them.
    pub const ALL: [Self; 2] = [Self::Persistent, Self::Iteration];

    /// The position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Persistent => 0,
            Self::Iteration => 1,
        }
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Persistent => "persistent",
            Self::Iteration => "iteration",
        })
    }
}
