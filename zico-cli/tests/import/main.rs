//! Importing recorded jobs: each rule by a small profile that is written by hand, each way in
//! which a file can be of no use, and that nothing brings the importer down.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod files;
mod profile;
mod rules;
