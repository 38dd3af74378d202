//! Import of recorded jobs: each rule on a small recording written by hand, each error, and
//! robustness against arbitrary input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod before;
mod before_snapshots;
mod files;
mod gpu;
mod pickles;
mod profile;
mod rules;
mod snapshots;
