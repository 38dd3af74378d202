//! Pictures of relief as coordinates: memory over time with what leaves and what runs again, and
//! time against budget.

use std::fmt::Write;

use serde::Serialize;
use zico_core::Bytes;
use zico_plan::relief::{Graph, Outcome, Step};

use super::axes::{Axis, Tick, round};
use super::chart::{HEIGHT, LEFT, RIGHT, TOP, WIDTH};

const GAP: f64 = 40.0;
const LANE: f64 = 26.0;
/// More bars than this in a lane are drawn as one shape, without a word on each.
const TITLED: usize = 1000;
/// How many of what left a report lists.
const LISTED: usize = 20;

/// A plan with its times, to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Drawn<'a> {
    pub(crate) graph: &'a Graph,
    /// What operations are called; may be empty.
    pub(crate) names: &'a [String],
    pub(crate) steps: &'a [Step],
    pub(crate) outcome: &'a Outcome,
    pub(crate) budget: u64,
}

#[derive(Serialize)]
pub(crate) struct Chart {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    unit: &'static str,
    /// Memory under the plan, as an area; and without relief, as a line.
    area: String,
    plain: String,
    budget_y: f64,
    y_ticks: Vec<Tick>,
    x_ticks: Vec<Tick>,
    lanes: Vec<Lane>,
    /// What left longest for its bytes.
    left_most: Vec<Left>,
}

#[derive(Serialize)]
struct Lane {
    name: &'static str,
    colour: usize,
    y: f64,
    bars: Vec<Bar>,
    /// All of them as one path where there are too many.
    path: String,
}

#[derive(Serialize)]
struct Bar {
    x: f64,
    width: f64,
    title: String,
}

/// A storage that was away for a while.
#[derive(Serialize)]
struct Left {
    what: String,
    bytes: String,
    how: &'static str,
    from: String,
    to: String,
    #[serde(skip)]
    weight: u128,
}

