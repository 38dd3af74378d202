//! How many connections this process has to each broker, by its socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static LINKS: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());

/// One more.
pub(super) fn add(socket: &Path) {
    let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
    *links.entry(socket.to_owned()).or_default() += 1;
}

/// One less.
pub(super) fn remove(socket: &Path) {
    let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = links.get_mut(socket) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            links.remove(socket);
        }
    }
}

/// How many there are.
pub(super) fn of(socket: &Path) -> u32 {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner).get(socket).copied().unwrap_or(0)
}
