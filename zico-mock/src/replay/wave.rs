//! Memory held by each job over time, in a bounded number of samples that keep every peak.

use zico_core::{Bytes, Ticks};

/// The most samples of a wave.
const SAMPLES: usize = 1024;

/// What was held in one stretch of time, at the moment when the sum was largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the stretch begins.
    pub at: Ticks,
    /// What each job held at the moment of the largest sum.
    pub held: Vec<Bytes>,
}

impl Sample {
    fn sum(&self) -> u64 {
        self.held.iter().map(|held| held.value()).sum()
    }
}

/// What the jobs held over time. Time is cut into equal stretches, which double in length whenever
/// there would be too many of them.
#[derive(Clone, Debug)]
pub struct Wave {
    samples: Vec<Sample>,
    stretch: u64,
}

impl Wave {
    pub(super) fn new() -> Self {
        Self { samples: Vec::new(), stretch: 1 << 10 }
    }

    /// The samples, in order of time. A stretch in which nothing changed has none.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn note(&mut self, now: Ticks, held: impl Iterator<Item = Bytes>) {
        let at = Ticks::new(now.value() / self.stretch * self.stretch);
        let sample = Sample { at, held: held.collect() };
        match self.samples.last_mut() {
            Some(last) if last.at == at => {
                if sample.sum() > last.sum() {
                    *last = sample;
                }
            }
            Some(last) if last.held == sample.held => {}
            _ => self.samples.push(sample),
        }
        while self.samples.len() > SAMPLES {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.stretch *= 2;
        let mut halved: Vec<Sample> = Vec::with_capacity(SAMPLES);
        for mut sample in self.samples.drain(..) {
            sample.at = Ticks::new(sample.at.value() / self.stretch * self.stretch);
            match halved.last_mut() {
                Some(last) if last.at == sample.at => {
                    if sample.sum() > last.sum() {
                        *last = sample;
                    }
                }
                _ => halved.push(sample),
            }
        }
        self.samples = halved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_survives_however_many_samples_there_are() {
        let mut wave = Wave::new();
        for t in 0..2_000_000u64 {
            let held = if t == 1_234_567 { 1_000 } else { t % 7 };
            wave.note(Ticks::new(t * 100), [Bytes::new(held), Bytes::new(3)].into_iter());
        }
        assert!(wave.samples().len() <= SAMPLES);
        let peak = wave.samples().iter().max_by_key(|sample| sample.sum()).map(|s| s.held.clone());
        assert_eq!(peak, Some(vec![Bytes::new(1_000), Bytes::new(3)]));
        assert!(wave.samples().is_sorted_by_key(|sample| sample.at));
    }
}