impl Drawn<'_> {
    fn bytes(&self, storage: u32) -> u64 {
        self.graph.storages()[storage as usize].bytes
    }

    fn encoded(&self, storage: u32) -> u64 {
        self.graph.storages()[storage as usize].encoding.map_or(0, |encoding| encoding.bytes)
    }

    fn operation(&self, operation: u32) -> String {
        let name = self.names.get(operation as usize).filter(|name| !name.is_empty());
        name.map_or_else(
            || format!("operation {operation}"),
            |name| format!("{name} ({operation})"),
        )
    }

    /// What a storage is: the output of the first operation that writes it.
    fn storage(&self, storage: u32) -> String {
        let writes =
            |operation: &&zico_plan::relief::Operation| operation.writes.contains(&storage);
        let initial = self.graph.storages()[storage as usize].initial;
        let writer = self.graph.operations().iter().position(|operation| writes(&operation));
        match writer.and_then(|at| u32::try_from(at).ok()).filter(|_| !initial) {
            Some(writer) => format!("storage {storage} of {}", self.operation(writer)),
            None => format!("storage {storage}"),
        }
    }

    /// The bytes in use from each moment on, at whose ends they change.
    fn memory(&self) -> Vec<(u64, u64)> {
        let mut there: Vec<bool> =
            self.graph.storages().iter().map(|one| one.initial && one.alias.is_none()).collect();
        for step in self.steps {
            if let Step::Hosted(storage) = *step {
                there[storage as usize] = false;
            }
        }
        let known = self.graph.storages().iter().zip(&there);
        let first: u64 = known.filter(|(_, there)| **there).map(|(one, _)| one.bytes).sum();
        let mut changes: Vec<(u64, i128)> = Vec::new();
        for (step, span) in self.steps.iter().zip(&self.outcome.spans) {
            let mut change = |at: u64, bytes: u64, comes: bool| {
                changes.push((at, if comes { i128::from(bytes) } else { -i128::from(bytes) }));
            };
            match *step {
                Step::Hosted(_) => {}
                Step::Run(operation) => {
                    for &storage in &self.graph.operations()[operation as usize].writes {
                        if !std::mem::replace(&mut there[storage as usize], true) {
                            change(span.start, self.bytes(storage), true);
                        }
                    }
                }
                Step::Drop(storage) | Step::Out(storage) => {
                    let plain = std::mem::take(&mut there[storage as usize]);
                    let gone = if plain { self.bytes(storage) } else { self.encoded(storage) };
                    change(span.end, gone, false);
                }
                Step::In(storage) => {
                    there[storage as usize] = true;
                    change(span.start, self.bytes(storage), true);
                }
                Step::Encode(storage) => {
                    there[storage as usize] = false;
                    change(span.start, self.encoded(storage), true);
                    change(span.end, self.bytes(storage), false);
                }
                Step::Decode(storage) => {
                    there[storage as usize] = true;
                    change(span.start, self.bytes(storage), true);
                    change(span.end, self.encoded(storage), false);
                }
            }
        }
        // What goes at a moment makes room for what comes then.
        changes.sort_unstable();
        let mut now = i128::from(first);
        let mut all = vec![(0, first)];
        for (at, change) in changes {
            now += change;
            all.push((at, u64::try_from(now).unwrap_or(0)));
        }
        all
    }

    /// The same as it was recorded.
    fn plain(&self) -> Vec<(u64, u64)> {
        let mut at = 0;
        let next = |(bytes, operation): (u64, &zico_plan::relief::Operation)| {
            let from = at;
            at += operation.nanos;
            (from, bytes)
        };
        self.graph.recorded().into_iter().zip(self.graph.operations()).map(next).collect()
    }

    /// What left, and the bars of what ran again, went out and came back.
    fn moves(&self, x: &Axis) -> ([Vec<Bar>; 4], Vec<Left>) {
        let mut bars: [Vec<Bar>; 4] = Default::default();
        let mut away: Vec<Option<(u64, &'static str)>> = vec![None; self.graph.storages().len()];
        // The host has it in its last version.
        let mut hosted = vec![false; away.len()];
        let mut ran = vec![false; self.graph.operations().len()];
        let mut left = Vec::new();
        for (step, span) in self.steps.iter().zip(&self.outcome.spans) {
            let mut bar = |lane: usize, what: String| {
                let from = x.at(milliseconds(span.start));
                let width = round(x.at(milliseconds(span.end)) - from).max(0.3);
                bars[lane].push(Bar {
                    x: from,
                    width,
                    title: format!("{what}, {}", time(span.start)),
                });
            };
            let said = |storage: u32| {
                format!("{}, {}", self.storage(storage), Bytes::new(self.bytes(storage)))
            };
            let mut back = |storage: u32| {
                if let Some((from, how)) = away[storage as usize].take() {
                    let bytes = self.bytes(storage);
                    left.push(Left {
                        what: self.storage(storage),
                        bytes: Bytes::new(bytes).to_string(),
                        how,
                        from: time(from),
                        to: time(span.start),
                        weight: u128::from(bytes) * u128::from(span.start.saturating_sub(from)),
                    });
                }
            };
            match *step {
                Step::Run(operation) => {
                    if std::mem::replace(&mut ran[operation as usize], true) {
                        bar(0, format!("{} runs again", self.operation(operation)));
                    }
                    for &storage in &self.graph.operations()[operation as usize].writes {
                        hosted[storage as usize] = false;
                        back(storage);
                    }
                }
                Step::Hosted(storage) => {
                    hosted[storage as usize] = true;
                    away[storage as usize] = Some((0, "host"));
                }
                Step::Drop(storage) => {
                    let way = if hosted[storage as usize] { "host" } else { "run again" };
                    away[storage as usize] = Some((span.end, way));
                }
                Step::Out(storage) => {
                    hosted[storage as usize] = true;
                    bar(1, said(storage));
                    away[storage as usize] = Some((span.end, "host"));
                }
                Step::In(storage) => {
                    bar(2, said(storage));
                    back(storage);
                }
                Step::Encode(storage) => {
                    bar(3, said(storage));
                    away[storage as usize] = Some((span.end, "encoded"));
                }
                Step::Decode(storage) => {
                    bar(3, said(storage));
                    back(storage);
                }
            }
        }
        left.sort_by_key(|one| std::cmp::Reverse(one.weight));
        left.truncate(LISTED);
        (bars, left)
    }
}

fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn time(nanos: u64) -> String {
    format!("{:.3} ms", milliseconds(nanos))
}

