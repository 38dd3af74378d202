//! The cost of decisions in real time, measured by a policy that wraps another one.
//!
//! The core has no clock and a replay runs in virtual time, so the measurement does not change
//! decisions.

use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zico_core::policy::{Policy, Tenant, Verdict, View};

/// A policy whose decisions are timed, and where the times arrive.
pub(crate) fn timed(policy: Box<dyn Policy>) -> (Box<dyn Policy>, Receiver<Duration>) {
    let (costs, arrived) = channel();
    (Box::new(Timed { policy, costs }), arrived)
}

/// The median and the 99th percentile of what was measured: the smallest value that no less than
/// this share of them reaches.
pub(crate) fn percentiles(costs: &mut [Duration]) -> Option<[Duration; 2]> {
    costs.sort_unstable();
    let last = costs.len().checked_sub(1)?;
    Some(
        [50, 99].map(|percent| costs[(costs.len() * percent).div_ceil(100).clamp(1, last + 1) - 1]),
    )
}

struct Timed {
    policy: Box<dyn Policy>,
    costs: Sender<Duration>,
}

impl Policy for Timed {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let before = Instant::now();
        let verdict = self.policy.decide(view);
        // The receiver may be gone.
        let _ = self.costs.send(before.elapsed());
        verdict
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        self.policy.order(one, other)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_mock::bundled;
    use zico_mock::replay::{Machine, PolicyKind, ReplayConfig, needs, replay_under};
    use zico_mock::trace::Trace;

    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let costs = |nanos: &[u64]| {
            let mut costs: Vec<Duration> =
                nanos.iter().copied().map(Duration::from_nanos).collect();
            percentiles(&mut costs).map(|both| both.map(|cost| cost.as_nanos()))
        };
        let many: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(costs(&many), Some([100, 198]));
        assert_eq!(costs(&[3, 1, 2]), Some([2, 3]));
        assert_eq!(costs(&[7]), Some([7, 7]));
        assert_eq!(costs(&[]), None);
    }

    /// A timed policy makes the same decisions as the policy alone.
    #[test]
    fn timing_changes_nothing() {
        let names = ["bert-base", "mobilenet_v2", "resnet50"];
        let traces = names.map(|name| bundled::open(name).unwrap());
        let jobs: Vec<&Trace> = traces.iter().collect();
        let needs = needs(&jobs, None, 2, &Machine::default()).unwrap();
        // Less than the sum of the peaks: somebody has to wait.
        let config = ReplayConfig {
            region: Some(needs.region),
            iterations: 2,
            ..ReplayConfig::new(needs.budget_at(0.25))
        };
        let under = |policy| {
            format!("{:?}", replay_under(Some(policy), &jobs, &config, &mut |_| {}).unwrap())
        };
        for kind in PolicyKind::ALL {
            let Some(plain) = kind.policy(config.iterations) else { continue };
            let (policy, costs) = kind.policy(config.iterations).map(timed).unwrap();
            assert_eq!(under(policy), under(plain), "{kind:?}");
            assert!(costs.try_iter().count() > 0, "{kind:?}");
        }
    }
}
