//! `.ztrace`, the file format of traces, version 1.
//!
//! A file is the six bytes `ZTRACE`, one byte with the version, which is 1, and then the *content*
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
//!
//! and is made up of
//!
//! 1. text: the name of the trace;
//! 2. text: its provenance;
//! 3. the number of steps in the setup, and these steps;
//! 4. the number of iterations, and for each its recorded wall time in nanoseconds (a number), the
//!    number of its steps, and these steps.
//!
//! Nothing follows. Blocks have no ids in a file: they are numbered in the order of allocation. A
//! free counts back from the newest block because that number is the same in every iteration of a
//! steady job, which is why the files compress well. The checksum at the end of the zlib stream
//! guards the content. What a trace has to fulfil besides is said at [`Trace::new`].

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use zico_core::{Bytes, Lifetime, Ticks};

use super::{BlockId, Iteration, Phase, Step, Trace, TraceError};

/// What every trace file starts with.
pub const MAGIC: [u8; 6] = *b"ZTRACE";

/// The version that follows [`MAGIC`] in the files that this library reads and writes.
pub const VERSION: u8 = 1;

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
    #[error("is of version {found} of the trace format; this program reads version {VERSION}")]
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
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        let inflated = BufReader::new(ZlibDecoder::new(file));
        let mut content = Content { inflated, offset: 0, record: 0, blocks: 0 };
        let name = content.text()?;
        let provenance = content.text()?;
        let setup = content.steps()?;
        let mut iterations = Vec::new();
        for _ in 0..content.number()? {
            let recorded = Ticks::new(content.number()?);
            iterations.push(Iteration::new(content.steps()?, recorded));
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
        to.write_all(&[VERSION])?;
        let deflated = ZlibEncoder::new(to, Compression::best());
        let mut content = Written { deflated, offset: 0, blocks: 0 };
        content.text(&self.name)?;
        content.text(&self.provenance)?;
        content.steps(&self.setup)?;
        content.number(self.iterations.len() as u64)?;
        for iteration in &self.iterations {
            content.number(iteration.recorded().value())?;
            content.steps(iteration.steps())?;
        }
        content.deflated.finish()?.flush()
    }
}

const TAG_FREE: u8 = 0;
/// An operator's temporary, which older files tell from a block of an iteration.
const TAG_TEMPORARY: u8 = 3;
const TAG_LAUNCH: u8 = 4;
const TAG_PHASE: u8 = 5;

const fn alloc_tag(lifetime: Lifetime) -> u8 {
    match lifetime {
        Lifetime::Persistent => 1,
        Lifetime::Iteration => 2,
    }
}

/// Content as it is written.
struct Written<W: Write> {
    deflated: ZlibEncoder<W>,
    offset: u64,
    /// How many blocks are allocated so far.
    blocks: u32,
}

impl<W: Write> Written<W> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        if self.offset > MAX_CONTENT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.deflated.write_all(bytes)
    }

    fn number(&mut self, mut value: u64) -> io::Result<()> {
        while value >= 0x80 {
            self.bytes(&[value.to_le_bytes()[0] | 0x80])?;
            value >>= 7;
        }
        self.bytes(&[value.to_le_bytes()[0]])
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.number(text.len() as u64)?;
        self.bytes(text.as_bytes())
    }

    fn steps(&mut self, steps: &[Step]) -> io::Result<()> {
        self.number(steps.len() as u64)?;
        for step in steps {
            let (tag, value) = match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    self.blocks = block.value() + 1;
                    (alloc_tag(lifetime), bytes.value())
                }
                Step::Free { block } => (TAG_FREE, u64::from(self.blocks - 1 - block.value())),
                Step::Launch { work } => (TAG_LAUNCH, work.value()),
                Step::Phase(phase) => (TAG_PHASE, phase as u64),
            };
            self.bytes(&[tag])?;
            self.number(value)?;
        }
        Ok(())
    }
}