/// The picture of a plan.
pub(crate) fn chart(drawn: &Drawn<'_>) -> Chart {
    const NAMES: [&str; 4] = ["run again", "to the host", "from the host", "encode, decode"];
    let end = milliseconds(drawn.outcome.nanos.max(drawn.graph.nanos())).max(1e-6);
    let x = Axis { ends: (LEFT, RIGHT), figures: (0.0, end) };
    let most = drawn.graph.peak().max(drawn.budget).max(1);
    let (unit, scale) = unit(most);
    let most = most as f64 / scale;
    let y = Axis { ends: (TOP + HEIGHT, TOP), figures: (0.0, most * 1.06) };
    let line = |all: &[(u64, u64)]| {
        let mut path = String::new();
        for (at, bytes) in columns(all, &x) {
            let _ = write!(path, "H{at}V{}", y.at(bytes as f64 / scale));
        }
        path
    };
    let bottom = TOP + HEIGHT;
    let finish = x.at(milliseconds(drawn.outcome.nanos));
    let area = format!("M{LEFT},{bottom}{}H{finish}V{bottom}Z", line(&drawn.memory()));
    let (bars, left_most) = drawn.moves(&x);
    let used = bars.into_iter().zip(NAMES).enumerate().filter(|(_, (bars, _))| !bars.is_empty());
    let lanes: Vec<Lane> = used
        .enumerate()
        .map(|(row, (colour, (bars, name)))| lane(row, colour + 1, name, bars))
        .collect();
    Chart {
        width: WIDTH,
        height: bottom + GAP + LANE * lanes.len() as f64,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        bottom,
        unit,
        area,
        plain: format!("M{LEFT},{bottom}{}", line(&drawn.plain())),
        budget_y: y.at(drawn.budget as f64 / scale),
        y_ticks: y.ticks(most, 5.0, ""),
        x_ticks: x.ticks(end, 6.0, " ms"),
        lanes,
        left_most,
    }
}

fn lane(row: usize, colour: usize, name: &'static str, bars: Vec<Bar>) -> Lane {
    let y = TOP + HEIGHT + GAP + LANE * row as f64;
    let mut path = String::new();
    if bars.len() <= TITLED {
        return Lane { name, colour, y, bars, path };
    }
    for Bar { x, width, .. } in bars {
        let _ = write!(path, "M{x},{y}h{width}v12h-{width}Z");
    }
    Lane { name, colour, y, bars: Vec::new(), path }
}

/// The most bytes in each pixel.
fn columns(all: &[(u64, u64)], x: &Axis) -> Vec<(f64, u64)> {
    let mut columns: Vec<(f64, u64)> = Vec::new();
    for &(at, bytes) in all {
        let at = x.at(milliseconds(at)).floor().max(x.ends.0);
        match columns.last_mut() {
            Some((last, most)) if *last >= at => *most = bytes.max(*most),
            _ => columns.push((at, bytes)),
        }
    }
    columns
}

/// The largest unit of which there is one.
fn unit(bytes: u64) -> (&'static str, f64) {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let found = units.into_iter().find(|&(_, unit)| bytes >= unit).unwrap_or(("B", 1));
    (found.0, found.1 as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_plan::relief::{Link, Operation, Storage, simulate};

    use super::*;

    #[test]
    fn memory_over_time_and_what_left() {
        let run = |reads: &[u32], write| Operation {
            reads: reads.to_vec(),
            writes: vec![write],
            nanos: 1_000_000,
            repeatable: true,
        };
        let storages = vec![Storage::new(1 << 20); 4];
        let operations = vec![run(&[], 0), run(&[0], 1), run(&[1], 2), run(&[0, 2], 3)];
        let graph = Graph::new(storages, operations).unwrap();
        let steps = [
            Step::Run(0),
            Step::Run(1),
            Step::Out(0),
            Step::Run(2),
            Step::Drop(1),
            Step::In(0),
            Step::Run(3),
        ];
        let link = Link::symmetric(1 << 32);
        let outcome = simulate(&graph, &link, &steps, 3 << 20).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let drawn = Drawn {
            graph: &graph,
            names: &names,
            steps: &steps,
            outcome: &outcome,
            budget: 3 << 20,
        };
        let memory = drawn.memory();
        assert_eq!(memory.iter().map(|point| point.1).max(), Some(outcome.peak));
        assert_eq!(memory.last().map(|point| point.1), Some(3 << 20));
        let chart = chart(&drawn);
        let lanes: Vec<_> = chart.lanes.iter().map(|lane| (lane.name, lane.bars.len())).collect();
        assert_eq!(lanes, [("to the host", 1), ("from the host", 1)]);
        assert!(chart.lanes[0].bars[0].title.starts_with("storage 0 of a (0), 1 MiB, 2.000 ms"));
        assert_eq!(chart.left_most.len(), 1);
        assert_eq!((chart.left_most[0].how, chart.left_most[0].bytes.as_str()), ("host", "1 MiB"));
    }
}
