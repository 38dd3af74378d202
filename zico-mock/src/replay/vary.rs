//! Variations of recorded jobs: iterations with more or less memory and time than recorded.

use std::collections::HashMap;

use zico_core::{Bytes, Lifetime, Ticks};

use super::program::{Op, Program};
use crate::trace::{BlockId, Iteration, Step, Trace, TraceError};

/// As many iterations as there are factors, one after the other as a replay plays them: the
/// recorded ones, and from the last one again the second. Each block of an iteration that does not
/// persist takes as many times its recorded bytes as the iteration's factor says, and each launch
/// as many times its recorded time: as a batch or a sequence of another length would.
///
/// # Errors
/// If the factors make no trace: there are none, or they are so large that the bytes of all blocks
/// cannot be summed up. A factor below zero counts as zero; no block has less than one byte.
///
/// ```
/// use zico_mock::{bundled, replay::varied};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = bundled::open("dlrm")?;
/// let growing = varied(&trace, &[1.0, 1.0, 1.0, 1.3])?;
/// let peaks = growing.stats().iterations;
/// assert!(peaks[3].peak > peaks[2].peak);
/// # Ok(())
/// # }
/// ```
pub fn varied(trace: &Trace, factors: &[f64]) -> Result<Trace, TraceError> {
    let mut program = Program::new(trace);
    let mut unrolled = Unrolled::default();
    let mut factors = factors.iter();
    while !factors.as_slice().is_empty() {
        match program.next() {
            Op::Begin { .. } => unrolled.begin(),
            Op::Step(step) => unrolled.step(step, factors.as_slice()[0]),
            Op::End => {
                factors.next();
            }
        }
    }
    let Unrolled { setup, iterations, .. } = unrolled;
    let iterations = iterations.into_iter().map(|(steps, work)| Iteration::new(steps, work));
    let (name, provenance) = (trace.name().to_owned(), trace.provenance().to_owned());
    Trace::new(name, provenance, setup, iterations.collect())
}

/// Iterations that are written out one after the other.
#[derive(Default)]
struct Unrolled {
    setup: Vec<Step>,
    /// With the work of each.
    iterations: Vec<(Vec<Step>, Ticks)>,
    /// What a recorded block is called this time.
    names: HashMap<BlockId, BlockId>,
    blocks: u32,
}

impl Unrolled {
    fn begin(&mut self) {
        self.iterations.push((Vec::new(), Ticks::ZERO));
    }

    fn step(&mut self, step: Step, factor: f64) {
        let renamed = match step {
            Step::Alloc { block, bytes, lifetime } => {
                let name = BlockId::new(self.blocks);
                self.blocks = self.blocks.saturating_add(1);
                self.names.insert(block, name);
                let in_setup = self.iterations.is_empty();
                let kept = in_setup || lifetime == Lifetime::Persistent;
                let size = if kept { bytes.value() } else { times(bytes.value(), factor) };
                Step::Alloc { block: name, bytes: Bytes::new(size.max(1)), lifetime }
            }
            Step::Free { block } => {
                Step::Free { block: self.names.get(&block).copied().unwrap_or(block) }
            }
            Step::Launch { work } => Step::Launch { work: Ticks::new(times(work.value(), factor)) },
            Step::Use { block, stream } => {
                Step::Use { block: self.names.get(&block).copied().unwrap_or(block), stream }
            }
            phase @ Step::Phase(_) => phase,
        };
        match self.iterations.last_mut() {
            Some((steps, total)) => {
                if let Step::Launch { work } = renamed {
                    *total = total.saturating_add(work);
                }
                steps.push(renamed);
            }
            None => self.setup.push(renamed),
        }
    }
}

fn times(value: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    let scaled = (value as f64 * factor).round() as u64;
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::bundled;

    #[test]
    fn iterations_repeat_as_recorded_and_take_what_their_factors_say() {
        for name in bundled::names() {
            let trace = bundled::open(name).unwrap();
            let (again, recorded) = (varied(&trace, &[1.0; 5]).unwrap(), trace.stats().iterations);
            let stats = again.stats().iterations;
            assert_eq!((stats.len(), again.setup()), (5, trace.setup()), "{name}");
            for (i, stats) in stats.iter().enumerate() {
                let same = &recorded[[0, 1, 2, 1, 2][i]];
                assert_eq!((stats.peak, stats.work), (same.peak, same.work), "{name} {i}");
            }
            let more = &varied(&trace, &[1.0, 1.0, 1.0, 1.3]).unwrap().stats().iterations[3];
            let kept = stats[3].persistent_at_start;
            let wave = |peak: Bytes| peak.saturating_sub(kept).value() as f64;
            let grown = wave(more.peak) / wave(stats[3].peak);
            assert!((grown - 1.3).abs() < 0.01, "{name}: {grown}");
        }
        assert!(varied(&bundled::open("dlrm").unwrap(), &[]).is_err());
    }
}
