//! Relief: what to run again so that an iteration fits below what it keeps.
//!
//! A [`Graph`] is one iteration: operations in recorded order with what they read and write and how
//! long they take, and the storages. A schedule is a list of [`Step`]s. [`simulate`] says when each
//! takes place under a budget, with compute and the two directions of a [`Link`] as channels that
//! work at the same time; [`check`](check()) verifies a schedule with its times and trusts nothing;
//! [`lower_bound`] says what no schedule can be faster than. [`Relief::recompute`] plans.
//!
//! ```
//! use zico_plan::relief::{Graph, Link, Operation, Relief, Storage, Terms, check, simulate};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! // A chain of four, and its way back, which reads each again.
//! let storages = vec![Storage::new(100); 8];
//! let run = |reads: &[u32], write| Operation {
//!     reads: reads.to_vec(),
//!     writes: vec![write],
//!     nanos: 1000,
//!     repeatable: true,
//! };
//! let operations = vec![
//!     run(&[], 0),
//!     run(&[0], 1),
//!     run(&[1], 2),
//!     run(&[2], 3),
//!     run(&[3], 4),
//!     run(&[2, 4], 5),
//!     run(&[1, 5], 6),
//!     run(&[0, 6], 7),
//! ];
//! let graph = Graph::new(storages, operations)?;
//! assert_eq!(graph.peak(), 500);
//! let found = Relief::new(&graph).recompute(400).run(10_000);
//! let link = Link::symmetric(16_000_000_000);
//! let outcome = simulate(&graph, &link, &found.steps, 400)?;
//! assert_eq!(outcome.nanos, 9000);
//! let terms = Terms { budget: 400, lossy: false };
//! assert_eq!(check(&graph, &link, &found.steps, &outcome.spans, terms)?, 400);
//! # Ok(())
//! # }
//! ```

mod addresses;
mod curve;
mod error;
mod model;
mod ours;
mod random;
mod stages;
mod strategies;

use model::{graph, schedule};
use ours::search;
use stages::{crowd, dtr, problem, sequence, swap, timeline};

pub use addresses::{Addresses, Placed, Residency, addresses, placed};
pub use curve::{Curve, Point, curve};
pub use error::{Fault, GraphError, Refusal};
pub use graph::{Encoding, Graph, Operation, Storage};
pub use model::bound::lower_bound;
pub use model::check::{Terms, check};
pub use model::kind::Kind;
pub use ours::recompute::{Found, Recompute, Relief};
pub use schedule::{Link, Outcome, Span, Step, simulate};
pub use strategies::{Gist, Strategy, joint, joint_within};

#[cfg(test)]
mod tests;
