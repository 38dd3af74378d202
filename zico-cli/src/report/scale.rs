//! The vertical scale of a picture of jobs, and the position of their budget.

use serde::Serialize;
use zico_core::Bytes;
use zico_mock::replay::Outcome;

use super::areas::gib;
use super::axes::{Axis, Tick};

/// A budget above this multiple of the peak is not drawn to scale: the curves would be smaller than
/// the empty space above them.
const FAR: f64 = 2.0;

/// How much of a picture is left above what it shows, over that.
const ABOVE: f64 = 0.08;

/// The vertical axis of a picture: from nothing to a little above the budget, or above what is held
/// at most where the budget is far from that.
pub(super) struct Scale {
    /// In GiB.
    pub(super) axis: Axis,
    pub(super) budget: Mark,
    pub(super) ticks: Vec<Tick>,
    /// In which the ticks count.
    pub(super) unit: &'static str,
}

/// Where the budget lies.
#[derive(Debug, Serialize)]
pub(super) struct Mark {
    /// Nothing if it is beyond the top edge.
    y: Option<f64>,
    label: String,
}

impl Scale {
    /// With what `outcomes` held under this budget drawn between `ends`, and about so many ticks.
    pub(super) fn new<'o>(
        budget: Bytes,
        outcomes: impl Iterator<Item = &'o Outcome>,
        ends: (f64, f64),
        about: f64,
    ) -> Self {
        let held = outcomes.map(peak).fold(0.0, f64::max);
        Self::of(budget, held, ends, about)
    }

    /// With this peak in GiB.
    fn of(bytes: Bytes, held: f64, ends: (f64, f64), about: f64) -> Self {
        let budget = gib(bytes);
        let far = held > 0.0 && budget > held * FAR;
        let most = if far { held } else { budget };
        let axis = Axis { ends, figures: (0.0, most * (1.0 + ABOVE)) };
        let label = if far {
            format!("budget {bytes}, {} times the peak", times(budget / held))
        } else {
            format!("budget {bytes}")
        };
        let mark = Mark { y: (!far).then(|| axis.at(budget)), label };
        let (unit, in_gib) = unit(most);
        let counted = Axis { ends, figures: (0.0, axis.figures.1 / in_gib) };
        let ticks = counted.ticks(most / in_gib * (1.0 + ABOVE / 4.0), about, "");
        Self { axis, budget: mark, ticks, unit }
    }
}

/// The most that all jobs together are drawn with.
fn peak(outcome: &Outcome) -> f64 {
    let sums =
        outcome.wave.samples().iter().map(|sample| sample.held.iter().copied().map(gib).sum());
    sums.fold(0.0, f64::max)
}

/// A factor as text.
fn times(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// The largest unit in which the value is more than one, and the unit in GiB.
fn unit(most: f64) -> (&'static str, f64) {
    let fits = |unit: &(&str, f64)| most >= unit.1;
    let units = [("GiB", 1.0), ("MiB", 1.0 / 1024.0)];
    units.into_iter().find(fits).unwrap_or(("KiB", 1.0 / 1024.0 / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: (f64, f64) = (300.0, 0.0);

    fn of(budget: Bytes, held: f64) -> Scale {
        Scale::of(budget, held, ENDS, 4.0)
    }

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_budget_that_is_near_is_a_line() {
        for held in [3.2, 2.0, 1.61] {
            let scale = of(Bytes::mib(3277), held);
            assert!(
                scale.budget.y.is_some_and(|y| (20.0..25.0).contains(&y)),
                "{:?}",
                scale.budget
            );
            assert_eq!(scale.budget.label, "budget 3.20 GiB");
            assert_eq!((labels(&scale), scale.unit), (vec!["0", "1", "2", "3"], "GiB"));
        }
        // Nothing is held: the budget is all that there is to see.
        let scale = of(Bytes::gib(64), 0.0);
        assert!(scale.budget.y.is_some());
    }

    #[test]
    fn a_budget_that_is_far_is_said_and_the_wave_fills_the_picture() {
        let scale = of(Bytes::gib(64), 1.23);
        assert!(scale.budget.y.is_none());
        assert_eq!(scale.budget.label, "budget 64 GiB, 52 times the peak");
        // The peak, which would lie at 295 of 300 below a line at the budget.
        assert!((20.0..25.0).contains(&scale.axis.at(1.23)), "{}", scale.axis.at(1.23));
        assert_eq!(labels(&scale), ["0", "0.5", "1"]);
        let small = of(Bytes::gib(16), 6.34);
        assert_eq!(small.budget.label, "budget 16 GiB, 2.5 times the peak");
    }

    #[test]
    fn what_is_small_is_counted_in_small_units() {
        let scale = of(Bytes::gib(1), 4.0 / 1024.0);
        assert_eq!((labels(&scale), scale.unit), (vec!["0", "2", "4"], "MiB"));
        assert_eq!(scale.budget.label, "budget 1 GiB, 256 times the peak");
        assert_eq!(of(Bytes::gib(1), 1e-4).unit, "KiB");
    }
}
