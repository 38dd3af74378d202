//! The exit code.

use std::process::ExitCode;

/// What went on, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well: 0.
    Fine,
    /// The run saw a violation, or a job failed, or a plan does not fit: 1.
    Bad,
    /// Bad input, or something that cannot work: 2.
    Refused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Bad => Self::from(1),
            Exit::Refused => Self::from(2),
        }
    }
}