/// Content as it is read.
struct Content<R: BufRead> {
    inflated: BufReader<ZlibDecoder<R>>,
    offset: u64,
    record: u64,
    /// How many blocks are allocated so far.
    blocks: u32,
}

impl<R: BufRead> Content<R> {
    fn malformed(&self, source: Malformed) -> ReadError {
        ReadError::Malformed { offset: self.offset, record: self.record, source }
    }

    fn damaged(&self, source: io::Error) -> ReadError {
        ReadError::Damaged { offset: self.offset, record: self.record, source }
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        if self.offset == MAX_CONTENT {
            return Err(ReadError::TooLarge);
        }
        let mut byte = [0];
        self.inflated.read_exact(&mut byte).map_err(|error| self.damaged(error))?;
        self.offset += 1;
        Ok(byte[0])
    }

    fn number(&mut self) -> Result<u64, ReadError> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed(Malformed::Number))
    }

    fn text(&mut self) -> Result<String, ReadError> {
        let length = self.number()?;
        if length > MAX_TEXT as u64 {
            return Err(self.malformed(Malformed::Length { length }));
        }
        let mut text = Vec::new();
        let mut part = self.inflated.by_ref().take(length);
        let ended = match part.read_to_end(&mut text) {
            Ok(_) if text.len() as u64 == length => None,
            Ok(_) => Some(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Some(error),
        };
        self.offset += text.len() as u64;
        match ended {
            Some(error) => Err(self.damaged(error)),
            None => String::from_utf8(text).map_err(|_| self.malformed(Malformed::Text)),
        }
    }

    fn steps(&mut self) -> Result<Vec<Step>, ReadError> {
        // No capacity is set aside: the count may be anything.
        let mut steps = Vec::new();
        for _ in 0..self.number()? {
            steps.push(self.step()?);
            self.record += 1;
        }
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step, ReadError> {
        let tag = self.byte()?;
        let lifetime = match tag {
            TAG_TEMPORARY => Some(Lifetime::Iteration),
            _ => Lifetime::ALL.into_iter().find(|&l| alloc_tag(l) == tag),
        };
        if let Some(lifetime) = lifetime {
            let bytes = Bytes::new(self.number()?);
            let block = BlockId::new(self.blocks);
            self.blocks += 1; // Never too many for u32: MAX_CONTENT has no room for them.
            return Ok(Step::Alloc { block, bytes, lifetime });
        }
        match tag {
            TAG_FREE => {
                let back = self.number()?;
                let allocated = self.blocks;
                let block = u32::try_from(back).ok().and_then(|back| allocated.checked_sub(back));
                let block = block.and_then(|after| after.checked_sub(1)).map(BlockId::new);
                let free = block.map(|block| Step::Free { block });
                free.ok_or_else(|| self.malformed(Malformed::Free { back, allocated }))
            }
            TAG_LAUNCH => Ok(Step::Launch { work: Ticks::new(self.number()?) }),
            TAG_PHASE => {
                let number = self.number()?;
                let phase = Phase::ALL.into_iter().find(|&phase| phase as u64 == number);
                phase.map(Step::Phase).ok_or_else(|| self.malformed(Malformed::Phase(number)))
            }
            _ => Err(self.malformed(Malformed::Tag(tag))),
        }
    }

    /// Reads to the end, which is where the decompressor compares the checksum.
    fn end(mut self) -> Result<(), ReadError> {
        let rest = self.inflated.fill_buf().map(<[u8]>::is_empty);
        let ended = rest.map_err(|error| self.damaged(error))?;
        let mut file = self.inflated.into_inner().into_inner();
        if ended && file.fill_buf().map_err(ReadError::Io)?.is_empty() {
            return Ok(());
        }
        let source = Malformed::Trailing;
        Err(ReadError::Malformed { offset: self.offset, record: self.record, source })
    }
}
