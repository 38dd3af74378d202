//! The device's handles by number, so that the ledger needs none of them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use crate::heap::JobHeap;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::host::HostMemory;
use crate::types::sync::{Arc, Mutex};
use crate::types::units::Bytes;
use crate::types::zone::Zone;

/// Memories by region; and for each job its stream, its ranges, its events and its heap.
///
/// Behind a lock of its own, which is held for a look and never while another one is taken.
pub(crate) struct Handles<D: Device> {
    memories: Vec<Option<Arc<D::Memory>>>,
    jobs: BTreeMap<JobKey, JobHandles<D>>,
    /// Ranges that were reserved for jobs which could not join.
    unused: Vec<D::Range>,
    /// Memory that is no region's any more.
    unused_memory: Vec<D::Memory>,
    /// Host memory that is to go.
    used_host: Vec<UsedHost<D>>,
    /// Host memory that is kept for the next copies.
    spare_host: Vec<HostMemory>,
}

/// A job's heap, which its handle and the executor have in common.
pub(super) type SharedHeap<D> = Arc<Mutex<JobHeap<D>>>;

/// What belongs to one job.
pub(crate) struct JobHandles<D: Device> {
    stream: D::Stream,
    /// Other streams that use what a job that has left has given up. Its own stream waits for them
    /// before each fence, since threads may record its fences in any order.
    joins: Vec<D::Stream>,
    /// Of each arena, by zone; none once it has been released.
    ranges: Vec<Option<Arc<D::Range>>>,
    /// The fences of its batches that are not known to have completed, the oldest first.
    events: VecDeque<(u64, Arc<D::Event>)>,
    heap: SharedHeap<D>,
    /// What it has on the host.
    copies: Vec<HostCopy>,
}

/// Pages that lie side by side and are not on the device, and their contents on the host. None if
/// these were not to be copied.
pub(super) struct HostCopy {
    pub(super) zone: Zone,
    pub(super) pages: Range<u64>,
    pub(super) memory: Option<HostMemory>,
}

/// Host memory that goes when the device has passed what uses it.
pub(super) struct UsedHost<D: Device> {
    pub(super) memories: Vec<HostMemory>,
    pub(super) stream: D::Stream,
    /// After the last use; none until it could be recorded.
    pub(super) event: Option<D::Event>,
}

impl<D: Device> JobHandles<D> {
    /// Of a job that joins.
    pub(crate) fn new(stream: D::Stream, ranges: Vec<D::Range>, heap: SharedHeap<D>) -> Self {
        let ranges = ranges.into_iter().map(|range| Some(Arc::new(range))).collect();
        let (joins, events, copies) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { stream, joins, ranges, events, heap, copies }
    }
}

