//! Iterations that a job repeats.

use zico_core::Lifetime;

/// A step of a routine iteration.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Begin,
    Alloc(u64, Option<Lifetime>),
    /// Frees what the step with this number has allocated last.
    Free(usize),
    /// Frees what it had allocated in the iteration before.
    FreeLast(usize),
    End,
}

const IN: Option<Lifetime> = Some(Lifetime::Iteration);
/// How many steps a routine has.
pub(super) const STEPS: usize = 16;

/// An iteration with temporaries, what lives from its beginning to its end, what outlives it, and
/// what comes in the place of something else.
pub(super) const ROUTINE: [Step; STEPS] = {
    use Step::{Alloc, Begin, End, Free};
    [
        Begin,
        Alloc(1500, IN),
        Alloc(40, IN),
        Free(2),
        Alloc(2500, None),
        // The one of the last iteration: it outlives its own.
        Free(11),
        Alloc(300, IN),
        Alloc(5, IN),
        Free(4),
        Alloc(2048, IN),
        Free(6),
        Alloc(700, None),
        Free(1),
        Free(9),
        Free(7),
        End,
    ]
};

/// An iteration whose last block is freed in the next one, after its successor has been made: as
/// the loss in a training loop.
pub(super) const LOOP: [Step; STEPS] = {
    use Step::{Alloc, Begin, End, Free, FreeLast};
    [
        Begin,
        Alloc(2048, IN),
        Alloc(3000, IN),
        Alloc(900, IN),
        Free(3),
        Alloc(2048, IN),
        Free(5),
        Free(2),
        Alloc(2048, IN),
        FreeLast(8),
        Alloc(64, None),
        Free(10),
        Alloc(700, IN),
        Free(12),
        Free(1),
        End,
    ]
};
