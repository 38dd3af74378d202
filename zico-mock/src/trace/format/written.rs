//! The content of a file as it is written.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use zico_core::Ticks;

use super::super::{Access, Step};
use super::{MAX_CONTENT, TAG_FREE, TAG_LAUNCH, TAG_OPERATION, TAG_PHASE, TAG_USE, alloc_tag};

/// Content as it is written.
pub(super) struct Written<W: Write> {
    deflated: ZlibEncoder<W>,
    offset: u64,
    /// How many blocks are allocated so far.
    blocks: u32,
}

impl<W: Write> Written<W> {
    pub(super) fn new(deflated: ZlibEncoder<W>) -> Self {
        Self { deflated, offset: 0, blocks: 0 }
    }

    pub(super) fn end(self) -> io::Result<()> {
        self.deflated.finish()?.flush()
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        if self.offset > MAX_CONTENT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.deflated.write_all(bytes)
    }

    pub(super) fn number(&mut self, mut value: u64) -> io::Result<()> {
        while value >= 0x80 {
            self.bytes(&[value.to_le_bytes()[0] | 0x80])?;
            value >>= 7;
        }
        self.bytes(&[value.to_le_bytes()[0]])
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.number(text.len() as u64)?;
        self.bytes(text.as_bytes())
    }

    pub(super) fn steps(
        &mut self,
        steps: &[Step],
        accesses: &[Access],
        names: &HashMap<&str, u64>,
    ) -> io::Result<()> {
        let mut accesses = accesses.iter();
        self.number(steps.len() as u64)?;
        for step in steps {
            let (tag, value) = match *step {
                Step::Alloc { block, bytes, lifetime } => {
                    self.blocks = block.value() + 1;
                    (alloc_tag(lifetime), bytes.value())
                }
                Step::Free { block } => (TAG_FREE, u64::from(self.blocks - 1 - block.value())),
                Step::Launch { work } => match accesses.next() {
                    Some(access) => {
                        self.operation(work, access, names)?;
                        continue;
                    }
                    None => (TAG_LAUNCH, work.value()),
                },
                Step::Use { block, stream } => {
                    self.bytes(&[TAG_USE])?;
                    self.number(u64::from(self.blocks - 1 - block.value()))?;
                    self.number(stream.get().into())?;
                    continue;
                }
                Step::Phase(phase) => (TAG_PHASE, phase as u64),
            };
            self.bytes(&[tag])?;
            self.number(value)?;
        }
        Ok(())
    }

    fn operation(
        &mut self,
        work: Ticks,
        access: &Access,
        names: &HashMap<&str, u64>,
    ) -> io::Result<()> {
        self.bytes(&[TAG_OPERATION])?;
        self.number(work.value())?;
        self.number(names.get(&*access.name).copied().unwrap_or_default())?;
        self.number(u64::from(access.repeatable))?;
        for blocks in [&access.reads, &access.writes] {
            self.number(blocks.len() as u64)?;
            for block in blocks {
                self.number(u64::from(self.blocks - 1 - block.value()))?;
            }
        }
        Ok(())
    }
}
