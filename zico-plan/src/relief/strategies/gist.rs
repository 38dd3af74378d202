//! Gist (Jain et al., ISCA 2018): what is saved for the backward pass stays on the device encoded.
//!
//! The forms are its three: one bit per value where only the sign is needed (rectifiers before
//! pooling), compressed sparse rows of what rectifiers make for convolutions, and half the
//! precision, which is lossy. All storages that have such a form are encoded between their last use
//! in the forward pass and their first in the backward pass, whatever the budget.

use alloc::vec::Vec;

use super::mixed::{self, Choice};
use crate::relief::swap::Gap;
use crate::relief::{Encoding, Graph, Kind, Link, Step};

/// The schedule, if it fits.
pub(in crate::relief) fn steps(
    graph: &Graph,
    link: &Link,
    budget: u64,
    lossy: bool,
) -> Option<Vec<Step>> {
    let usable = |gap: &&Gap| {
        let encoding = graph.storages()[gap.storage as usize].encoding;
        encoding.is_some_and(|one| one.bytes < gap.bytes && (lossy || !one.lossy))
    };
    let gaps = mixed::saved_gaps(graph);
    let moves = gaps.iter().filter(usable).map(Gap::encoded).collect();
    Choice::nothing(graph).with(graph, link, budget, moves).map(|found| found.1)
}

/// What Gist's encodings come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gist {
    /// The share of zeros in what rectifiers make.
    pub sparsity: f64,
    /// The bytes that encoding and decoding read and write in a second.
    pub bytes_per_second: u64,
    /// Whether values may be held in half of their bits.
    pub lossy: bool,
}

impl Gist {
    /// The encodings of a graph's storages, by the kinds of its operations
    /// ([`Graph::with_kinds`]): for [`Graph::with_encodings`].
    ///
    /// A storage that a rectifier writes last and of which the backward pass of rectifiers and
    /// pooling alone reads: a 32nd, one bit for each value. One of which convolutions or products
    /// read as well: the values that are not zero with an index of one byte each, if that is less.
    /// Any other that the backward pass reads: half, if `lossy`.
    #[must_use]
    pub fn encodings(&self, graph: &Graph) -> Vec<Option<Encoding>> {
        let boundary = graph.backward();
        let mut signs = alloc::vec![true; graph.storages().len()];
        let mut read = alloc::vec![false; graph.storages().len()];
        for (at, operation) in (0_u32..).zip(graph.operations()) {
            let signed = matches!(graph.kind(at), Some(Kind::Rectifier | Kind::Pooling));
            for &storage in operation.reads.iter().filter(|_| at >= boundary) {
                read[storage as usize] = true;
                signs[storage as usize] &= signed;
            }
        }
        let rectified = |storage: usize| {
            let before = graph.writers[storage].iter().take_while(|&&one| one < boundary);
            before.last().is_some_and(|&one| graph.kind(one) == Some(Kind::Rectifier))
        };
        let encoding = |storage: usize| {
            let plain = graph.storages()[storage].bytes;
            if !read[storage] || plain == 0 {
                return None;
            }
            let sparse = plain as f64 * (1.0 - self.sparsity.clamp(0.0, 1.0)) * 1.25;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            let sparse = sparse as u64;
            let (bytes, lossy) = match (rectified(storage), signs[storage]) {
                (true, true) => (plain.div_ceil(32), false),
                (true, false) if sparse < plain => (sparse, false),
                _ if self.lossy => (plain.div_ceil(2), true),
                _ => return None,
            };
            let touched = u128::from(plain) + u128::from(bytes);
            let nanos = touched * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
            let nanos = u64::try_from(nanos).ok()?;
            Some(Encoding { bytes, encode: nanos, decode: nanos, lossy })
        };
        (0..graph.storages().len()).map(encoding).collect()
    }
}
