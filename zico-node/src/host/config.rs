//! How a host device is to be.

use zico_core::Bytes;

/// The unit of memory unless another is asked for. It is a whole number of pages on every system
/// (ARM has some with pages of 64 KiB), small enough for the waves of jobs of some megabytes, and
/// large enough that what a process may have of mappings (65,530) is 4 GiB even in regions of one
/// unit.
const GRANULARITY: Bytes = Bytes::kib(64);

/// How a [`HostDevice`](super::HostDevice) is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    granularity: Option<Bytes>,
    capacity: Option<Bytes>,
    host: Option<Bytes>,
}

impl HostConfig {
    /// All of the machine's memory in units of 64 KiB.
    #[must_use]
    pub const fn new() -> Self {
        Self { granularity: None, capacity: None, host: None }
    }

    /// Another unit of memory: a power of two, at least the kernel's page.
    #[must_use]
    pub const fn granularity(mut self, granularity: Bytes) -> Self {
        self.granularity = Some(granularity);
        self
    }

    /// Another capacity, rounded down to whole units. It may be more than the machine has: `create`
    /// says when there is no more. What a container's limit leaves is not looked at.
    #[must_use]
    pub const fn capacity(mut self, capacity: Bytes) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// How much memory the host tier has at most. Without it as much as the machine lets it have.
    #[must_use]
    pub const fn host(mut self, host: Bytes) -> Self {
        self.host = Some(host);
        self
    }

    /// The unit of memory.
    pub(super) fn unit(self) -> Bytes {
        self.granularity.unwrap_or(GRANULARITY)
    }

    /// The most memory of the host tier.
    pub(super) fn tier(self) -> Bytes {
        self.host.unwrap_or(Bytes::MAX)
    }

    /// The capacity, not rounded.
    pub(super) fn memory(self) -> Bytes {
        self.capacity.unwrap_or_else(machine_memory)
    }
}

/// The memory of the machine.
fn machine_memory() -> Bytes {
    let info = rustix::system::sysinfo();
    // Widths differ between systems.
    #[allow(clippy::useless_conversion, reason = "it is a u32 on some")]
    let total = u64::from(info.totalram);
    Bytes::new(total.saturating_mul(u64::from(info.mem_unit)))
}
