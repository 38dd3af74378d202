//! What a job allocates before its first iteration begins.
//!
//! A model is built then, and that persists. But a job may also do its first step before it marks
//! anything: with marks from an optimizer's hook the first one comes at the end of the first step.
//! So what is allocated by guess is not taken to persist before an iteration has ended with it; and
//! once something has been freed, what comes next is a *wave*, of which nobody knows how high it
//! will be. It is treated as an iteration of which nothing is known: no two such waves grow side by
//! side.
//!
//! Nobody knows either whether a wave ends. A job that never marks an iteration, or that has
//! stopped in the middle of it, must not hold up others for ever. So all this *lapses* after a
//! number of operations that no first step has, or when the job has done nothing for as long as the
//! pool has patience. What it holds then is what it keeps, for good.

use crate::types::tuning::FIRST_WAVE;
use crate::types::units::Progress;

/// What a job has allocated before its first iteration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstWave {
    /// Regions leased for blocks that are only guessed to persist.
    guessed: u32,
    /// What the job held when its wave began.
    base: Option<u32>,
    lapsed: bool,
    over: bool,
}

impl FirstWave {
    /// An iteration has ended: what is there, is known.
    pub(super) fn over() -> Self {
        Self { over: true, ..Self::default() }
    }

    /// Regions that may not persist.
    pub(super) fn guessed(&self) -> u32 {
        if self.lapsed { 0 } else { self.guessed }
    }

    /// So many regions have been leased by guess.
    pub(crate) fn lease(&mut self, regions: u32) {
        if !self.over {
            self.guessed = self.guessed.saturating_add(regions);
        }
    }

    /// A wave grows, in a job that holds so many regions.
    pub(super) fn grow(&mut self, held: u32) {
        if !self.over {
            self.base.get_or_insert(held);
        }
    }

    /// Whether there is a wave of which nobody knows how high it will be.
    pub(super) fn is_under_way(&self) -> bool {
        self.base.is_some() && !self.lapsed
    }

    /// What the job keeps of the regions that it holds.
    pub(super) fn base(&self, held: u32) -> u32 {
        self.base.filter(|_| !self.lapsed).map_or(held, |base| base.min(held))
    }

    /// What the job holds is known to be what it keeps.
    pub(crate) fn lapse(&mut self) {
        self.lapsed = !self.over;
    }

    /// Whether there is anything of which nobody knows how long it stays.
    pub(super) fn is_open(&self) -> bool {
        !self.lapsed && (self.base.is_some() || self.guessed > 0)
    }

    /// Looks at a job that has come so far, and may stand still. Whether all this has lapsed just
    /// now.
    pub(crate) fn look(&mut self, progress: Progress, still: bool) -> bool {
        self.lapsed |= self.is_open() && (still || progress >= FIRST_WAVE);
        self.lapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_lapses_when_its_job_stands_still_or_never_ends_it() {
        let mut wave = FirstWave::default();
        assert!(!wave.is_under_way() && !wave.look(Progress::MAX, true));
        wave.grow(3);
        wave.grow(9);
        assert_eq!((wave.base(9), wave.base(2)), (3, 2), "what it held when the wave began");
        assert!(!wave.look(Progress::new(1), false) && wave.is_under_way());
        assert!(wave.look(Progress::new(2), true) && !wave.is_under_way());
        assert_eq!(wave.base(9), 9, "what it holds, it keeps");
        let mut wave = FirstWave::default();
        wave.lease(4);
        assert!(!wave.look(Progress::new((1 << 16) - 1), false));
        assert!(wave.look(Progress::new(1 << 16), false), "no first step is that long");
        assert_eq!(wave.guessed(), 0);
    }

    #[test]
    fn once_an_iteration_has_ended_nothing_is_guessed() {
        let mut wave = FirstWave::default();
        wave.lease(5);
        wave.grow(5);
        assert_eq!(wave.guessed(), 5);
        wave = FirstWave::over();
        wave.lease(5);
        wave.grow(5);
        assert_eq!((wave.guessed(), wave.is_under_way(), wave.base(7)), (0, false, 7));
    }
}
