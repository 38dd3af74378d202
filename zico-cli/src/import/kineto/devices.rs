//! The choice of one device in a profile of several.

use std::collections::BTreeMap;

use super::KinetoError;
use super::events::Located;
use super::totals::Total;
use crate::import::before::Device;
use crate::import::recording::Memory;

/// The memory events that are used.
pub(super) struct OneDevice {
    pub(super) device: Device,
    /// Other accelerators.
    pub(super) others: Vec<Device>,
    /// Those of the device, in order of time.
    pub(super) events: Vec<(Memory, Total)>,
}

const CPU: i32 = 0;

/// Of the accelerators the one with this number, or the one that allocates the most; the CPU if
/// there is none.
pub(super) fn one(memory: Vec<Located>, index: Option<u32>) -> Result<OneDevice, KinetoError> {
    let allocated = allocated(&memory);
    let is_it = |&(_, id): &(i32, i32)| index.is_none_or(|index| i64::from(id) == i64::from(index));
    let candidates = allocated.iter().filter(|(device, _)| is_it(device));
    // Of several that have allocated the same, the first.
    let most = candidates.rev().max_by_key(|(_, bytes)| **bytes).map(|(&device, _)| device);
    if let (Some(index), None, false) = (index, most, memory.is_empty()) {
        let cpu = memory.iter().any(|((kind, _), _)| *kind == CPU).then_some(Device::Cpu);
        let there = allocated.keys().map(named).chain(cpu).collect();
        return Err(KinetoError::NoSuchDevice { index, there });
    }
    // Different numbers of the CPU are one.
    let counts = |of: (i32, i32)| most.is_none_or(|device| device == of);
    let mut events: Vec<(Memory, Total)> =
        memory.into_iter().filter(|&(of, _)| counts(of)).map(|(_, event)| event).collect();
    if events.is_empty() {
        return Err(KinetoError::NoMemory);
    }
    events.sort_by_key(|(event, _)| event.at);
    let others = allocated.keys().filter(|&&device| Some(device) != most).map(named).collect();
    Ok(OneDevice { device: most.as_ref().map_or(Device::Cpu, named), others, events })
}

/// What each accelerator allocates in all.
fn allocated(memory: &[Located]) -> BTreeMap<(i32, i32), u64> {
    let mut allocated: BTreeMap<(i32, i32), u64> = BTreeMap::new();
    for &(device, (event, _)) in memory.iter().filter(|((kind, _), _)| *kind != CPU) {
        let bytes = allocated.entry(device).or_default();
        *bytes = bytes.saturating_add(u64::try_from(event.bytes).unwrap_or(0));
    }
    allocated
}

fn named(&(kind, index): &(i32, i32)) -> Device {
    Device::Accelerator { kind, index }
}
