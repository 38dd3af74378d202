//! What the kernel says of host memory.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use zico_core::Bytes;

use super::pieces::NAME;

/// The bytes of host memory that the kernel has for the files that a process has open, each file
/// once: what a broker's regions take, counted by nobody who is party to it. Nothing of a process
/// that is not there, or is another user's.
#[must_use]
pub fn held_by_the_kernel(process: u32) -> Bytes {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return Bytes::ZERO };
    let (start, mut seen) = (format!("/memfd:{NAME} ("), HashSet::new());
    let blocks = descriptors.flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        if !target.to_string_lossy().starts_with(&start) {
            return None;
        }
        // A descriptor that is being sent is a second one of its region.
        let file = fs::metadata(entry.path()).ok()?;
        seen.insert(file.ino()).then(|| file.blocks())
    });
    Bytes::new(blocks.sum::<u64>().saturating_mul(512))
}
