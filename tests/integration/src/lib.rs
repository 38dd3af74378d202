//! What the workspace's tests share: random workloads, threads and interleavings of calls, and a
//! model that checks a pool after every call.

pub mod between;
pub mod handle;
pub mod hook;
pub mod owned;
pub mod requests;
pub mod schedules;
pub mod seeds;
pub mod storm;
pub mod taker;
pub mod trainings;
pub mod waves;
pub mod world;

/// The number of cases of a property test: `PROPTEST_CASES`, if set.
#[must_use]
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// Whether the long checks are to be run: `ZICO_LONG`, if set.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("ZICO_LONG").is_some()
}

/// The pages of the book whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/embed.md")]
    struct Embed;
    #[doc = include_str!("../../../docs/backend.md")]
    struct Backend;
    #[doc = include_str!("../../../docs/host.md")]
    struct Host;
    #[doc = include_str!("../../../docs/policies.md")]
    struct Policies;
}
