//! The violations that the oracle reports.

use std::fmt;

use zico_core::{Addr, Bytes, Ticks};

/// The owner of memory or of an access: a job, as a number.
pub type Owner = u32;

/// An event on the device that must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When the device saw it.
    pub at: Ticks,
    /// What it saw.
    pub kind: ViolationKind,
}

/// The kinds of violation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViolationKind {
    /// Two claims held the same physical bytes at one time.
    Overlap {
        /// Whose claim began while the other held the bytes. It was not granted.
        owner: Owner,
        /// Where that claim begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
        /// Who held the bytes.
        holder: Owner,
        /// Where the holder's claim begins.
        held: Addr,
        /// Its length.
        held_len: Bytes,
    },
    /// A claim began whose bytes were not all mapped. It was not granted.
    ClaimUnmapped {
        /// Whose claim.
        owner: Owner,
        /// Where it begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
        /// The first address at which nothing was mapped.
        hole: Addr,
    },
    /// Bytes were unmapped that a claim held or that enqueued work was still to claim or touch.
    UnmapInUse {
        /// Whose.
        owner: Owner,
        /// Where the claim or access begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
        /// Where the bytes that were unmapped begin.
        unmapped: Addr,
        /// How many they are.
        unmapped_len: Bytes,
    },
    /// A claim was given up on one stream before it began on another.
    DisownedTooSoon {
        /// Whose claim.
        owner: Owner,
        /// Where it begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
    },
    /// A launch touched an address at which nothing was mapped.
    AccessUnmapped {
        /// Whose launch.
        owner: Owner,
        /// Where the access begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
        /// The first address at which nothing was mapped.
        hole: Addr,
    },
    /// A launch touched bytes that its owner did not hold: never, no longer or not yet.
    AccessNotOwned {
        /// Whose launch.
        owner: Owner,
        /// Where the access begins.
        addr: Addr,
        /// Its length.
        len: Bytes,
        /// Who held the first such byte, if anyone did.
        holder: Option<Owner>,
    },
    /// Bytes were not those that had been written last by the program: lost, or another's.
    Changed {
        /// Whose they are.
        owner: Owner,
        /// Where they begin.
        addr: Addr,
        /// How many they are.
        len: Bytes,
        /// How far from there the first byte is that is another one.
        offset: Bytes,
        /// By which write it is, if by any.
        found: Option<u64>,
    },
    /// The host's memory was freed while enqueued copies were still to use it.
    FreedInUse {
        /// How many copies.
        copies: u64,
    },
    /// More physical memory existed than the budget allows.
    OverBudget {
        /// The memory that existed.
        physical: Bytes,
        /// The budget.
        budget: Bytes,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns: {}", self.at.value(), self.kind)
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { owner, addr, len, holder, held, held_len } => write!(
                f,
                "{owner} was given {len} at {addr}, of which {holder} still held a part by its \
                 {held_len} at {held}"
            ),
            Self::ClaimUnmapped { owner, addr, len, hole } => {
                write!(f, "{owner} was given {len} at {addr} with nothing mapped at {hole}")
            }
            Self::UnmapInUse { owner, addr, len, unmapped, unmapped_len } => write!(
                f,
                "{unmapped_len} at {unmapped} were unmapped while {owner} used or was to use \
                 {len} at {addr}"
            ),
            Self::DisownedTooSoon { owner, addr, len } => {
                write!(f, "{owner} gave up {len} at {addr} before its stream had come to own them")
            }
            Self::AccessUnmapped { owner, addr, len, hole } => {
                write!(f, "{owner} touched {len} at {addr} with nothing mapped at {hole}")
            }
            Self::AccessNotOwned { owner, addr, len, holder: Some(holder) } => {
                write!(f, "{owner} touched {len} at {addr}, which {holder} owned")
            }
            Self::AccessNotOwned { owner, addr, len, holder: None } => {
                write!(f, "{owner} touched {len} at {addr}, which nobody owned")
            }
            Self::Changed { owner, addr, len, offset, found: Some(found) } => write!(
                f,
                "of {len} at {addr}, {owner}'s, the byte {offset} on is that of write {found}"
            ),
            Self::Changed { owner, addr, len, offset, found: None } => {
                write!(f, "of {len} at {addr}, {owner}'s, the byte {offset} on was never written")
            }
            Self::FreedInUse { copies } => {
                write!(f, "host memory was freed that {copies} enqueued copies were to use")
            }
            Self::OverBudget { physical, budget } => {
                write!(f, "{physical} of physical memory existed under a budget of {budget}")
            }
        }
    }
}
