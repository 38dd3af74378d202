//! Live blocks by their addresses: C knows a block by nothing else.
//!
//! One table for the process, in parts with a lock each, so that threads of different jobs seldom
//! meet.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use zico_core::Block;
use zico_node::host::Backing;

use crate::tenant::Tenant;

/// A block, and the job that has it.
pub(crate) struct Owned {
    pub(crate) tenant: Arc<dyn Tenant>,
    pub(crate) block: Block,
}

const PARTS: usize = 16;

pub(crate) struct Blocks {
    parts: [Mutex<HashMap<u64, Owned>>; PARTS],
}

static BLOCKS: LazyLock<Blocks> =
    LazyLock::new(|| Blocks { parts: std::array::from_fn(|_| Mutex::default()) });

/// The blocks of this process.
pub(crate) fn blocks() -> &'static Blocks {
    &BLOCKS
}

impl Blocks {
    /// The part for an address. Blocks are 512 bytes apart at least, large ones by powers of two:
    /// the multiplier spreads both (Knuth, The Art of Computer Programming 3, section 6.4).
    fn part(&self, address: u64) -> MutexGuard<'_, HashMap<u64, Owned>> {
        let spread = (address >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        let part = &self.parts[spread as usize % PARTS];
        // A map is whole between two calls of it, and no panic happens within one.
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, tenant: Arc<dyn Tenant>, block: Block) {
        let address = block.address().value();
        self.part(address).insert(address, Owned { tenant, block });
    }

    /// Takes the block out that begins at an address. Whoever gets it frees it, nobody else.
    pub(crate) fn remove(&self, address: u64) -> Option<Owned> {
        self.part(address).remove(&address)
    }

    /// The block that begins at an address.
    pub(crate) fn find(&self, address: u64) -> Option<Owned> {
        let part = self.part(address);
        let Owned { tenant, block } = part.get(&address)?;
        Some(Owned { tenant: tenant.clone(), block: *block })
    }

    /// All blocks and what is behind them, by address. O(blocks log blocks).
    pub(crate) fn backing(&self) -> (Vec<(u64, u64)>, Vec<Backing>) {
        let (mut starts, mut backing) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            for (&address, Owned { tenant, block }) in &*part {
                starts.push((address, block.bytes().value()));
                backing.extend(tenant.backing(*block));
            }
        }
        starts.sort_unstable();
        backing.sort_unstable_by_key(|backing| backing.at);
        (starts, backing)
    }

    /// Forgets all blocks of a job that leaves. O(blocks).
    pub(crate) fn forget(&self, tenant: &Arc<dyn Tenant>) {
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.retain(|_, owned| !Arc::ptr_eq(&owned.tenant, tenant));
        }
    }
}
