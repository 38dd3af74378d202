//! The common path of every call: the log, injected faults, and the lost context.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{Done, codes};

/// `cuInit` has been called.
static STARTED: AtomicBool = AtomicBool::new(false);
/// The code of the fault that has ended all contexts; 0 while there was none.
static LOST: AtomicU32 = AtomicU32::new(0);

static FAULTS: LazyLock<Mutex<Faults>> = LazyLock::new(|| Mutex::new(Faults::read()));
static LOG: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os("ZICO_DRIVER_LOG")?;
    OpenOptions::new().append(true).create(true).open(path).ok()
});

/// A number from the environment.
pub(crate) fn setting<T: FromStr>(name: &str, usual: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Runs a call that the driver has to have been started for.
pub(crate) fn call(name: &'static str, body: impl FnOnce() -> Done) -> u32 {
    call_early(name, || {
        if !STARTED.load(Ordering::Acquire) {
            return Err(codes::NOT_INITIALIZED);
        }
        lost().and_then(|()| body())
    })
}

/// Runs any call.
pub(crate) fn call_early(name: &'static str, body: impl FnOnce() -> Done) -> u32 {
    let fault = FAULTS.lock().unwrap_or_else(PoisonError::into_inner).strike(name);
    let code = fault.unwrap_or_else(|| body().err().unwrap_or(0));
    log(&format!("{name} {code}"));
    code
}

pub(crate) fn start() {
    STARTED.store(true, Ordering::Release);
}

/// Reports a fault of the device, which ends its contexts: every later call returns the same code.
pub(crate) fn lose(code: u32) {
    LOST.store(code, Ordering::Release);
}

/// The fault that has ended all contexts, if there was one.
pub(crate) fn lost() -> Done {
    match LOST.load(Ordering::Acquire) {
        0 => Ok(()),
        code => Err(code),
    }
}

pub(crate) fn log(line: &str) {
    if let Some(mut file) = LOG.as_ref() {
        // One write, so that lines of several threads do not mix. A test misses what is not there.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// Which calls are to fail.
struct Faults {
    rules: Vec<Rule>,
    counts: HashMap<&'static str, u64>,
}

struct Rule {
    name: String,
    nth: u64,
    /// All later ones as well.
    on: bool,
    code: u32,
}

impl Faults {
    fn read() -> Self {
        let text = std::env::var("ZICO_DRIVER_FAULTS").unwrap_or_default();
        let rules = text.split(',').filter(|rule| !rule.is_empty());
        let rules = rules.map(|rule| {
            // A test that misspells a rule has to notice.
            Rule::parse(rule).unwrap_or_else(|| {
                eprintln!("ZICO_DRIVER_FAULTS: {rule:?} is no rule");
                std::process::abort()
            })
        });
        Self { rules: rules.collect(), counts: HashMap::new() }
    }

    fn strike(&mut self, name: &'static str) -> Option<u32> {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let strikes = |rule: &&Rule| {
            rule.name == name && (rule.nth == *count || rule.on && rule.nth < *count)
        };
        self.rules.iter().find(strikes).map(|rule| rule.code)
    }
}

impl Rule {
    /// `cuMemMap:3=2` or `cuMemMap:3+=2`
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(':')?;
        let (nth, code) = rest.split_once('=')?;
        let (nth, on) = nth.strip_suffix('+').map_or((nth, false), |nth| (nth, true));
        Some(Self { name: name.to_owned(), nth: nth.parse().ok()?, on, code: code.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_strike_the_nth_call_or_all_from_it_on() {
        let rules = ["cuMemMap:2=7", "cuMemUnmap:2+=9"].map(|rule| Rule::parse(rule).unwrap());
        let mut faults = Faults { rules: rules.into(), counts: HashMap::new() };
        let mut three = |name| [(); 3].map(|()| faults.strike(name));
        assert_eq!(three("cuMemMap"), [None, Some(7), None]);
        assert_eq!(three("cuMemUnmap"), [None, Some(9), Some(9)]);
        assert_eq!(three("cuInit"), [None; 3]);
        assert!(Rule::parse("cuMemMap=2").is_none());
    }
}
