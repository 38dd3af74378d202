//! Runs that a seed decides: how one fails, and many of them on several threads.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A run that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure<K> {
    /// Which.
    pub kind: K,
    /// The description.
    pub text: String,
}

impl<K: fmt::Debug> fmt::Display for Failure<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// Does `run`; a panic is a failure of this kind.
///
/// # Errors
/// As `run`, or if it panics.
pub fn caught<T, K>(
    panics: K,
    run: impl FnOnce() -> Result<T, Failure<K>>,
) -> Result<T, Failure<K>> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(Failure { kind: panics, text: text_of(&*panic) }))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_default()
}

/// Does `work` with so many seeds from the first on, on so many threads, until it says that this is
/// enough. `state` is what standard error shows beside how far it is. The number of seeds taken.
pub fn each(
    (from, count): (u64, u64),
    threads: u64,
    work: impl Fn(u64) -> bool + Sync,
    state: impl Fn() -> String,
) -> u64 {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let taken = || next.load(Ordering::Relaxed).min(count);
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            if work(from.wrapping_add(at)) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut last = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            if last.elapsed() > Duration::from_secs(2) {
                last = Instant::now();
                let rate = taken() as f64 / began.elapsed().as_secs_f64();
                eprint!("\r{} of {count} seeds, {rate:.0}/s{} ", taken(), state());
            }
        }
    });
    taken()
}
