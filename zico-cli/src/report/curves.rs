//! Curves as small multiples: one picture with a panel for each set of jobs and a curve for each
//! policy, all with the same axes. It has a background of its own, so that it can be read on any
//! page.

use std::fmt::Write;

use minijinja::context;
use serde::Serialize;

use super::axes::Axis;
use super::environment;
use crate::failure::Failure;

const COLUMNS: usize = 4;
/// One panel with its title and labels, and its plot within it.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 158.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 8.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = HEIGHT - 24.0;
/// Above the panels: the title, and the lines of the legend.
const TITLE: f64 = 34.0;
const LINE: f64 = 20.0;
const LEGEND_COLUMNS: usize = 6;

/// What to draw.
#[derive(Clone, Debug)]
pub struct Curves {
    /// What the picture shows.
    pub title: String,
    /// What each curve stands for. The first one is drawn bold and on top.
    pub names: Vec<String>,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// One small multiple.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What sets it apart.
    pub title: String,
    /// For each name its points from left to right, x between 0 and 1; a gap where there is no y.
    pub curves: Vec<Vec<(f64, Option<f64>)>>,
}

/// The picture as SVG.
///
/// # Errors
/// If the template is broken: a defect.
pub fn curves(picture: &Curves) -> Result<String, Failure> {
    let points = picture.panels.iter().flat_map(|panel| panel.curves.iter().flatten());
    let (low, high) = points
        .filter_map(|point| point.1)
        .fold((1.0, 1.0), |(low, high), y| (f64::min(low, y), f64::max(high, y)));
    let x = Axis { ends: (LEFT, RIGHT), figures: (0.0, 1.0) };
    let y = Axis { ends: (BOTTOM, TOP), figures: (low - 0.05, high + 0.05) };
    let lines = picture.names.len().div_ceil(LEGEND_COLUMNS);
    let top = TITLE + LINE * lines as f64;
    let width = WIDTH * COLUMNS as f64;
    let keys = picture.names.iter().enumerate().map(|(i, name)| Key {
        x: 16.0 + (i % LEGEND_COLUMNS) as f64 * (width - 32.0) / LEGEND_COLUMNS as f64,
        y: TITLE + LINE * ((i / LEGEND_COLUMNS) as f64 + 0.5),
        name,
    });
    let panels = picture.panels.iter().enumerate().map(|(i, panel)| Drawn {
        x: (i % COLUMNS) as f64 * WIDTH,
        y: top + (i / COLUMNS) as f64 * HEIGHT,
        title: &panel.title,
        paths: panel.curves.iter().map(|curve| path(curve, &x, &y)).collect(),
    });
    Ok(environment()?.get_template("curves.svg")?.render(context! {
        title => picture.title.as_str(),
        width,
        height => top + picture.panels.len().div_ceil(COLUMNS) as f64 * HEIGHT + 6.0,
        plot => minijinja::value::Serde([LEFT, RIGHT, TOP, BOTTOM]),
        x_ticks => minijinja::value::Serde(x.ticks(1.0, 4.0, "")),
        y_ticks => minijinja::value::Serde(y.ticks(high + 0.05, 4.0, "")),
        keys => minijinja::value::Serde(keys.collect::<Vec<_>>()),
        panels => minijinja::value::Serde(panels.collect::<Vec<_>>()),
    })?)
}

#[derive(Serialize)]
struct Key<'p> {
    x: f64,
    y: f64,
    name: &'p str,
}

#[derive(Serialize)]
struct Drawn<'p> {
    x: f64,
    y: f64,
    title: &'p str,
    paths: Vec<String>,
}

/// Lines between neighbours; a point that has none is a dot.
fn path(curve: &[(f64, Option<f64>)], x: &Axis, y: &Axis) -> String {
    let mut path = String::new();
    for stretch in curve.split(|point| point.1.is_none()) {
        let mut points = stretch.iter().filter_map(|&(at, figure)| Some((at, figure?)));
        let Some((at, figure)) = points.next() else { continue };
        let _ = write!(path, "M{},{}", x.at(at), y.at(figure));
        if stretch.len() == 1 {
            path += "m-1.5,0h3";
        }
        for (at, figure) in points {
            let _ = write!(path, "L{},{}", x.at(at), y.at(figure));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;

    #[test]
    fn curves_have_gaps_and_names_are_escaped() {
        let axis = Axis { ends: (0.0, 10.0), figures: (0.0, 1.0) };
        let curve =
            [(0.0, None), (0.1, Some(0.2)), (0.3, Some(0.4)), (0.5, None), (1.0, Some(0.5))];
        assert_eq!(path(&curve, &axis, &axis), "M1,2L3,4M10,5m-1.5,0h3");
        assert_eq!(path(&[(0.0, None)], &axis, &axis), "");
        let picture = Curves {
            title: "a < b".to_owned(),
            names: vec!["one".to_owned(), "two".to_owned()],
            panels: vec![Panel {
                title: "x & y".to_owned(),
                curves: vec![curve.to_vec(), Vec::new()],
            }],
        };
        let svg = curves(&picture).unwrap();
        for words in ["<svg xmlns=", "a &lt; b", "x &amp; y", ">one</text>", "<rect", "</svg>"] {
            assert!(svg.contains(words), "no {words:?} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("{{"), "{svg}");
    }
}
