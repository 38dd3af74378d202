//! `.ztrace`, the file format of traces, versions 1 to 3.
//!
//! A file is the six bytes `ZTRACE`, one byte with the version, and then the *content*
//! as one zlib stream (RFC 1950), with which the file ends. Content is at most
//! [`MAX_CONTENT`] bytes when inflated. It consists of
//!
//! - *number*: an unsigned integer below 2^64 in LEB128: seven bits a byte, the lowest first, the
//!   eighth bit set in all bytes but the last; ten bytes at most, no superfluous zero bytes;
//! - *text*: a number n, [`MAX_TEXT`] at most, and then n bytes of UTF-8;
//! - *step*: one byte with a tag and then one number:
//!
//!   | tag | step | number |
//!   |---|---|---|
//!   | 0 | a block is freed | how many blocks were allocated since: 0 is the last one |
//!   | 1 | a persistent block is allocated | its size in bytes |
//!   | 2 | a block of an iteration is allocated | its size in bytes |
//!   | 3 | the same: an operator's temporary in older files, never written | its size in bytes |
//!   | 4 | the device gets work | recorded nanoseconds |
//!   | 5 | a phase starts | 0 data, 1 forward, 2 backward, 3 optimizer, 4 zero_grad |
//!   | 6 | the device gets an operation (version 2) | recorded nanoseconds; an *access* follows |
//!   | 7 | another stream uses a block (version 3) | blocks allocated since; a *stream* follows |
//!
//! - *stream*: a number, 1 to 255: which of the job's other streams;
//! - *access*: a number, which name the operation has; a number, 1 if it gives the same result each
//!   time and 0 if not; the number of blocks that it reads, and each of them; the number of blocks
//!   that it writes, and each of them. A block is the number of blocks that were allocated since;
//!
//! and is made up of
//!
//! 1. text: the name of the trace;
//! 2. text: its provenance; from version 2 on: the number of names of operations, and each of them,
//!    a text;
//! 3. the number of steps in the setup, and these steps;
//! 4. the number of iterations, and for each its recorded wall time in nanoseconds (a number), the
//!    number of its steps, and these steps.
//!
//! Nothing follows. Blocks have no ids in a file: they are numbered in the order of allocation. A
//! free counts back from the newest block because that number is the same in every iteration of a
//! steady job, which is why the files compress well. The checksum at the end of the zlib stream
//! guards the content. A trace in which other streams use blocks is of version 3; any other that
//! says what its launches read and write is of version 2; the rest are of version 1. Where it is
//! said what launches read and write there are only operations, no other launches. What a trace
//! has to fulfil besides is said at [`Trace::new`].

mod content;
mod written;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use zico_core::{Lifetime, Ticks};

use super::{Iteration, Step, Trace, TraceError};
use content::Content;
use written::Written;

/// What every trace file starts with.
pub const MAGIC: [u8; 6] = *b"ZTRACE";

/// The latest version that may follow [`MAGIC`]. This library also reads those before, and writes
/// the earliest that has all that a trace has.
pub const VERSION: u8 = 3;

/// There are operations from this version on.
const WITH_OPERATIONS: u8 = 2;
/// Other streams are told of from this version on.
const WITH_STREAMS: u8 = 3;

/// The most bytes of content a file may inflate to: 64 MiB, over a hundred times what the longest
/// of the bundled traces has. What a reader allocates is in proportion to the content it has read,
/// some forty bytes for one at the most, so this also bounds what a malicious file can cost.
pub const MAX_CONTENT: u64 = 64 << 20;

/// The most bytes of a trace's name, and of its provenance: 64 KiB. They are printed, and kept for
/// each job of a trace.
pub const MAX_TEXT: usize = 64 << 10;

/// Why a file is no trace. Offsets count bytes of inflated content, records count steps over the
/// setup and all iterations, both from zero.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot be read")]
    Io(#[source] io::Error),
    /// The file is something else.
    #[error("is not a trace: it does not start with \"ZTRACE\"")]
    NotATrace,
    /// The file is of another version of the format.
    #[error(
        "is of version {found} of the trace format; this program reads versions 1 to {VERSION}"
    )]
    Version {
        /// The version of the file.
        found: u8,
    },
    /// The compressed content is broken or ends too early.
    #[error("is damaged or cut off at byte {offset} of its content, in record {record}")]
    Damaged {
        /// Bytes of content before the damage.
        offset: u64,
        /// Steps before the damage.
        record: u64,
        /// What the decompressor says.
        source: io::Error,
    },
    /// The content does not follow the format.
    #[error("does not follow the format at byte {offset} of its content, in record {record}")]
    Malformed {
        /// Where in the content.
        offset: u64,
        /// The step.
        record: u64,
        /// What is wrong with it.
        source: Malformed,
    },
    /// The content is larger than anything this library accepts.
    #[error("inflates to more than {} MiB", MAX_CONTENT >> 20)]
    TooLarge,
    /// The format is followed but the steps do not make sense.
    #[error("holds steps that do not make sense")]
    Invalid(#[from] TraceError),
}

