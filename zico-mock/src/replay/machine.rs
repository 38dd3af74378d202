//! The parameters of the simulated host and device.

use zico_core::Ticks;

use crate::{Calls, Operation, Utilisation};

/// The parameters of the simulated host and device.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The length of a launch on the device over its recorded length.
    pub time_scale: f64,
    /// What a launch costs the host.
    pub dispatch: Ticks,
    /// The time that memory calls take on the host.
    pub memory_calls: MemoryCallCosts,
    /// How many launches of a job may be enqueued and not finished.
    pub run_ahead: u64,
    /// How much of the device one launch takes up while it runs.
    pub utilisation: Utilisation,
    /// Each launch's length is off by up to this share of it, at random ...
    pub jitter: f64,
    /// ... from this seed.
    pub seed: u64,
}

impl Default for Machine {
    /// 1/50 of the recorded CPU time, 5 us to dispatch, 64 launches ahead, a utilisation of 0.6,
    /// lengths off by up to 5%.
    fn default() -> Self {
        Self {
            time_scale: 0.02,
            dispatch: Ticks::micros(5),
            memory_calls: MemoryCallCosts::default(),
            run_ahead: 64,
            utilisation: Utilisation::new(600).unwrap_or(Utilisation::FULL),
            jitter: 0.05,
            seed: 1,
        }
    }
}

/// The time that calls which change the device's memory take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCallCosts {
    /// Physical memory is created,
    pub create: Ticks,
    /// destroyed,
    pub destroy: Ticks,
    /// made accessible at new addresses,
    pub map: Ticks,
    /// for each of its pieces,
    pub piece: Ticks,
    /// unmapped.
    pub unmap: Ticks,
}

impl MemoryCallCosts {
    /// They cost nothing.
    pub const NONE: Self = Self {
        create: Ticks::ZERO,
        destroy: Ticks::ZERO,
        map: Ticks::ZERO,
        piece: Ticks::ZERO,
        unmap: Ticks::ZERO,
    };

    /// The cost of these calls, with the number of pieces mapped.
    pub(super) fn of(&self, calls: &Calls, pieces: u64) -> Ticks {
        let costs = [
            (calls.of(Operation::Create), self.create),
            (calls.of(Operation::Destroy), self.destroy),
            (calls.of(Operation::Map), self.map),
            (pieces, self.piece),
            (calls.of(Operation::Unmap), self.unmap),
        ];
        Ticks::new(costs.into_iter().map(|(count, each)| count * each.value()).sum())
    }
}

impl Default for MemoryCallCosts {
    /// What CUDA's driver takes for 2 MiB on an A100, as measured by Prabhu et al., "vAttention"
    /// (ASPLOS 2025), Table 3.
    fn default() -> Self {
        let [create, destroy, map, piece, unmap] = [29, 23, 38, 2, 34].map(Ticks::micros);
        Self { create, destroy, map, piece, unmap }
    }
}

impl Machine {
    /// The length on the device of a launch that was recorded with length `recorded`, and is `off`
    /// times as long as usual.
    #[must_use]
    pub fn scaled(&self, recorded: Ticks, off: f64) -> Ticks {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates"
        )]
        Ticks::new((recorded.value() as f64 * self.time_scale * off).round() as u64)
    }
}
