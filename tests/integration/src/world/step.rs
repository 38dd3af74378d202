//! The calls of a job, and the model's record of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zico_core::{
    AllocError, Begin, BeginError, Block, Bytes, Device, FreeError, Job, Lifetime, Request, Ticks,
    UseError,
};
use zico_mock::{Access, Claim, FaultyError, MockDevice, MockStream, Utilisation};

use super::routine::{LOOP, ROUTINE, STEPS, Step};
use super::{CAP, Dev, DevError, Inner, REGION, cap, terms};
use crate::between::BetweenError;

/// One job.
pub(super) struct Tenant {
    pub(super) job: Arc<Job<Dev>>,
    /// Its number in the order of joining.
    pub(super) stay: u64,
    pub(super) stream: MockStream,
    running: bool,
    /// A thread of it begins or ends an iteration.
    turning: bool,
    /// Another stream, for some of its work.
    pub(super) side: MockStream,
    pub(super) live: Vec<Live>,
    /// It goes to the host, is there, or comes back.
    pub(super) away: bool,
    /// It stays idle for this number of calls.
    pub(super) idle: u8,
    /// The next step of its routine, and what those before have allocated, now and the time before.
    step: usize,
    routine: [Option<Block>; STEPS],
    last: [Option<Block>; STEPS],
}

pub(super) struct Live {
    pub(super) block: Block,
    /// None while the job goes to the host, is there, or comes back.
    pub(super) claim: Option<Claim>,
    /// The other stream's work uses it.
    pub(super) elsewhere: bool,
    /// It had contents when its job went to the host.
    pub(super) written: bool,
}

impl Tenant {
    pub(super) fn has_blocks(&self) -> bool {
        !self.live.is_empty()
    }

    /// Compares the job's figures with the model.
    pub(super) fn check(&self) {
        let live: u64 = self.live.iter().map(|live| live.block.bytes().value()).sum();
        let held = self.job.held();
        let stats = self.job.snapshot().stats;
        assert_eq!(stats.requested.current.value(), live);
        assert!(stats.active.current >= stats.allocated.current);
        assert_eq!(stats.reserved.current, held.total());
        for counter in [stats.requested, stats.allocated, stats.active, stats.reserved] {
            assert_eq!(counter.current.checked_add(counter.freed), Some(counter.allocated));
            assert!(counter.peak >= counter.current);
        }
        let leased = held.total().value() - held.draining.value();
        assert!(self.away || leased >= live, "a live block is leased");
    }
}

impl Inner {
    /// The job and which time it has joined, unless it is to do nothing.
    pub(super) fn active(&self, i: usize) -> Option<(Arc<Job<Dev>>, u64)> {
        let mut state = self.state();
        let tenant = state.tenant(i)?;
        if tenant.idle > 0 {
            tenant.idle -= 1;
            return None;
        }
        Some((tenant.job.clone(), tenant.stay))
    }

    pub(super) fn join_or_leave(&self, i: usize) {
        if i >= self.jobs {
            return;
        }
        let tenant = self.state().tenants[i].take();
        match tenant {
            Some(tenant) => {
                let count = tenant.live.len();
                for live in tenant.live {
                    disown(&self.device, (tenant.stream, tenant.side), live);
                }
                // Where another thread of the job is in the middle of a call, it leaves after that.
                if let Some(job) = Arc::into_inner(tenant.job) {
                    assert_eq!(job.leave().blocks.len(), count, "what is live is leaked");
                }
            }
            None => {
                let stream = self.device.add_stream();
                let Ok(job) = self.pool.join(terms(i), stream) else { return };
                let mut state = self.state();
                state.joined += 1;
                let tenant = Tenant {
                    job: Arc::new(job),
                    stay: state.joined,
                    stream,
                    running: false,
                    turning: false,
                    side: self.device.add_stream(),
                    live: Vec::new(),
                    away: false,
                    idle: 0,
                    step: 0,
                    routine: [None; STEPS],
                    last: [None; STEPS],
                };
                // Another one may have come meanwhile: then this one leaves.
                let late = state.tenants[i].replace(tenant);
                let late = late.and_then(|first| state.tenants[i].replace(first));
                drop(state);
                drop(late);
            }
        }
    }

