//! Ours: from its own plans and those of quick strategies of others.

use super::Strategy;
use crate::relief::ours::joint;
use crate::relief::{Found, Graph, Link, Terms};

/// Those that take a small part of our own time. Other planners than these are taken up by what
/// they do, as DTR's runs are where no others fit.
const QUICK: [Strategy; 8] = [
    Strategy::AutoSwapDoa,
    Strategy::AutoSwapAoa,
    Strategy::AutoSwapWdoa,
    Strategy::AutoSwap,
    Strategy::VdnnAll,
    Strategy::VdnnConv,
    Strategy::Capuchin,
    Strategy::SwapAdvisor,
];

/// Plans what moves and what runs again so that an iteration fits in a budget in as little time as
/// can be, without loss: [`joint_within`] of the budget.
#[must_use]
pub fn joint(graph: &Graph, link: &Link, budget: u64, work: u64) -> Option<Found> {
    joint_within(graph, link, Terms { budget, lossy: false }, work)
}

/// Plans what moves, what is encoded and what runs again so that an iteration fits in a budget in
/// as little time as can be. `None` where nothing that it tries fits.
///
/// What was there before the iteration and is there after it moves as all else does. Where not all
/// of it fits beside the first operation or the last, some of it is on the host between iterations
/// ([`Step::Hosted`](crate::relief::Step::Hosted)).
///
/// Transfers that end before anything waits for them cost nothing, so the link is filled with those
/// first that free most in places over the budget: by place and byte, or by what the bytes would
/// take to be made again. What is left over the budget is for
/// [`Recompute`](crate::relief::Recompute). Where operations run again, there is more time for
/// transfers: then both are planned once more on the longer timeline. Beside that as few bytes move
/// as it takes, whatever waits for them: all that is needed, and what recomputation cannot free.
/// Where none of that fits, all that can move does as soon as it is not in use. Encodings are tried
/// beside that, those first that free most for their time; transfers that something waits for; and
/// the plans of quick strategies of others, as they are and with their transfers alone. From the
/// best of all that, by the simulator, a local search changes the choice of one gap or of a few at
/// a time, each time with recomputation planned anew for what is left over the budget.
/// Deterministic.
///
/// The first plans take what they take. A part of `work` is for recomputation beside the best of
/// them, a 32nd for each planning, which ends sooner where it has found nothing for long; the rest
/// is for the local search.
#[must_use]
pub fn joint_within(graph: &Graph, link: &Link, terms: Terms, work: u64) -> Option<Found> {
    let plan = |terms: Terms| {
        let others = QUICK.into_iter();
        let mut others =
            others.filter_map(|strategy| strategy.plan(graph, link, terms.budget, work));
        joint::plan(graph, link, terms, work, &mut others)
    };
    // What may be lossy is never slower than what may not.
    let exact = plan(Terms { lossy: false, ..terms });
    if !terms.lossy || !graph.has_lossy_encodings() {
        return exact;
    }
    plan(terms).into_iter().chain(exact).min_by_key(|found| found.nanos)
}
