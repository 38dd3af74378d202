//! A relieved job on the device: its streams for transfers, what it has on the host, and what the
//! oracle is to find.

use std::collections::HashMap;
use std::sync::Arc;

use zico_core::{Block, Bytes, Device, HostMemory, HostTier, Ticks};

use super::versions::Version;
use super::{Deed, Relieved, Script};
use crate::trace::BlockId;
use crate::{Access, Claim, MockDevice, MockError, MockEvent, MockStream};

/// The blocks that a job has.
type Blocks = HashMap<BlockId, (Block, Option<Claim>)>;

/// Why a deed could not be done.
#[derive(Debug, thiserror::Error)]
pub(in crate::replay) enum CarryError {
    /// The plan uses a storage that has no block.
    #[error("its plan uses storage {storage}, which is not on the device")]
    Absent { storage: u32 },
    /// The plan brings back what never left.
    #[error("its plan brings storage {storage} back, which is not on the host")]
    NotHosted { storage: u32 },
    #[error(transparent)]
    Device(#[from] MockError),
}

/// What carries a plan out beside the job.
#[derive(Debug)]
pub(in crate::replay) struct Carrier {
    plan: Arc<Relieved>,
    script: Script,
    device: MockDevice,
    /// The job's stream, and those of its transfers.
    compute: MockStream,
    out: MockStream,
    back: MockStream,
    /// The job as an owner of memory.
    tag: u32,
    iteration: u64,
    hosted: HashMap<u32, HostMemory>,
    /// The ends of transfers that the job's stream has not waited for.
    leaving: HashMap<u32, MockEvent>,
    arriving: HashMap<u32, MockEvent>,
    moved: Bytes,
}

impl Carrier {
    pub(in crate::replay) fn new(
        plan: Arc<Relieved>,
        device: &MockDevice,
        compute: MockStream,
        tag: u32,
    ) -> Self {
        Self {
            plan,
            script: Script::new(),
            device: device.clone(),
            compute,
            out: device.add_stream(),
            back: device.add_stream(),
            tag,
            iteration: 0,
            hosted: HashMap::new(),
            leaving: HashMap::new(),
            arriving: HashMap::new(),
            moved: Bytes::ZERO,
        }
    }

    /// What the job does next.
    pub(in crate::replay) fn next(&mut self) -> Deed {
        self.script.next(&self.plan)
    }

    /// The bytes of all transfers that it has asked for.
    pub(in crate::replay) const fn moved(&self) -> Bytes {
        self.moved
    }

    /// How long an operation takes, as recorded.
    pub(in crate::replay) fn work(&self, operation: u32) -> Ticks {
        self.plan.works[operation as usize]
    }

    /// A block has been allocated: whatever was there is not to be read.
    pub(in crate::replay) fn allocated(&self, block: &Block) -> Result<(), MockError> {
        self.device.undefine(self.compute, self.access(block))
    }

    /// Before an operation: all that it reads has to be there, and as it was.
    pub(in crate::replay) fn before(
        &self,
        operation: u32,
        blocks: &Blocks,
    ) -> Result<(), CarryError> {
        let read = &self.plan.versions.reads[operation as usize];
        read.iter().try_for_each(|&version| self.expect(version, blocks))
    }

    /// Behind it: what it has made.
    pub(in crate::replay) fn after(
        &self,
        operation: u32,
        blocks: &Blocks,
    ) -> Result<(), CarryError> {
        let made = &self.plan.versions.makes[operation as usize];
        made.iter().try_for_each(|&version| self.write(version, blocks))
    }

    /// Does what is neither an operation nor what any job does.
    pub(in crate::replay) fn carry(
        &mut self,
        deed: Deed,
        blocks: &Blocks,
    ) -> Result<(), CarryError> {
        match deed {
            Deed::Out(storage) => self.leave(storage, blocks),
            Deed::In(storage) => self.come_back(storage, blocks),
            Deed::Left(storage) => {
                let end = self.leaving.remove(&storage);
                Ok(self.wait(end)?)
            }
            Deed::Arrived(storage) => {
                let end = self.arriving.remove(&storage);
                Ok(self.wait(end)?)
            }
            Deed::Fill(storage) => self.write((storage, 0), blocks),
            Deed::Keep(storage) => self.expect(self.plan.versions.last(storage), blocks),
            Deed::Next => {
                self.iteration += 1;
                Ok(())
            }
            Deed::Op(_) | Deed::Run(_) | Deed::Pass(_) => Ok(()),
        }
    }

    /// The job leaves wherever it is: its stream waits for all transfers, of which the last ones
    /// may use blocks that are freed next.
    pub(in crate::replay) fn leave_off(&mut self) -> Result<(), MockError> {
        for stream in [self.out, self.back] {
            self.device.order_after(self.compute, &self.device.record(stream)?)?;
        }
        Ok(())
    }

    fn expect(&self, version: Version, blocks: &Blocks) -> Result<(), CarryError> {
        let block = self.block(version.0, blocks)?;
        Ok(self.device.expect(self.compute, block, self.value(version))?)
    }

    fn write(&self, version: Version, blocks: &Blocks) -> Result<(), CarryError> {
        let block = self.block(version.0, blocks)?;
        Ok(self.device.write(self.compute, block, self.value(version))?)
    }

    fn leave(&mut self, storage: u32, blocks: &Blocks) -> Result<(), CarryError> {
        let block = self.block(storage, blocks)?;
        let host = match self.hosted.remove(&storage) {
            Some(host) => host,
            None => {
                let unit = self.device.caps().granularity;
                self.device.allocate(block.len.round_up(unit).unwrap_or(block.len))?
            }
        };
        let time = Ticks::new(self.plan.means.link.nanos_out(block.len.value()));
        self.device.order_after(self.out, &self.device.record(self.compute)?)?;
        self.device.save(self.out, block, &host, time)?;
        self.leaving.insert(storage, self.device.record(self.out)?);
        self.hosted.insert(storage, host);
        self.moved = self.moved.saturating_add(block.len);
        Ok(())
    }

    fn come_back(&mut self, storage: u32, blocks: &Blocks) -> Result<(), CarryError> {
        let block = self.block(storage, blocks)?;
        let host = self.hosted.get(&storage).ok_or(CarryError::NotHosted { storage })?;
        let time = Ticks::new(self.plan.means.link.nanos_back(block.len.value()));
        self.device.order_after(self.back, &self.device.record(self.compute)?)?;
        self.device.restore(self.back, block, host, time)?;
        self.arriving.insert(storage, self.device.record(self.back)?);
        self.moved = self.moved.saturating_add(block.len);
        Ok(())
    }

    /// The job's stream waits for the end of a transfer.
    fn wait(&self, end: Option<MockEvent>) -> Result<(), MockError> {
        end.map_or(Ok(()), |end| self.device.order_after(self.compute, &end))
    }

    fn block(&self, storage: u32, blocks: &Blocks) -> Result<Access, CarryError> {
        let found = blocks.get(&self.plan.blocks[storage as usize]);
        found.map(|(block, _)| self.access(block)).ok_or(CarryError::Absent { storage })
    }

    fn access(&self, block: &Block) -> Access {
        Access { owner: self.tag, addr: block.address(), len: block.bytes() }
    }

    /// What stands for the contents: a number that no other job writes.
    fn value(&self, version: Version) -> u64 {
        let number = self.plan.versions.number(self.iteration, version);
        u64::from(self.tag).rotate_right(16) ^ number
    }
}
