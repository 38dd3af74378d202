//! What the workspace's tests share: the conformance suite that any device has to pass.

pub mod conformance;
