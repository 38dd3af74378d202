//! One iteration of a job as the model has it.

/// The regions that an iteration takes as a step function of the work that it has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// Where each step begins and what it takes: the first at zero, strictly increasing.
    steps: Vec<(u64, u32)>,
    length: u64,
}

impl Wave {
    /// A wave of steps `(length, demand)`. Steps of no length are left out, equal neighbours
    /// joined.
    #[must_use]
    pub fn new(parts: impl IntoIterator<Item = (u64, u32)>) -> Self {
        let (mut steps, mut length): (Vec<(u64, u32)>, u64) = (Vec::new(), 0);
        for (part, demand) in parts.into_iter().filter(|part| part.0 > 0) {
            if steps.last().is_none_or(|last| last.1 != demand) {
                steps.push((length, demand));
            }
            length += part;
        }
        Self { steps, length }
    }

    /// The work of the iteration: the time that it takes alone.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The most that it takes.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.steps.iter().map(|step| step.1).max().unwrap_or_default()
    }

    /// The number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no length.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Its steps: from, to, demand.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let ends = self.steps.iter().skip(1).map(|step| step.0).chain([self.length]);
        self.steps.iter().zip(ends).map(|(&(from, demand), to)| (from, to, demand))
    }

    /// The demand at each of the first `cells` stretches of length `cell`: the least within each
    /// stretch, or the most of it.
    pub(super) fn sampled(&self, cell: u64, cells: u64, least: bool) -> Vec<u32> {
        let mut sampled = Vec::new();
        for i in 0..cells {
            let (from, to) = (i * cell, (i + 1) * cell);
            let first = self.steps.partition_point(|step| step.0 <= from).saturating_sub(1);
            let within = self.steps[first..].iter().take_while(|step| step.0 < to);
            let demands = within.map(|step| step.1);
            sampled.push(if least { demands.min() } else { demands.max() }.unwrap_or_default());
        }
        sampled
    }

    /// A wave with at most so many steps that is nowhere above this one: neighbours that differ
    /// little are joined, keeping the smaller demand. A bound from above on what can be reached
    /// stays one.
    #[must_use]
    pub fn lowered(&self, most: usize) -> Self {
        let mut tolerance = 0;
        let mut wave = self.clone();
        while wave.len() > most.max(1) {
            tolerance = (tolerance * 5 / 4).max(tolerance + 1);
            let mut joined: Vec<(u64, u32, u32)> = Vec::new();
            for (from, to, demand) in self.pieces() {
                match joined.last_mut() {
                    Some((length, least, first)) if first.abs_diff(demand) <= tolerance => {
                        *length += to - from;
                        *least = demand.min(*least);
                    }
                    _ => joined.push((to - from, demand, demand)),
                }
            }
            wave = Self::new(joined.into_iter().map(|(length, least, _)| (length, least)));
        }
        wave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowering_joins_steps_and_never_raises_one() {
        let wave = Wave::new((0..1000_u32).map(|i| (1 + u64::from(i % 3), (i * 7919) % 501)));
        let low = wave.lowered(40);
        assert!(low.len() <= 40 && low.length() == wave.length());
        let (fine, coarse) =
            (wave.sampled(1, wave.length(), true), low.sampled(1, low.length(), true));
        assert!(fine.iter().zip(&coarse).all(|(fine, coarse)| coarse <= fine));
        assert_eq!(wave.lowered(1000), wave);
    }

    #[test]
    fn a_sample_is_the_least_or_the_most_of_its_stretch() {
        let wave = Wave::new([(3, 5), (0, 9), (2, 5), (5, 1)]);
        assert_eq!(wave.pieces().collect::<Vec<_>>(), [(0, 5, 5), (5, 10, 1)]);
        assert_eq!(wave.sampled(4, 2, true), [5, 1]);
        assert_eq!(wave.sampled(4, 3, false), [5, 5, 1]);
    }
}
