//! The content of a file as it is read.

use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroU8;
use std::sync::Arc;

use flate2::bufread::ZlibDecoder;
use zico_core::{Bytes, Lifetime, Ticks};

use super::super::{Access, BlockId, Phase, Step};
use super::{MAX_CONTENT, MAX_TEXT, Malformed, ReadError};
use super::{TAG_FREE, TAG_LAUNCH, TAG_OPERATION, TAG_PHASE, TAG_TEMPORARY, TAG_USE};
use super::{WITH_STREAMS, alloc_tag};

/// Content as it is read.
pub(super) struct Content<R: BufRead> {
    inflated: BufReader<ZlibDecoder<R>>,
    offset: u64,
    record: u64,
    /// How many blocks are allocated so far.
    blocks: u32,
    /// What operations are called, if there are operations.
    names: Option<Vec<Arc<str>>>,
    version: u8,
}

impl<R: BufRead> Content<R> {
    pub(super) fn new(inflated: BufReader<ZlibDecoder<R>>, version: u8) -> Self {
        Self { inflated, offset: 0, record: 0, blocks: 0, names: None, version }
    }

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

    pub(super) fn number(&mut self) -> Result<u64, ReadError> {
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

    pub(super) fn text(&mut self) -> Result<String, ReadError> {
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

    pub(super) fn names(&mut self) -> Result<(), ReadError> {
        let mut names = Vec::new();
        for _ in 0..self.number()? {
            names.push(self.text()?.into());
        }
        self.names = Some(names);
        Ok(())
    }

    /// Steps; what operations use is added to the accesses.
    pub(super) fn steps(&mut self, accesses: &mut Vec<Access>) -> Result<Vec<Step>, ReadError> {
        // No capacity is set aside: the count may be anything.
        let mut steps = Vec::new();
        for _ in 0..self.number()? {
            steps.push(self.step(accesses)?);
            self.record += 1;
        }
        Ok(steps)
    }

    /// A block by how many were allocated since.
    fn block(&mut self, wrong: fn(u64, u32) -> Malformed) -> Result<BlockId, ReadError> {
        let (back, allocated) = (self.number()?, self.blocks);
        let block = u32::try_from(back).ok().and_then(|back| allocated.checked_sub(back));
        let block = block.and_then(|after| after.checked_sub(1)).map(BlockId::new);
        block.ok_or_else(|| self.malformed(wrong(back, allocated)))
    }

    fn used(&mut self) -> Result<BlockId, ReadError> {
        self.block(|back, allocated| Malformed::Used { back, allocated })
    }

    fn access(&mut self) -> Result<Access, ReadError> {
        let number = self.number()?;
        let names = self.names.as_deref().unwrap_or_default();
        let name = usize::try_from(number).ok().and_then(|number| names.get(number)).cloned();
        let name = name.ok_or_else(|| self.malformed(Malformed::Name(number)))?;
        let repeatable = match self.number()? {
            0 => false,
            1 => true,
            other => return Err(self.malformed(Malformed::Repeats(other))),
        };
        let mut used = [Vec::new(), Vec::new()];
        for blocks in &mut used {
            for _ in 0..self.number()? {
                blocks.push(self.used()?);
            }
        }
        let [reads, writes] = used;
        Ok(Access { name, reads, writes, repeatable })
    }

    fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Step, ReadError> {
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
                let block = self.block(|back, allocated| Malformed::Free { back, allocated })?;
                Ok(Step::Free { block })
            }
            TAG_OPERATION if self.names.is_some() => {
                let work = Ticks::new(self.number()?);
                accesses.push(self.access()?);
                Ok(Step::Launch { work })
            }
            TAG_USE if self.version >= WITH_STREAMS => {
                let (block, number) = (self.used()?, self.number()?);
                let stream = u8::try_from(number).ok().and_then(NonZeroU8::new);
                let stream = stream.ok_or_else(|| self.malformed(Malformed::Stream(number)))?;
                Ok(Step::Use { block, stream })
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
    pub(super) fn end(mut self) -> Result<(), ReadError> {
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
