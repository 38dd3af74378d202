//! An iteration that is over when the next one begins.

use crate::types::units::{Progress, Ticks};

/// Whether the iteration that runs is over but for what its job frees before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is not, or none runs.
    #[default]
    No,
    /// It is: how far the job had come when it was last looked at, and since when it has been there.
    WithNext { seen: Progress, since: Ticks },
    /// A thread is ending it.
    Now,
}

impl Ending {
    /// The caller is to end it, if it ends with the next one.
    pub(crate) fn take(&mut self) -> Self {
        let next = if *self == Self::No { Self::No } else { Self::Now };
        core::mem::replace(self, next)
    }

    /// Whether its job, which has come so far, has stood still for so long.
    pub(super) fn is_overdue(&mut self, progress: Progress, now: Ticks, patience: Ticks) -> bool {
        match self {
            Self::WithNext { seen, since } if *seen == progress => {
                now.saturating_sub(*since) >= patience
            }
            Self::WithNext { seen, since } => {
                (*seen, *since) = (progress, now);
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_ends_it() {
        let mut ending = Ending::default();
        assert_eq!((ending.take(), ending.take()), (Ending::No, Ending::No));
        let next = Ending::WithNext { seen: Progress::ZERO, since: Ticks::ZERO };
        ending = next;
        assert_eq!((ending.take(), ending.take()), (next, Ending::Now));
    }

    #[test]
    fn who_goes_on_is_not_overdue() {
        let mut ending = Ending::WithNext { seen: Progress::ZERO, since: Ticks::new(1) };
        let mut overdue = |progress, now| {
            ending.is_overdue(Progress::new(progress), Ticks::new(now), Ticks::new(5))
        };
        assert_eq!(
            [(0, 5), (0, 6), (1, 6), (1, 10), (1, 11)].map(|(p, n)| overdue(p, n)),
            [false, true, false, false, true]
        );
        assert!(!Ending::No.is_overdue(Progress::ZERO, Ticks::MAX, Ticks::ZERO));
    }
}
