//! The best that any schedule could do: how much of what sharing could give does zico's rule get?
//!
//! # The model
//!
//! An iteration of a job is a [`Wave`]: a length in work, and the regions that it takes as a step
//! function of the work it has done. Iterations are whole: once begun, one runs to its end. A job's
//! next iteration begins when its last one has ended, or at any later moment. While k iterations
//! run, each launch keeping a share u of the device busy, all run at min(1, 1 / (k u)) of the speed
//! that they have alone (the mock device's rule). What runs takes at most [`Case::room`] regions at
//! any moment, the budget without what jobs keep between iterations.
//!
//! What counts is the replay's throughput: the sum over jobs of the rate over the rate alone, that
//! is the work done over the time it took. Taking turns comes to 1.
//!
//! All that run advance alike. So there is one *clock* of work, in which iterations have fixed
//! lengths and a schedule is a set of starts; time is the clock with each moment stretched by
//! max(1, k u).
//!
//! # What is computed
//!
//! | module | what |
//! |---|---|
//! | [`pair`] | two jobs: the optimum of the model, exactly, in the long run and for n iterations |
//! | [`grid`] | two or three jobs: a bound from above and one from below, on a grid of moments |
//! | [`greedy`] | what a rule comes to on the same model, and zico's rule, first fit |
//! | [`lookahead`], [`plan`] | other rules: first fit that looks ahead, the best cycle of two |
//! | [`recorded`] | the waves of recorded jobs |
//!
//! # What the model leaves out
//!
//! Draining (memory that is given up is free at once), the host (it never runs ahead, takes no
//! time, and allocates at the moment when the device comes to the work), first iterations and
//! variation between iterations, and which region lies where. A spike of memory between two
//! launches that no launch sees has no length and does not count. Draining, running ahead and
//! spikes only ever make a schedule worse. Host time may make it better against the rate alone: a
//! job whose host cannot keep the device busy leaves room that the model thinks is used. Where
//! launches are as short as their dispatch (dlrm) the replay may exceed 1 / u, and so the model's
//! optimum.

mod cycle;
pub mod greedy;
pub mod grid;
pub mod lookahead;
pub mod pair;
pub mod plan;
pub mod recorded;
#[cfg(test)]
mod tests;
mod wave;

pub use wave::Wave;

/// Jobs that share one budget.
#[derive(Clone, Debug)]
pub struct Case {
    /// One iteration of each job.
    pub waves: Vec<Wave>,
    /// The regions that iterations can have together.
    pub room: u32,
    /// The share of the device that a launch keeps busy.
    pub utilisation: f64,
}

impl Case {
    /// The time that a unit of the clock takes while `running` iterations run.
    #[must_use]
    pub fn stretch(&self, running: usize) -> f64 {
        (running as f64 * self.utilisation).max(1.0)
    }

    /// Whether every iteration fits alone. If not, no schedule exists.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.waves.iter().all(|wave| wave.peak() <= self.room)
    }
}
