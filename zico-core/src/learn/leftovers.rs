//! What a job's iterations leave behind beside what persists: the loss of the last step, a batch
//! that was fetched ahead, state that the first step has made.
//!
//! The next iteration may free it, but only by running. So it is not there for others while none
//! runs, and while one runs as much is taken to be left again.

use crate::learn::recent::Recent;

/// What the last iterations have begun with and left, in regions.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// What each of them left.
    left: Recent,
    /// What the last two have begun with, the newest first.
    carried: [Option<u32>; 2],
}

impl Leftovers {
    /// An iteration has ended and left so many.
    pub(super) fn note_left(&mut self, regions: u32) {
        self.left.note(regions);
    }

    /// An iteration begins with so many.
    pub(crate) fn note_carried(&mut self, regions: u32) {
        self.carried = [Some(regions), self.carried[0]];
    }

    /// The most that one of them left.
    pub(crate) fn left(&self) -> u32 {
        self.left.most()
    }

    /// What both of the last two have begun with: what always is there. Nothing before there were
    /// two.
    pub(crate) fn carried(&self) -> u32 {
        let [newest, older] = self.carried;
        newest.zip(older).map_or(0, |(newest, older)| newest.min(older))
    }

    /// The same once another iteration begins, with so many.
    pub(crate) fn carried_then(&self, regions: u32) -> u32 {
        self.carried[0].map_or(0, |newest| newest.min(regions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_iterations_have_begun_with_is_always_there() {
        let mut leftovers = Leftovers::default();
        assert_eq!(leftovers.carried(), 0);
        leftovers.note_carried(4);
        assert_eq!(leftovers.carried(), 0, "one tells nothing");
        leftovers.note_carried(6);
        assert_eq!(leftovers.carried(), 4);
        leftovers.note_carried(1);
        assert_eq!(leftovers.carried(), 1);
    }
}
