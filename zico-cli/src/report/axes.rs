//! From figures to coordinates in a view box, and where the ticks of an axis lie.

use serde::Serialize;

/// A stretch of the view box, and the figures at its two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Where the first figure lies, and the last. What is up is smaller in SVG.
    pub(crate) ends: (f64, f64),
    /// The figures there.
    pub(crate) figures: (f64, f64),
}

/// A mark on an axis.
#[derive(Debug, Serialize)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

impl Axis {
    /// The coordinate of a figure; of one beyond the last, that of the last.
    pub(crate) fn at(&self, figure: f64) -> f64 {
        round(self.exactly_at(figure))
    }

    /// The same, for what a tenth of a pixel would distort.
    pub(crate) fn exactly_at(&self, figure: f64) -> f64 {
        let ((start, end), (first, last)) = (self.ends, self.figures);
        start + (figure.min(last) - first) / (last - first) * (end - start)
    }

    /// About this many marks at round figures, none beyond `end`.
    pub(crate) fn ticks(&self, end: f64, about: f64, unit: &str) -> Vec<Tick> {
        let first = self.figures.0;
        let step = nice((end - first) / about);
        let start = (first / step - 1e-9).ceil();
        let figures = (0..).map(|i| (start + f64::from(i)) * step);
        let tick =
            |figure: f64| Tick { at: self.at(figure), label: format!("{}{unit}", trimmed(figure)) };
        figures.take_while(|figure| *figure <= end + step * 1e-9).map(tick).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|nice| *nice >= step * 0.999)
        .unwrap_or(step)
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A tenth of a pixel is all that can be seen.
pub(crate) fn round(coordinate: f64) -> f64 {
    (coordinate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        for (step, tick) in
            [(0.73, 1.0), (1.0, 1.0), (1.2, 2.0), (4.9, 5.0), (0.013, 0.02), (7.0, 10.0)]
        {
            assert!((nice(step) - tick).abs() < 1e-9, "{step}: {}", nice(step));
        }
        assert_eq!(
            (trimmed(0.5), trimmed(2.0), trimmed(0.0)),
            ("0.5".into(), "2".into(), "0".into())
        );
    }

    #[test]
    fn figures_lie_between_the_ends() {
        let axis = Axis { ends: (100.0, 0.0), figures: (0.9, 1.7) };
        assert_eq!([0.9, 1.3, 1.7, 9.0].map(|figure| axis.at(figure)), [100.0, 50.0, 0.0, 0.0]);
        let ticks: Vec<String> =
            axis.ticks(1.7, 4.0, " s").into_iter().map(|tick| tick.label).collect();
        assert_eq!(ticks, ["1 s", "1.2 s", "1.4 s", "1.6 s"]);
    }
}
