//! The threads of a profile, by number.

use std::collections::HashMap;

use super::{KinetoError, LONGEST_ID, MAX_THREADS};

/// Numbers of threads, in the order in which they come.
#[derive(Default)]
pub(super) struct Threads(HashMap<String, u32>);

impl Threads {
    /// The number of a thread, of which `record` says this.
    pub(super) fn number(&mut self, record: u32, pid: &str, tid: &str) -> Result<u32, KinetoError> {
        for (field, id) in [("pid", pid), ("tid", tid)] {
            if id.len() > LONGEST_ID {
                return Err(KinetoError::LongId { record, field, length: id.len() });
            }
        }
        // Either may be a number or a text; as they stand in the file, the two cannot be confused.
        let key = format!("{pid} {tid}");
        if let Some(&number) = self.0.get(&key) {
            return Ok(number);
        }
        let next = u32::try_from(self.0.len()).ok().filter(|_| self.0.len() < MAX_THREADS);
        let next = next.ok_or(KinetoError::TooManyThreads { record })?;
        self.0.insert(key, next);
        Ok(next)
    }
}
