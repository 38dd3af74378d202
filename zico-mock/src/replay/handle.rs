//! A job of a replay at its pool.

use zico_core::{AllocError, AutoJob, Block, FreeError, Job, Request};

use crate::{MockDevice, MockError};

/// A job's handle: it marks its iterations, or they are detected.
pub(super) enum Handle {
    Marks(Job<MockDevice>),
    Detected(AutoJob<MockDevice>),
}

impl Handle {
    pub(super) fn new(job: Job<MockDevice>, detect: bool) -> Self {
        if detect { Self::Detected(AutoJob::new(job)) } else { Self::Marks(job) }
    }

    pub(super) const fn job(&self) -> &Job<MockDevice> {
        match self {
            Self::Marks(job) => job,
            Self::Detected(auto) => auto.job(),
        }
    }

    pub(super) fn alloc(&self, request: Request) -> Result<Block, AllocError<MockError>> {
        match self {
            Self::Marks(job) => job.alloc(request),
            Self::Detected(auto) => auto.alloc(request),
        }
    }

    pub(super) fn free(&self, block: Block) -> Result<(), FreeError> {
        match self {
            Self::Marks(job) => job.free(block),
            Self::Detected(auto) => auto.free(block),
        }
    }
}
