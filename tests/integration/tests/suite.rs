//! The tests of the workspace as a whole, in one program: what they share of the core is compiled
//! once, and they run side by side. A file alone: `cargo test -p zico-tests --test suite turns::`.
//!
//! Programs of their own have what cannot be in one with others (`allocations` counts those of its
//! process) or needs none of it (`book`, `conformance`, `cuda`).

mod ahead;
mod broker;
mod broker_crashes;
mod broker_requests;
mod carried;
mod carry;
mod defects;
mod detect;
mod drift;
mod ends;
mod exhaustive;
mod exhaustive_carried;
mod hostile;
mod interleavings;
mod interrupt;
mod lagging;
mod plan;
mod plan_holds;
mod pool_properties;
mod processes;
mod promises;
mod replay;
mod review;
mod schedules;
mod storm;
mod suspend;
mod suspend_apart;
mod suspend_with;
mod terms;
mod torch_jobs;
mod trainings;
mod turns;
mod turns_apart;
mod waiting;
