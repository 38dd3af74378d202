//! A preemptible job on the mock device that keeps memory between its iterations, and checks what
//! is in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, Device, Job, JobConfig, Lifetime, Pool, Request,
    Ticks,
};
use zico_mock::{Access, MockDevice, MockStream, Utilisation};

use crate::waves::regions;

/// A turn lasts for so long.
pub const SLICE: Ticks = Ticks::millis(5);
/// What an iteration does on the device.
pub const WORK: Ticks = Ticks::millis(2);

/// A job that keeps one block and takes another in each iteration. It uses them there only.
pub struct Tenant<D: Device<Stream = MockStream>> {
    device: MockDevice,
    job: Job<D>,
    stream: MockStream,
    owner: u32,
    keeps: Bytes,
    takes: Bytes,
    kept: Option<Block>,
    inside: Option<Block>,
    is_inside: bool,
    /// How many it has done.
    pub iterations: u64,
}

/// Whether a job has gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has.
    On,
    /// It has to wait.
    Waits,
}

impl<D: Device<Stream = MockStream>> Tenant<D> {
    /// A preemptible job that keeps and takes so many regions.
    ///
    /// # Panics
    /// If it cannot join.
    #[must_use]
    pub fn join(
        device: &MockDevice,
        pool: &Pool<D>,
        owner: u32,
        (keeps, takes): (u64, u64),
    ) -> Self {
        let stream = device.add_stream();
        let config = JobConfig::new(format!("job {owner}")).preemptible(SLICE);
        Self {
            device: device.clone(),
            job: pool.join(config, stream).unwrap(),
            stream,
            owner,
            keeps: regions(keeps),
            takes: regions(takes),
            kept: None,
            inside: None,
            is_inside: false,
            iterations: 0,
        }
    }

    /// It runs an iteration.
    #[must_use]
    pub const fn is_inside(&self) -> bool {
        self.is_inside
    }

    fn access(&self, block: &Block) -> Access {
        Access { owner: self.owner, addr: block.address(), len: block.bytes() }
    }

    /// Tells the contents of a block from those of others.
    fn write(&self, block: &Block) {
        self.owned(block, || {
            self.device.write(self.stream, self.access(block), self.owner.into()).unwrap();
        });
    }

    fn expect(&self, block: &Block) {
        self.owned(block, || {
            self.device.expect(self.stream, self.access(block), self.owner.into()).unwrap();
        });
    }

    fn owned(&self, block: &Block, change: impl FnOnce()) {
        let Access { owner, addr, len } = self.access(block);
        let claim = self.device.own(self.stream, owner, addr, len).unwrap();
        change();
        self.device.disown(self.stream, claim).unwrap();
    }

    fn alloc(&self, bytes: Bytes, lifetime: Lifetime) -> Option<Block> {
        match self.job.alloc(Request::new(bytes, lifetime)) {
            Ok(block) => Some(block),
            Err(AllocError::Busy(_) | AllocError::Device(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Goes on by a step.
    ///
    /// # Panics
    /// If something is wrong.
    pub fn step(&mut self) -> Step {
        let Some(kept) = self.kept else {
            self.kept = self.alloc(self.keeps, Lifetime::Persistent);
            let Some(kept) = self.kept else { return Step::Waits };
            self.write(&kept);
            return Step::On;
        };
        if !self.is_inside {
            match self.job.begin(None) {
                Ok(Begin::Started) => {}
                // The device has refused to bring it back: it asks again.
                Ok(Begin::Wait(_)) | Err(BeginError::Suspended) => return Step::Waits,
                Err(error) => panic!("{error}"),
            }
            self.is_inside = true;
            self.expect(&kept);
        } else if self.inside.is_none() {
            self.inside = self.alloc(self.takes, Lifetime::Iteration);
            let Some(inside) = self.inside else { return Step::Waits };
            self.write(&inside);
            self.device.launch(self.stream, WORK, Utilisation::FULL).unwrap();
        } else {
            self.job.free(self.inside.take().unwrap()).unwrap();
            self.job.end().unwrap();
            self.is_inside = false;
            self.iterations += 1;
        }
        Step::On
    }
}
