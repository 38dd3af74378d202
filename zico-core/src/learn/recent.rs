//! The largest of the last few figures.
use crate::types::tuning::RECENT;

/// A figure of each of the last few iterations, in regions.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    figures: [u32; RECENT],
    next: usize,
    /// The largest: it is asked for at each lease.
    most: u32,
}

impl Recent {
    /// An iteration has ended, of which this is the figure.
    pub(crate) fn note(&mut self, figure: u32) {
        let gone = core::mem::replace(&mut self.figures[self.next], figure);
        self.next = (self.next + 1) % RECENT;
        if figure >= self.most {
            self.most = figure;
        } else if gone == self.most {
            self.most = self.figures.into_iter().fold(0, u32::max);
        }
    }

    /// The largest; nothing before there was one.
    pub(crate) const fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_counts_for_eight_iterations() {
        let mut recent = Recent::default();
        assert_eq!(recent.most(), 0);
        recent.note(5);
        for _ in 1..RECENT {
            recent.note(3);
            assert_eq!(recent.most(), 5);
        }
        recent.note(0);
        assert_eq!(recent.most(), 3);
        (0..RECENT).for_each(|_| recent.note(0));
        assert_eq!(recent.most(), 0);
    }
}
