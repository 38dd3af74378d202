//! What the kernel says of host memory.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use zico_core::Bytes;

use super::pieces::NAME;

/// The bytes of host memory that the kernel has for the files that a process has open, each file
/// once: what a broker's regions take, counted by nobody who is party to it. Nothing of a process
/// that is not there, or is another user's.
///
/// The process goes on meanwhile. What is counted was all there at one moment; what came or went
/// about then is not.
#[must_use]
pub fn held_by_the_kernel(process: u32) -> Bytes {
    let before = files(process);
    Bytes::new(in_both(&before, &files(process)))
}

/// The files, by inode, and the bytes of each, seen one after the other.
fn files(process: u32) -> HashMap<u64, u64> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return HashMap::new();
    };
    let start = format!("/memfd:{NAME} (");
    let files = descriptors.flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        if !target.to_string_lossy().starts_with(&start) {
            return None;
        }
        // A descriptor that is being sent is a second one of its region.
        let file = fs::metadata(entry.path()).ok()?;
        Some((file.ino(), file.blocks().saturating_mul(512)))
    });
    files.collect()
}

/// The bytes of those that were seen before and since: they were there in between.
fn in_both(before: &HashMap<u64, u64>, since: &HashMap<u64, u64>) -> u64 {
    let bytes = |(inode, &bytes): (&u64, &u64)| bytes.min(*since.get(inode).unwrap_or(&0));
    before.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One was given up and another made in its place while they were looked at.
    #[test]
    fn what_comes_and_goes_meanwhile_is_not_counted_together() {
        let (before, since) = ([(1, 8), (2, 8), (3, 8)], [(2, 8), (3, 4), (4, 8)]);
        assert_eq!(in_both(&before.into(), &since.into()), 12);
    }
}