    /// Does the next step of a job's routine. Whether it could be done.
    pub(super) fn routine(&self, i: usize) -> bool {
        let Some((_, stay)) = self.active(i) else { return false };
        let routine = if i.is_multiple_of(2) { &ROUTINE } else { &LOOP };
        let (step, running) = {
            let mut state = self.state();
            let Some(tenant) = state.tenant(i) else { return false };
            (tenant.step, tenant.running)
        };
        let mut made = None;
        match routine[step] {
            Step::Begin if !running => self.begin_or_end(i),
            Step::End if running => self.begin_or_end(i),
            Step::Begin | Step::End => {}
            Step::Alloc(kib, lifetime) => made = self.alloc(i, kib, 9, lifetime),
            Step::Free(which) | Step::FreeLast(which) => {
                let found = {
                    let mut state = self.state();
                    let Some(tenant) = state.tenant(i) else { return false };
                    let last = matches!(routine[step], Step::FreeLast(_));
                    let blocks = if last { &mut tenant.last } else { &mut tenant.routine };
                    // Something else may have freed it.
                    let block = blocks[which].take();
                    tenant.live.iter().position(|live| Some(live.block) == block)
                };
                found.into_iter().for_each(|which| self.free(i, which));
            }
        }
        let mut state = self.state();
        let Some(tenant) = state.tenant(i).filter(|tenant| tenant.stay == stay) else {
            return false;
        };
        let done = match routine[step] {
            Step::Begin => tenant.running,
            Step::Alloc(..) => made.is_some(),
            Step::Free(_) | Step::FreeLast(_) | Step::End => true,
        };
        if let Some(block) = made {
            tenant.last[step] = tenant.routine[step].replace(block);
        }
        // Another thread may have gone on with it meanwhile.
        if tenant.step == step {
            tenant.step = (step + usize::from(done)) % STEPS;
        }
        done
    }

    pub(super) fn begin_or_end(&self, i: usize) {
        let Some((job, stay)) = self.active(i) else { return };
        let running = {
            let mut state = self.state();
            let Some(tenant) = state.tenant(i).filter(|tenant| !tenant.turning) else { return };
            tenant.turning = true;
            tenant.running
        };
        let runs = if running {
            job.end().unwrap();
            assert!(job.end().is_err(), "an iteration ends once");
            false
        } else if let Ok(Begin::Started) = self.begin(i, stay, &job) {
            assert!(job.begin(None).is_err(), "an iteration begins once");
            true
        } else {
            false
        };
        if let Some(tenant) = self.state().tenant(i).filter(|tenant| tenant.stay == stay) {
            (tenant.running, tenant.turning) = (runs, false);
        }
    }

    fn begin(&self, i: usize, stay: u64, job: &Job<Dev>) -> Result<Begin, BeginError> {
        let begun = job.begin(None);
        if begun == Err(BeginError::Suspended) {
            self.is_away(i, stay);
        }
        begun
    }

    pub(super) fn alloc(
        &self,
        i: usize,
        kib: u64,
        align: u32,
        lifetime: Option<Lifetime>,
    ) -> Option<Block> {
        let (job, stay) = self.active(i)?;
        let align = Bytes::new(1 << align);
        let bytes = Bytes::kib(kib);
        let request = match lifetime {
            Some(lifetime) => Request::new(bytes, lifetime),
            None => Request::learned(bytes).named("learned"),
        };
        let fired = self.fired.load(Ordering::SeqCst);
        let result = job.alloc(request.aligned(align));
        let alone = self.is_alone(fired);
        match result {
            Ok(block) => {
                assert_eq!(block.address().value() % align.value(), 0);
                self.note_made(i, stay, &job, block);
                return Some(block);
            }
            Err(AllocError::Busy(shortage)) if alone => {
                assert_eq!(shortage.budget, self.pool.budget());
            }
            Err(AllocError::OutOfMemory(why)) if alone => {
                assert_eq!(why.shortage.budget, self.pool.budget());
                let held = why.holders.iter().map(|holder| holder.held.total().value()).sum();
                let (used, draining) = (why.shortage.held, why.shortage.draining);
                let others = why.shortage.held_by_others.value();
                assert_eq!(used.value() + others + draining.value(), held, "{why}");
            }
            Err(AllocError::Busy(_) | AllocError::OutOfMemory(_)) => {}
            Err(AllocError::BeyondCap { cap: most, .. }) => {
                assert_eq!((cap(i), most), (Some(CAP), CAP));
            }
            Err(AllocError::Invalid { .. }) => assert!(align > REGION),
            Err(AllocError::Device(error)) => Self::is_made_up(&error),
            Err(AllocError::Suspended) => self.is_away(i, stay),
            Err(other) => panic!("{other}"),
        }
        None
    }

    /// A block is the job's, unless that has left meanwhile.
    fn note_made(&self, i: usize, stay: u64, job: &Job<Dev>, block: Block) {
        let mut state = self.state();
        match state.tenant(i).filter(|tenant| tenant.stay == stay) {
            Some(tenant) => {
                let (owner, address) = (i.try_into().unwrap(), block.address());
                let own = || self.device.own(tenant.stream, owner, address, block.bytes()).unwrap();
                let claim = (!tenant.away).then(own);
                tenant.live.push(Live { block, claim, elsewhere: false, written: false });
            }
            None => {
                drop(state);
                job.free(block).unwrap();
            }
        }
    }

