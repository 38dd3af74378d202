//! A job in the simulation: what it holds, and its ways to the host and back.

use zico_core::{Begin, BeginError, Block, Job, Resume, ResumeError, SuspendError};
use zico_mock::{Claim, MockDevice, MockStream};
use zico_tests::owned::at_random;

pub(crate) struct Tenant {
    pub(crate) job: Job<MockDevice>,
    pub(crate) stream: MockStream,
    /// No claim while the job is on the host, or could be.
    pub(crate) blocks: Vec<(Block, Option<Claim>)>,
    /// It is preemptible: its blocks are used while it runs.
    pub(crate) takes_turns: bool,
    pub(crate) running: bool,
    pub(crate) is_away: bool,
    pub(crate) iterations: u64,
}

impl Tenant {
    pub(crate) fn let_go(&mut self, device: &MockDevice) {
        for claim in self.blocks.iter_mut().filter_map(|(_, claim)| claim.take()) {
            device.disown(self.stream, claim).unwrap();
        }
    }

    /// Its iteration has begun.
    pub(crate) fn runs(&mut self, device: &MockDevice, owners: &mut u32) {
        self.running = true;
        if self.takes_turns {
            self.have(device, owners);
        }
    }

    pub(crate) fn ends(&mut self, device: &MockDevice) {
        if self.takes_turns {
            self.let_go(device);
        }
        self.job.end().unwrap();
        (self.running, self.iterations) = (false, self.iterations + 1);
    }

    /// Its iteration ends as the next one begins, or as that waits.
    pub(crate) fn ends_with_next(&mut self, device: &MockDevice, owners: &mut u32) {
        if self.takes_turns {
            self.let_go(device);
        }
        self.job.end_with_next().unwrap();
        (self.running, self.iterations) = (false, self.iterations + 1);
        self.begins(device, owners);
    }

    /// Asks to begin an iteration.
    pub(crate) fn begins(&mut self, device: &MockDevice, owners: &mut u32) {
        match self.job.begin(None) {
            Ok(Begin::Started) => self.runs(device, owners),
            Ok(Begin::Wait(_)) | Err(BeginError::NeverFits { .. } | BeginError::Broker(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn have(&mut self, device: &MockDevice, owners: &mut u32) {
        for (block, claim) in &mut self.blocks {
            *owners += 1;
            let (at, len) = (block.address(), block.bytes());
            *claim = Some(device.own(self.stream, *owners, at, len).unwrap());
        }
    }

    /// Goes to the host, if it can have a ticket.
    pub(crate) fn suspend(&mut self, device: &MockDevice, owners: &mut u32) {
        if self.is_away {
            return;
        }
        self.let_go(device);
        let gone = match self.takes_turns {
            true => self.job.suspend(),
            false => self.job.suspend_with(|block| at_random(block.address)),
        };
        match gone {
            Ok(bytes) => self.is_away = !bytes.is_zero(),
            // It may have asked to start.
            Err(
                SuspendError::NoTicket(_)
                | SuspendError::InIteration
                | SuspendError::Busy
                | SuspendError::Broker(_),
            ) => {}
            Err(error) => panic!("{error}"),
        }
        if !self.is_away {
            self.have(device, owners);
        }
    }

    /// Whether it is back.
    pub(crate) fn resume(&mut self, device: &MockDevice, owners: &mut u32) -> bool {
        match self.job.resume() {
            Ok(Resume::Done) => {
                self.is_away = false;
                self.have(device, owners);
                true
            }
            Ok(Resume::Wait) | Err(ResumeError::Broker(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn free(device: &MockDevice, tenant: &mut Tenant, at: usize) {
    let (block, claim) = tenant.blocks.swap_remove(at);
    claim.into_iter().for_each(|claim| device.disown(tenant.stream, claim).unwrap());
    tenant.job.free(block).unwrap();
}
