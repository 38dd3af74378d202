//! The calls of the model test.

use zico_core::Lifetime;
use zico_mock::Operations;

/// One call or event.
#[derive(Clone, Debug)]
pub enum Call {
    /// Join if not there, else leave with whatever is live.
    JoinOrLeave(usize),
    /// Begin an iteration if idle, else end it.
    BeginOrEnd(usize),
    /// Go to the host if here, else ask to come back.
    SuspendOrResume(usize),
    /// Allocate.
    Alloc {
        /// Who.
        job: usize,
        /// How much.
        kib: u64,
        /// At a multiple of two to this power.
        align: u32,
        /// The lifetime; none if it is learned.
        lifetime: Option<Lifetime>,
    },
    /// Ask for something beyond all bounds.
    Absurd {
        /// Who.
        job: usize,
        /// For what.
        what: u8,
    },
    /// The job's stream, or the other one of it, takes no events from now on, or takes them again.
    Mute {
        /// Whose.
        job: usize,
        /// The other one.
        side: bool,
    },
    /// The job stays idle for this number of calls.
    Idle {
        /// Who.
        job: usize,
        /// How long.
        calls: u8,
    },
    /// At the nth device call from now on this happens, within the call of the pool that makes it.
    During {
        /// The number of device calls before it.
        skip: u8,
        /// Before that call is made, or after.
        before: bool,
        /// What.
        call: Box<Call>,
    },
    /// Free one of the live blocks, then try to free it again.
    Free {
        /// Who.
        job: usize,
        /// Which, modulo the number of live blocks.
        which: usize,
    },
    /// Enqueue work on a stream of its own that uses one of the live blocks.
    UseElsewhere {
        /// Who.
        job: usize,
        /// Which, modulo the number of live blocks.
        which: usize,
        /// How long the work runs.
        micros: u64,
    },
    /// Enqueue work.
    Launch {
        /// Whose.
        job: usize,
        /// How long it runs.
        micros: u64,
    },
    /// Let the device run for so long.
    Advance {
        /// How long.
        micros: u64,
    },
    /// Go on with the iterations that a job does again and again, alike unless something else comes
    /// between.
    Routine {
        /// Who.
        job: usize,
        /// The number of steps; fewer if one cannot be done now.
        steps: usize,
    },
    /// Poll the pool.
    Poll,
    /// Give memory back to the device until no more than so much is held.
    Trim {
        /// How much.
        mib: u64,
    },
    /// Change the budget.
    SetBudget {
        /// To so much.
        mib: u64,
    },
    /// Hold a job's progress to a rate, or no longer.
    SetPace {
        /// Whose.
        job: usize,
        /// To so many operations ...
        operations: u32,
        /// ... in so many microseconds, or none if that is none.
        micros: u64,
        /// The most that are saved up.
        burst: u32,
    },
    /// From now on calls of these operations fail so often.
    Fail {
        /// Which.
        operations: Operations,
        /// Of 1000 calls.
        permille: u16,
    },
}