    /// An error of the device is one that was injected, or of a stream that takes no events.
    pub(super) fn is_made_up(error: &DevError) {
        let injected = matches!(error, BetweenError::Device(FaultyError::Injected { .. }));
        assert!(injected || matches!(error, BetweenError::NoEvents(_)), "{error}");
    }

    pub(super) fn absurd(&self, i: usize, what: u8) {
        let Some((job, stay)) = self.active(i) else { return };
        let status = self.pool.budget_status();
        let most = status.target.saturating_add(status.pending).value();
        let (bytes, align) = match what % 10 {
            0 => (u64::MAX, 512),
            1 => (u64::MAX - 511, 512),
            2 => (1 << 63, 512),
            3 => (2 * most, 512),
            4 => (most + 1, 512),
            5 => (1, 1 << 63),
            6 => (1, 3),
            7 => (1, 0),
            8 => (0, 2 * REGION.value()),
            _ => (1 << 40, REGION.value()),
        };
        let lifetime = Lifetime::ALL[usize::from(what / 10) % Lifetime::ALL.len()];
        let fired = self.fired.load(Ordering::SeqCst);
        let request = Request::new(Bytes::new(bytes), lifetime).aligned(Bytes::new(align));
        match job.alloc(request) {
            Err(AllocError::Device(error)) => Self::is_made_up(&error),
            Err(AllocError::Suspended) => self.is_away(i, stay),
            Err(AllocError::Busy(_)) if !self.is_alone(fired) => {}
            Err(
                AllocError::OutOfMemory(_)
                | AllocError::BeyondCap { .. }
                | AllocError::Invalid { .. }
                | AllocError::OutOfAddresses { .. },
            ) => {}
            other => panic!("{bytes} bytes aligned to {align}, and that is {other:?}"),
        }
    }

    pub(super) fn free(&self, i: usize, which: usize) {
        let Some((job, _)) = self.active(i) else { return };
        let (block, side) = {
            let mut state = self.state();
            let Some(tenant) = state.tenant(i).filter(|tenant| !tenant.live.is_empty()) else {
                return;
            };
            let which = which % tenant.live.len();
            let live = tenant.live.swap_remove(which);
            let block = live.block;
            disown(&self.device, (tenant.stream, tenant.side), live);
            (block, tenant.side)
        };
        // Another thread may have allocated a block at that address meanwhile.
        let gone = |error: FreeError| match error {
            FreeError::NotLive(at) | FreeError::Stale(at) => at == block.address(),
            _ => false,
        };
        job.free(block).unwrap();
        assert!(job.free(block).is_err_and(gone), "freed twice");
        if let Err(UseError::Block(error)) = job.record_use(block, side) {
            assert!(gone(error), "{error}");
        }
    }

    pub(super) fn use_elsewhere(&self, i: usize, which: usize, micros: u64) {
        let Some((job, stay)) = self.active(i) else { return };
        let (block, own, side) = {
            let mut state = self.state();
            let Some(tenant) = state.tenant(i).filter(|tenant| !tenant.live.is_empty()) else {
                return;
            };
            let live = &tenant.live[which % tenant.live.len()];
            (live.block, tenant.stream, tenant.side)
        };
        match job.record_use(block, side) {
            Ok(()) => {}
            Err(UseError::Device(error)) => return Self::is_made_up(&error),
            // Another thread has freed it meanwhile.
            Err(UseError::Block(_)) => return,
            Err(error) => panic!("{error}"),
        }
        let mut state = self.state();
        let Some(tenant) = state.tenant(i).filter(|tenant| tenant.stay == stay) else { return };
        let Some(live) = tenant.live.iter_mut().find(|live| live.block == block) else { return };
        if live.claim.is_none() {
            return;
        }
        live.elsewhere = true;
        // The block's contents come from the job's own stream.
        let ready = self.device.record(own).unwrap();
        self.device.order_after(side, &ready).unwrap();
        let (addr, len) = (block.address(), block.bytes());
        let access = Access { owner: i.try_into().unwrap(), addr, len };
        let work = Ticks::micros(micros);
        self.device.launch_touching(side, work, Utilisation::FULL, &[access]).unwrap();
    }
}

/// The claim on a block ends: after the job's own work, and after that of the other stream.
pub(super) fn disown(device: &MockDevice, (own, side): (MockStream, MockStream), live: Live) {
    let Some(claim) = live.claim else { return };
    if live.elsewhere {
        let passed = device.record(own).unwrap();
        device.order_after(side, &passed).unwrap();
    }
    device.disown(if live.elsewhere { side } else { own }, claim).unwrap();
}