/// What does not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A number has more than 64 bits or superfluous zero bytes.
    #[error("a number is not in its shortest form or has more than 64 bits")]
    Number,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A text is longer than any that is accepted.
    #[error("a text has {length} bytes, and {MAX_TEXT} is the most that is accepted")]
    Length {
        /// Its length.
        length: u64,
    },
    /// There is no step with this tag.
    #[error("no step has the tag {0}")]
    Tag(u8),
    /// There is no phase with this number.
    #[error("no phase has the number {0}")]
    Phase(u64),
    /// A free counts back too far.
    #[error("a free counts back {back} blocks of {allocated}")]
    Free {
        /// How far it counts back.
        back: u64,
        /// How many blocks were allocated before.
        allocated: u32,
    },
    /// An operation or a stream uses a block that counts back too far.
    #[error("an operation or a stream uses a block {back} back of {allocated}")]
    Used {
        /// How far it counts back.
        back: u64,
        /// How many blocks were allocated before.
        allocated: u32,
    },
    /// There is no name of an operation with this number.
    #[error("no operation has the name {0}")]
    Name(u64),
    /// Whether an operation repeats is neither 0 nor 1.
    #[error("an operation repeats or does not: 1 or 0, not {0}")]
    Repeats(u64),
    /// There is no stream with this number.
    #[error("no other stream has the number {0}: they are 1 to 255")]
    Stream(u64),
    /// Something follows the content.
    #[error("something follows the end")]
    Trailing,
}

impl Trace {
    /// Reads a trace file. Reading is buffered, and goes to the end.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]. No input makes it panic, or allocate out of proportion to its length and
    /// [`MAX_CONTENT`].
    pub fn read(from: impl Read) -> Result<Self, ReadError> {
        let mut file = BufReader::new(from);
        let mut head = [0; MAGIC.len() + 1];
        file.read_exact(&mut head).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::NotATrace,
            _ => ReadError::Io(error),
        })?;
        let [magic @ .., version] = head;
        if magic != MAGIC {
            return Err(ReadError::NotATrace);
        }
        if !(1..=VERSION).contains(&version) {
            return Err(ReadError::Version { found: version });
        }
        let inflated = BufReader::new(ZlibDecoder::new(file));
        let mut content = Content::new(inflated, version);
        let name = content.text()?;
        let provenance = content.text()?;
        if version >= WITH_OPERATIONS {
            content.names()?;
        }
        let setup = content.steps(&mut Vec::new())?;
        let mut iterations = Vec::new();
        for _ in 0..content.number()? {
            let recorded = Ticks::new(content.number()?);
            let mut accesses = Vec::new();
            let steps = content.steps(&mut accesses)?;
            iterations.push(Iteration::new(steps, recorded).with_accesses(accesses));
        }
        content.end()?;
        Ok(Self::new(name, provenance, setup, iterations)?)
    }

    /// Writes a trace file, compressed as well as it can be.
    ///
    /// # Errors
    ///
    /// What writing to `to` answers; [`io::ErrorKind::InvalidInput`] if the name or the provenance
    /// is longer than [`MAX_TEXT`], and [`io::ErrorKind::FileTooLarge`] if the trace has more than
    /// [`MAX_CONTENT`], so that it could not be read. A text that is too long leaves `to` as it
    /// was.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        for (what, text) in [("name", &self.name), ("provenance", &self.provenance)] {
            if text.len() > MAX_TEXT {
                let (length, kind) = (text.len(), io::ErrorKind::InvalidInput);
                let why = format!("a {what} of {length} bytes, and {MAX_TEXT} is the most");
                return Err(io::Error::new(kind, why));
            }
        }
        to.write_all(&MAGIC)?;
        let names = self.operation_names();
        let version = self.version(&names);
        to.write_all(&[version])?;
        let deflated = ZlibEncoder::new(to, Compression::best());
        let mut content = Written::new(deflated);
        content.text(&self.name)?;
        content.text(&self.provenance)?;
        if version >= WITH_OPERATIONS {
            content.number(names.len() as u64)?;
            names.iter().try_for_each(|name| content.text(name))?;
        }
        let numbers: HashMap<&str, u64> = names.iter().copied().zip(0..).collect();
        content.steps(&self.setup, &[], &numbers)?;
        content.number(self.iterations.len() as u64)?;
        for iteration in &self.iterations {
            content.number(iteration.recorded().value())?;
            content.steps(iteration.steps(), iteration.accesses(), &numbers)?;
        }
        content.end()
    }

    /// The earliest version that has all that the trace has.
    fn version(&self, names: &[&str]) -> u8 {
        let mut steps = self.iterations.iter().flat_map(Iteration::steps);
        if steps.any(|step| matches!(step, Step::Use { .. })) {
            WITH_STREAMS
        } else if !names.is_empty() {
            WITH_OPERATIONS
        } else {
            1
        }
    }

    /// What operations are called, each name once, in the order in which they come up.
    fn operation_names(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let accesses = self.iterations.iter().flat_map(Iteration::accesses);
        accesses.map(|access| &*access.name).filter(|&name| seen.insert(name)).collect()
    }
}

const TAG_FREE: u8 = 0;
/// An operator's temporary, which older files tell from a block of an iteration.
const TAG_TEMPORARY: u8 = 3;
const TAG_LAUNCH: u8 = 4;
const TAG_PHASE: u8 = 5;
const TAG_OPERATION: u8 = 6;
const TAG_USE: u8 = 7;

const fn alloc_tag(lifetime: Lifetime) -> u8 {
    match lifetime {
        Lifetime::Persistent => 1,
        Lifetime::Iteration => 2,
    }
}
