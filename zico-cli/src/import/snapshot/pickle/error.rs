//! Why a file is no pickle of plain data.

use std::io;

use super::{LAST_PROTOCOL, MAX_HELD};

/// Why a file is no pickle of plain data. Offsets count bytes from the start of the (not
/// compressed) file; that of an instruction is where it starts.
#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    /// The file cannot be read on, or cannot be decompressed.
    #[error("byte {offset}: the file cannot be read on")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file, or the gzip file that it is in, ends too early.
    #[error("the file is cut off at byte {offset}: was the dump interrupted?")]
    CutOff {
        /// Its length, as far as it can be read.
        offset: u64,
    },
    /// There is something after the end.
    #[error("byte {offset}: something follows the end of the pickle")]
    Trailing {
        /// Where it begins.
        offset: u64,
    },
    /// An instruction makes something else than plain data, or is not used for it.
    #[error("byte {offset}: {opcode} is not carried out: a snapshot is plain data and needs none")]
    Refused {
        /// Where it stands.
        offset: u64,
        /// What it is called.
        opcode: &'static str,
    },
    /// There is no such instruction.
    #[error("byte {offset}: {opcode:#04x} is no instruction of a pickle")]
    Unknown {
        /// Where it stands.
        offset: u64,
        /// The byte.
        opcode: u8,
    },
    /// The pickle is of a later protocol.
    #[error("byte {offset}: protocol {found} is not known, only those up to {LAST_PROTOCOL}")]
    Protocol {
        /// Where it says so.
        offset: u64,
        /// The protocol.
        found: u8,
    },
    /// An instruction does not find what it works on.
    #[error("byte {offset}: {opcode} {problem}")]
    Malformed {
        /// Where it stands.
        offset: u64,
        /// What it is called.
        opcode: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// The values take too much memory.
    #[error(
        "byte {offset}: what it holds takes more than {} MiB of memory: record fewer events \
         (max_entries), and without stacks (context=None)", MAX_HELD >> 20
    )]
    TooLarge {
        /// The instruction that is too much.
        offset: u64,
    },
}
