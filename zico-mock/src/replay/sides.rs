//! The other streams of a job in a replay, and the blocks that they use.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU8;

use zico_core::{Block, Device, Job, Passed, Ticks, UseError};

use crate::trace::BlockId;
use crate::{Access, Claim, MockDevice, MockError, MockStream, Owner, Utilisation};

/// The streams by their number in the trace, and who uses which live block.
#[derive(Default)]
pub(super) struct Sides {
    streams: BTreeMap<NonZeroU8, MockStream>,
    users: HashMap<BlockId, Vec<MockStream>>,
}

impl Sides {
    /// The stream of this number uses a block of the job, after all that the job's `own` stream has
    /// been given. The oracle sees that the block is there.
    pub(super) fn lend(
        &mut self,
        job: &Job<MockDevice>,
        device: &MockDevice,
        (own, number): (MockStream, NonZeroU8),
        (id, block, owner): (BlockId, Block, Owner),
    ) -> Result<(), UseError<MockError>> {
        let side = *self.streams.entry(number).or_insert_with(|| device.add_stream());
        job.record_use(block, side)?;
        let access = Access { owner, addr: block.address(), len: block.bytes() };
        let ready = device.record(own).map_err(UseError::Device)?;
        device.order_after(side, &ready).map_err(UseError::Device)?;
        let touched = device.launch_touching(side, Ticks::ZERO, Utilisation::FULL, &[access]);
        touched.map_err(UseError::Device)?;
        let users = self.users.entry(id).or_default();
        if !users.contains(&side) {
            users.push(side);
        }
        Ok(())
    }

    /// Whether the device has done all that they have been given.
    pub(super) fn are_done(&self, device: &MockDevice) -> Result<bool, MockError> {
        self.streams.values().try_fold(true, |done, &side| Ok(done && is_done(device, side)?))
    }

    /// The job's `own` stream goes on after all that the others have been given. Claims end there
    /// then, and may begin there again.
    pub(super) fn rejoin(&mut self, device: &MockDevice, own: MockStream) -> Result<(), MockError> {
        self.users.clear();
        self.streams.values().try_for_each(|&side| device.order_after(own, &device.record(side)?))
    }

    /// The job's claim to a block ends, which it is about to free or has to give up: after all work
    /// so far that uses it, on the job's `own` stream or the last of the others, which waits for
    /// the rest.
    pub(super) fn disown(
        &mut self,
        device: &MockDevice,
        own: MockStream,
        (id, claim): (BlockId, Claim),
    ) -> Result<(), MockError> {
        let mut last = own;
        for side in self.users.remove(&id).unwrap_or_default() {
            device.order_after(side, &device.record(last)?)?;
            last = side;
        }
        device.disown(last, claim).map_err(|refused| refused.error)
    }
}

/// Whether the device has done all that a stream has been given, copies too.
pub(super) fn is_done(device: &MockDevice, stream: MockStream) -> Result<bool, MockError> {
    Ok(device.query(&device.record(stream)?)? == Passed::Yes)
}
