//! A job on the mock device whose blocks have contents that tell them apart, and which checks them
//! when it has been on the host.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use zico_core::{
    Addr, AllocError, Begin, Block, Bytes, Device, FreeError, Job, Lifetime, OnSuspend, Pool,
    Request, Resume, ResumeError, SuspendError,
};
use zico_mock::trace::{BlockId, Step};
use zico_mock::{Access, Claim, MockDevice, MockStream};

/// What is to become of a block when its job goes to the host: of one in four nothing is needed,
/// and one in four stays. The same of the same address.
#[must_use]
pub fn at_random(address: Addr) -> OnSuspend {
    match (address.value() >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 {
        0 => OnSuspend::Discard,
        1 => OnSuspend::Keep,
        _ => OnSuspend::Copy,
    }
}

/// A block, and the claim that its job has on it; none while the job is on the host.
pub type Owned = (Block, Option<Claim>);

/// A job whose blocks have contents that tell them apart.
pub struct Tenant<D: Device<Stream = MockStream>> {
    /// Where its work runs.
    pub device: MockDevice,
    /// The job.
    pub job: Job<D>,
    /// Its stream.
    pub stream: MockStream,
    /// By what the device's oracle knows it.
    pub owner: u32,
    /// Its blocks, by what is written in them.
    pub blocks: BTreeMap<u64, Owned>,
    /// Those of which the contents were given up.
    lost: BTreeSet<u64>,
}

fn access(owner: u32, block: &Block) -> Access {
    Access { owner, addr: block.address(), len: block.bytes() }
}

impl<D: Device<Stream = MockStream>> Tenant<D> {
    /// A job that joins the pool.
    pub fn join(device: &MockDevice, pool: &Pool<D>, owner: u32) -> Self {
        let stream = device.add_stream();
        let job = pool.join(format!("job {owner}").as_str(), stream).unwrap();
        let (blocks, lost) = (BTreeMap::new(), BTreeSet::new());
        Self { device: device.clone(), job, stream, owner, blocks, lost }
    }

    /// Allocates a block and writes its number there.
    ///
    /// # Errors
    /// As the pool's.
    pub fn alloc(&mut self, id: u64, request: Request) -> Result<(), AllocError<D::Error>> {
        let block = self.job.alloc(request)?;
        let claim =
            self.device.own(self.stream, self.owner, block.address(), block.bytes()).unwrap();
        self.device.write(self.stream, access(self.owner, &block), id).unwrap();
        self.blocks.insert(id, (block, Some(claim)));
        Ok(())
    }

    /// Frees a block, which works once.
    pub fn free(&mut self, id: u64) {
        let (block, claim) = self.blocks.remove(&id).unwrap();
        claim.into_iter().for_each(|claim| self.device.disown(self.stream, claim).unwrap());
        self.job.free(block).unwrap();
        assert!(matches!(self.job.free(block), Err(FreeError::NotLive(_))), "once");
    }

    /// The claims end, the job goes or not, and if it has not gone they begin again.
    ///
    /// # Errors
    /// As the pool's.
    pub fn suspend(&mut self) -> Result<Bytes, SuspendError<D::Error>> {
        self.suspend_with(|_| OnSuspend::Copy)
    }

    /// The same, where something else becomes of some blocks. The claims on those that stay do not
    /// end.
    ///
    /// # Errors
    /// As the pool's.
    pub fn suspend_with(
        &mut self,
        choose: impl Fn(u64) -> OnSuspend,
    ) -> Result<Bytes, SuspendError<D::Error>> {
        self.let_go_of(|id| choose(id) != OnSuspend::Keep);
        let ids: BTreeMap<_, _> =
            self.blocks.iter().map(|(&id, (block, _))| (block.address(), id)).collect();
        let suspended = self.job.suspend_with(|block| choose(ids[&block.address]));
        if suspended.as_ref().is_ok_and(|bytes| !bytes.is_zero()) {
            let lost = ids.into_values().filter(|&id| choose(id) == OnSuspend::Discard);
            self.lost.extend(lost);
        } else {
            self.have();
        }
        suspended
    }

    /// The claims on all blocks end.
    pub fn let_go(&mut self) {
        self.let_go_of(|_| true);
    }

    fn let_go_of(&mut self, goes: impl Fn(u64) -> bool) {
        for (_, (_, claim)) in self.blocks.iter_mut().filter(|&(&id, _)| goes(id)) {
            let claim = claim.take();
            claim.into_iter().for_each(|claim| self.device.disown(self.stream, claim).unwrap());
        }
    }

    /// Leaves the pool.
    pub fn leave(mut self) {
        self.let_go();
    }

    /// The blocks are where they were, with their contents but for those that were given up: these
    /// are made again.
    pub fn have(&mut self) {
        for (&id, (block, claim)) in &mut self.blocks {
            let Access { owner, addr, len } = access(self.owner, block);
            claim.get_or_insert_with(|| self.device.own(self.stream, owner, addr, len).unwrap());
            let access = access(owner, block);
            if self.lost.remove(&id) {
                self.device.write(self.stream, access, id).unwrap();
            }
            self.device.expect(self.stream, access, id).unwrap();
        }
        self.lost.clear();
    }

    /// Comes back, and looks at its blocks.
    ///
    /// # Errors
    /// As the pool's.
    pub fn resume(&mut self) -> Result<Resume, ResumeError<D::Error>> {
        let resumed = self.job.resume()?;
        if resumed == Resume::Done {
            self.have();
        }
        Ok(resumed)
    }
}

/// A job on the host is back when it has asked a few times, though the device may refuse.
pub fn comes_back<D: Device<Stream = MockStream>>(job: &mut Tenant<D>, settle: impl Fn()) {
    let is_back = |_| match job.resume() {
        Ok(Resume::Done) => true,
        Ok(Resume::Wait) | Err(ResumeError::Device(_)) => {
            settle();
            false
        }
        Err(error) => panic!("{error}"),
    };
    assert!((0..6).any(is_back), "it comes back");
}

/// An iteration that takes all the room there is, and writes there.
pub fn takes_all_room<D: Device<Stream = MockStream>>(other: &mut Tenant<D>, pool: &Pool<D>) {
    let begun = other.job.begin(None).unwrap();
    assert_eq!(begun, Begin::Started);
    let mut id = 1 << 40;
    while other.alloc(id, Request::new(pool.region_size(), Lifetime::Iteration)).is_ok() {
        id += 1;
    }
    for taken in (1 << 40)..id {
        other.free(taken);
    }
    other.job.end().unwrap();
}

/// The device has nothing any more, and has seen nothing wrong.
pub fn nothing_is_left(device: &MockDevice) {
    device.run_until_idle();
    assert_eq!(device.violations(), []);
    let usage = device.usage();
    assert_eq!((usage.physical, usage.ranges, usage.mappings), (Bytes::ZERO, 0, 0));
    assert_eq!(device.host_usage().0, Bytes::ZERO, "host memory");
}

/// All jobs of a pool have left: it goes, and [nothing is left](nothing_is_left).
pub fn all_leave<D: Device>(device: &MockDevice, pool: Pool<D>) {
    for _ in 0..3 {
        device.run_until_idle();
        let _ = pool.poll();
    }
    drop(pool);
    nothing_is_left(device);
}

/// A recorded step.
pub fn play(job: &mut Tenant<MockDevice>, step: &Step) {
    let number = |block: &BlockId| block.index() as u64;
    match step {
        Step::Alloc { block, bytes, lifetime } => {
            job.alloc(number(block), Request::new(*bytes, *lifetime)).unwrap();
        }
        Step::Free { block } => job.free(number(block)),
        _ => {}
    }
}