impl<D: Device> Handles<D> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            memories: Vec::new(),
            jobs: BTreeMap::new(),
            unused: Vec::new(),
            unused_memory: Vec::new(),
            used_host: Vec::new(),
            spare_host: Vec::new(),
        }
    }

    /// A job joins.
    pub(crate) fn join(&mut self, job: JobKey, handles: JobHandles<D>) {
        self.jobs.insert(job, handles);
    }

    /// The ranges of a job that could not join: to be released.
    pub(crate) fn turn_away(&mut self, job: JobKey) {
        let ranges = self.jobs.remove(&job).map(|handles| handles.ranges);
        let ranges = ranges.into_iter().flatten().flatten();
        self.unused.extend(ranges.filter_map(Arc::into_inner));
    }

    /// Ranges that nobody uses: to be released.
    pub(crate) fn put_unused(&mut self, ranges: impl IntoIterator<Item = D::Range>) {
        self.unused.extend(ranges);
    }

    /// All of them.
    pub(super) fn take_unused(&mut self) -> Vec<D::Range> {
        core::mem::take(&mut self.unused)
    }

    /// The same of memory.
    pub(super) fn put_unused_memory(&mut self, memory: D::Memory) {
        self.unused_memory.push(memory);
    }

    pub(super) fn take_unused_memory(&mut self) -> Vec<D::Memory> {
        core::mem::take(&mut self.unused_memory)
    }

    /// A job's stream and its heap.
    pub(crate) fn heap(&self, job: JobKey) -> Option<(D::Stream, SharedHeap<D>)> {
        let handles = self.jobs.get(&job)?;
        Some((handles.stream, handles.heap.clone()))
    }

    /// Those of all jobs.
    pub(super) fn heaps(&self) -> Vec<(JobKey, D::Stream, SharedHeap<D>)> {
        let jobs = self.jobs.iter();
        jobs.map(|(&job, handles)| (job, handles.stream, handles.heap.clone())).collect()
    }

    /// A job's stream, and those that it has to wait for before a fence.
    pub(crate) fn streams(&self, job: JobKey) -> Option<(D::Stream, Vec<D::Stream>)> {
        let handles = self.jobs.get(&job)?;
        Some((handles.stream, handles.joins.clone()))
    }

    /// A job leaves whose memory these streams use as well.
    pub(super) fn join_streams(&mut self, job: JobKey, streams: Vec<D::Stream>) {
        if let Some(handles) = self.jobs.get_mut(&job) {
            handles.joins.extend(streams);
        }
    }

    /// A batch has been fenced by an event.
    pub(super) fn put_event(&mut self, job: JobKey, batch: u64, event: D::Event) {
        let Some(handles) = self.jobs.get_mut(&job) else { return };
        // Another thread may have fenced a later one meanwhile.
        let at = handles.events.partition_point(|&(other, _)| other < batch);
        handles.events.insert(at, (batch, Arc::new(event)));
    }

    /// The oldest fence of a job that is not known to have completed: its batch and its event.
    pub(super) fn oldest_event(&self, job: JobKey) -> Option<(u64, Arc<D::Event>)> {
        self.jobs.get(&job)?.events.front().cloned()
    }

    /// The fence of a batch has completed. Its event, which is the device's to drop: without a
    /// lock.
    pub(super) fn take_event(&mut self, job: JobKey, batch: u64) -> Option<Arc<D::Event>> {
        let events = &mut self.jobs.get_mut(&job)?.events;
        let at = events.iter().position(|&(other, _)| other == batch)?;
        events.remove(at).map(|(_, event)| event)
    }

    /// The range of an arena, unless it has been released.
    pub(crate) fn range(&self, job: JobKey, zone: Zone) -> Option<Arc<D::Range>> {
        self.jobs.get(&job)?.ranges.get(zone.index())?.clone()
    }

    /// Whether the range of an arena has not been released.
    pub(super) fn has_range(&self, job: JobKey, zone: Zone) -> bool {
        let ranges = self.jobs.get(&job).map(|handles| &handles.ranges);
        ranges.and_then(|ranges| ranges.get(zone.index())).is_some_and(Option::is_some)
    }

    /// Takes the range of a job that has left, if nobody else uses it just now. With the last one
    /// goes all that is known of the job.
    pub(super) fn take_range(&mut self, job: JobKey, zone: Zone) -> Option<D::Range> {
        let handles = self.jobs.get_mut(&job)?;
        let slot = handles.ranges.get_mut(zone.index())?;
        match Arc::try_unwrap(slot.take()?) {
            Ok(range) => Some(range),
            Err(used) => {
                *slot = Some(used);
                None
            }
        }
    }

    /// The device has refused to release a range.
    pub(super) fn put_range(&mut self, job: JobKey, zone: Zone, range: D::Range) {
        if let Some(handles) = self.jobs.get_mut(&job) {
            handles.ranges[zone.index()] = Some(Arc::new(range));
        }
    }

    /// Forgets a job that has no range any more. Its handles, to be dropped without a lock.
    pub(crate) fn forget(&mut self, job: JobKey) -> Option<JobHandles<D>> {
        let is_over = self.jobs.get(&job)?.ranges.iter().all(Option::is_none);
        if is_over { self.jobs.remove(&job) } else { None }
    }

    /// Notes what a job has on the host.
    pub(super) fn put_copies(&mut self, job: JobKey, copies: impl IntoIterator<Item = HostCopy>) {
        if let Some(handles) = self.jobs.get_mut(&job) {
            handles.copies.extend(copies);
        }
    }

    /// One piece of what a job has on the host, if anything is left.
    pub(super) fn take_copy(&mut self, job: JobKey) -> Option<HostCopy> {
        self.jobs.get_mut(&job)?.copies.pop()
    }

    /// All of it.
    pub(super) fn take_copies(&mut self, job: JobKey) -> Vec<HostCopy> {
        self.jobs
            .get_mut(&job)
            .map(|handles| core::mem::take(&mut handles.copies))
            .unwrap_or_default()
    }

    /// Spare host memory of this length, if there is some.
    pub(super) fn take_spare_host(&mut self, len: Bytes) -> Option<HostMemory> {
        let at = self.spare_host.iter().position(|memory| memory.len() == len)?;
        Some(self.spare_host.swap_remove(at))
    }

    /// Any of it.
    pub(super) fn pop_spare_host(&mut self) -> Option<HostMemory> {
        self.spare_host.pop()
    }

    /// Keeps host memory, if no more than `most` is spare with it. Else it is the caller's.
    pub(super) fn put_spare_host(&mut self, memory: HostMemory, most: Bytes) -> Option<HostMemory> {
        let spare = self.spare_host.iter().map(HostMemory::len);
        if spare.fold(memory.len(), Bytes::saturating_add) > most {
            return Some(memory);
        }
        self.spare_host.push(memory);
        None
    }

    pub(super) fn put_used_host(&mut self, used: impl IntoIterator<Item = UsedHost<D>>) {
        self.used_host.extend(used);
    }

    pub(super) fn take_used_host(&mut self) -> Vec<UsedHost<D>> {
        core::mem::take(&mut self.used_host)
    }

    /// The memory of a region, once it has some.
    pub(crate) fn memory(&self, region: usize) -> Option<Arc<D::Memory>> {
        self.memories.get(region)?.clone()
    }

    /// The regions of whose memory there is a handle.
    pub(super) fn imported(&self) -> Vec<usize> {
        let memories = self.memories.iter().enumerate();
        memories.filter(|(_, memory)| memory.is_some()).map(|(region, _)| region).collect()
    }

    /// The device has memory for a region.
    pub(super) fn put_memory(&mut self, region: usize, memory: Arc<D::Memory>) {
        if region >= self.memories.len() {
            self.memories.resize_with(region + 1, || None);
        }
        self.memories[region] = Some(memory);
    }

    /// Takes the memory of a region that is out of use.
    pub(super) fn take_memory(&mut self, region: usize) -> Option<Arc<D::Memory>> {
        self.memories.get_mut(region)?.take()
    }
}
