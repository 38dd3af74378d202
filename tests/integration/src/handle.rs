//! A job's handle, whether the job marks its iterations or has them detected.

use std::ops::Deref;

use zico_core::{AllocError, AutoJob, Block, Device, FreeError, Job, Request};

/// Allocates and frees as its job does; all else is the job's.
pub enum Handle<D: Device> {
    /// It marks them.
    Marks(Job<D>),
    /// They are detected.
    Detected(AutoJob<D>),
}

impl<D: Device> Handle<D> {
    /// Of a job whose iterations are detected, or not.
    pub fn new(job: Job<D>, detect: bool) -> Self {
        if detect { Self::Detected(AutoJob::new(job)) } else { Self::Marks(job) }
    }

    /// As [`Job::alloc`].
    ///
    /// # Errors
    /// As that.
    pub fn alloc(&self, request: Request) -> Result<Block, AllocError<D::Error>> {
        match self {
            Self::Marks(job) => job.alloc(request),
            Self::Detected(auto) => auto.alloc(request),
        }
    }

    /// As [`Job::free`].
    ///
    /// # Errors
    /// As that.
    pub fn free(&self, block: Block) -> Result<(), FreeError> {
        match self {
            Self::Marks(job) => job.free(block),
            Self::Detected(auto) => auto.free(block),
        }
    }
}

impl<D: Device> Deref for Handle<D> {
    type Target = Job<D>;

    fn deref(&self) -> &Job<D> {
        match self {
            Self::Marks(job) => job,
            Self::Detected(auto) => auto.job(),
        }
    }
}
