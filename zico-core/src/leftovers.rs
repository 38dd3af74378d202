//! What a job's iterations leave behind beside what persists: the loss of the last step, a batch that
//! was fetched ahead, state that the first step has made.
//!
//! The next iteration may free it, but only by running. So it is not there for others while none runs,
//! and while one runs as much is taken to be left again.

/// So many iterations back.
const REMEMBERED: usize = 8;

/// What the last iterations have begun with and left, in regions.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// What each of them left, in a ring.
    left: [u32; REMEMBERED],
    next: usize,
    /// The most of them.
    most: u32,
    /// What the last two have begun with, the newest first.
    carried: [Option<u32>; 2],
}

impl Leftovers {
    /// An iteration has ended and left so many.
    pub(crate) fn note_left(&mut self, regions: u32) {
        self.left[self.next] = regions;
        self.next = (self.next + 1) % REMEMBERED;
        self.most = self.left.into_iter().fold(0, u32::max);
    }

    /// An iteration begins with so many.
    pub(crate) fn note_carried(&mut self, regions: u32) {
        self.carried = [Some(regions), self.carried[0]];
    }

    /// The most that one of them left.
    pub(crate) fn left(&self) -> u32 {
        self.most
    }

    /// What both of the last two have begun with: what always is there. Nothing before there were two.
    pub(crate) fn carried(&self) -> u32 {
        let [newest, older] = self.carried;
        newest.zip(older).map_or(0, |(newest, older)| newest.min(older))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_was_left_counts_for_eight_iterations() {
        let mut leftovers = Leftovers::default();
        assert_eq!(leftovers.left(), 0);
        leftovers.note_left(3);
        for _ in 1..REMEMBERED {
            leftovers.note_left(1);
            assert_eq!(leftovers.left(), 3);
        }
        leftovers.note_left(1);
        assert_eq!(leftovers.left(), 1);
    }

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
