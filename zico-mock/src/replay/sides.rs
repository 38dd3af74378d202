//! The other streams of a job in a replay, and the blocks that they use.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU8;

use zico_core::{Device, Ticks};

use crate::trace::BlockId;
use crate::{Access, MockDevice, MockError, MockStream, Utilisation};

/// The streams by their number in the trace, and who uses which live block.
#[derive(Default)]
pub(super) struct Sides {
    streams: BTreeMap<NonZeroU8, MockStream>,
    users: HashMap<BlockId, Vec<MockStream>>,
}

impl Sides {
    /// The stream of this number.
    pub(super) fn stream(&mut self, device: &MockDevice, number: NonZeroU8) -> MockStream {
        *self.streams.entry(number).or_insert_with(|| device.add_stream())
    }

    /// A stream uses a block, after all that the job's `own` stream has been given. The oracle sees
    /// that the block is there.
    pub(super) fn enter(
        &mut self,
        device: &MockDevice,
        (own, side): (MockStream, MockStream),
        (id, access): (BlockId, Access),
    ) -> Result<(), MockError> {
        device.order_after(side, &device.record(own)?)?;
        device.launch_touching(side, Ticks::ZERO, Utilisation::FULL, &[access])?;
        let users = self.users.entry(id).or_default();
        if !users.contains(&side) {
            users.push(side);
        }
        Ok(())
    }

    /// A stream that comes after all work so far that uses a block, which is about to be freed: the
    /// job's `own`, or the last of the others, which waits for the rest.
    pub(super) fn last_use(
        &mut self,
        device: &MockDevice,
        own: MockStream,
        id: BlockId,
    ) -> Result<MockStream, MockError> {
        let mut last = own;
        for side in self.users.remove(&id).unwrap_or_default() {
            device.order_after(side, &device.record(last)?)?;
            last = side;
        }
        Ok(last)
    }
}
