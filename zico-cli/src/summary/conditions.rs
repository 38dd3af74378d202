//! The parameters of the simulated device, as they stand in JSON and in a sentence.

use std::fmt;

use serde::Serialize;
use zico_mock::replay::{Machine, MemoryCallCosts};

use crate::size::ticks;

/// The parameters of the simulated host and device.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    time_scale: f64,
    utilisation: f64,
    dispatch_seconds: f64,
    /// Whether creating, mapping and unmapping memory takes the host no time.
    free_memory_calls: bool,
    run_ahead: u64,
    jitter: f64,
    seed: u64,
}

impl From<&Machine> for Conditions {
    fn from(machine: &Machine) -> Self {
        Self {
            time_scale: machine.time_scale,
            utilisation: f64::from(machine.utilisation.permille()) / 1000.0,
            dispatch_seconds: machine.dispatch.seconds(),
            free_memory_calls: machine.memory_calls == MemoryCallCosts::NONE,
            run_ahead: machine.run_ahead,
            jitter: machine.jitter,
            seed: machine.seed,
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recorded times x {}, a launch keeps {:.0}% of the device busy (an assumption that the \
             throughput depends on), {} to dispatch, {}{} launches ahead, lengths +-{:.0}%, seed {}",
            self.time_scale,
            self.utilisation * 100.0,
            ticks(self.dispatch_seconds),
            if self.free_memory_calls { "memory calls free, " } else { "" },
            self.run_ahead,
            self.jitter * 100.0,
            self.seed,
        )
    }
}
