//! What the workspace's tests share: the conformance suite that any device has to pass, and a world
//! in which a pool is checked after every call.

pub mod conformance;
pub mod world;
