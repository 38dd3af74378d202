//! Importing recorded jobs: each rule by a small recording that is written by hand, each way in
//! which a file can be of no use, and that nothing brings the importers down.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod before;
mod before_snapshots;
mod bounds;
mod files;
mod gpu;
mod pickles;
mod profile;
mod rules;
mod snapshots;
