//! Mappings that are made and taken away.

use rustix::io::Errno;
use zico_core::{Addr, Bytes};

use super::addresses;
use super::device::HostMemory;
use super::error::HostError;
use super::registry::{Place, Registry};

/// The places of pieces of memory side by side, where nothing is mapped.
pub(super) fn vacant(
    registry: &mut Registry,
    base: u64,
    at: Bytes,
    memory: &[&HostMemory],
) -> Result<Vec<Place>, HostError> {
    let mut places = Vec::with_capacity(memory.len());
    let mut end = at;
    for piece in memory {
        let len = Bytes::new(registry.len_of(piece.key)?);
        let place = registry.place(base, end, len)?;
        while let Some((found, mapping)) = registry.last_within(place) {
            if !mapping.left_over {
                return Err(HostError::Occupied { mapped: Addr::new(found.start) });
            }
            take_away(registry, found)?;
        }
        places.push(place);
        end = end.saturating_add(len);
    }
    Ok(places)
}

/// Takes whole mappings away.
pub(super) fn take_away(registry: &mut Registry, place: Place) -> Result<(), HostError> {
    addresses::unmap(place.start, place.len).map_err(|error| no_mapping(error, registry))?;
    registry.unmapped(place);
    Ok(())
}

/// Why the kernel did not change a mapping.
pub(super) fn no_mapping(error: Errno, registry: &Registry) -> HostError {
    match error {
        Errno::NOMEM => HostError::TooManyMappings { mappings: registry.mappings() },
        error => HostError::Kernel { call: "mmap", error },
    }
}
