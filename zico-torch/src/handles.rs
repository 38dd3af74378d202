//! Handles: numbers that are never given out twice, so that a stale one is told from a live one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::status::{Failure, Status};
use crate::tenant::{Opened, Tenant};

/// Handles of one kind.
pub(crate) struct Handles<T: ?Sized> {
    what: &'static str,
    live: RwLock<HashMap<u64, Arc<T>>>,
}

/// One count for all kinds: no pool's handle is a job's.
static NEXT: AtomicU64 = AtomicU64::new(1);

static POOLS: LazyLock<Handles<dyn Opened>> = LazyLock::new(|| Handles::new("pool"));
static JOBS: LazyLock<Handles<dyn Tenant>> = LazyLock::new(|| Handles::new("job"));

/// The pools of this process.
pub(crate) fn pools() -> &'static Handles<dyn Opened> {
    &POOLS
}

/// The jobs of this process.
pub(crate) fn jobs() -> &'static Handles<dyn Tenant> {
    &JOBS
}

impl<T: ?Sized> Handles<T> {
    fn new(what: &'static str) -> Self {
        Self { what, live: RwLock::default() }
    }

    pub(crate) fn add(&self, value: Arc<T>) -> u64 {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(handle, value);
        handle
    }

    pub(crate) fn find(&self, handle: u64) -> Result<Arc<T>, Failure> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&handle).cloned().ok_or_else(|| self.none(handle))
    }

    pub(crate) fn remove(&self, handle: u64) -> Result<Arc<T>, Failure> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.remove(&handle).ok_or_else(|| self.none(handle))
    }

    fn none(&self, handle: u64) -> Failure {
        let next = NEXT.load(Ordering::Relaxed);
        let why = if handle == 0 || handle >= next { "never was" } else { "is not, or no longer" };
        let what = self.what;
        Failure::new(Status::ZicoBadHandle, format_args!("{handle} {why} a {what}"))
    }
}
