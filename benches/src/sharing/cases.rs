//! Every pair of recorded jobs and fifteen triples, at five budgets, under every policy.

use std::error::Error;
use std::fmt::Write;

use zico_mock::replay::{Figures, PolicyKind, ReplayError, Trial};

use super::{Set, bundled_traces, in_parallel, name, pairs};
use crate::table::table;

const BUDGETS: [f64; 5] = [0.05, 0.1, 0.25, 0.5, 0.75];

/// Zico is said to be behind from here on.
const BEHIND: f64 = 0.99;

const HEADER: [&str; 9] = [
    "jobs",
    "f",
    "zico",
    "best other",
    "its policy",
    "ratio",
    "violations",
    "deadlocks",
    "iterations",
];

/// Eight of the traces, by their numbers in the order of the names: without gcn, unet and
/// whisper-tiny.
const EIGHT: [usize; 8] = [0, 1, 3, 4, 5, 6, 7, 8];

/// The triples with gcn (2), unet (9) and whisper-tiny (10): all of them, and the rest with jobs of
/// other lengths and peaks.
const WITH_THE_OTHERS: [[usize; 3]; 5] = [[2, 9, 10], [1, 2, 6], [2, 4, 5], [0, 8, 9], [3, 7, 10]];

/// Triples of the traces in the order of their names. Of all but gcn, unet and whisper-tiny,
/// numbered 0 to 7: n, n + 1 and n + 3 for each n, counted round, so that each trace is in three of
/// them and no two share a pair; and two more, for two of the pairs that lie four apart, which are
/// in none of these. Then five with the other three traces.
#[must_use]
pub fn triples() -> Vec<Vec<usize>> {
    let mut eight: Vec<[usize; 3]> = (0..8).map(|n| [n, (n + 1) % 8, (n + 3) % 8]).collect();
    eight.extend([[0, 2, 4], [3, 5, 7]]);
    let eight = eight.into_iter().map(|triple| triple.map(|n| EIGHT[n]).to_vec());
    eight.chain(WITH_THE_OTHERS.map(|triple| triple.to_vec())).collect()
}

/// One policy on one set under one budget.
struct Tried {
    policy: PolicyKind,
    figures: Option<Figures>,
    violations: u64,
    stuck: bool,
    reason: Option<String>,
}

/// The table of all cases, what it comes to, and where zico is behind.
///
/// # Errors
/// If a replay fails for a reason that is not the policy's: a defect.
pub fn cases(iterations: u64) -> Result<String, Box<dyn Error>> {
    let traces = bundled_traces()?;
    let sets = Set::all(&traces, &[pairs(traces.len()), triples()].concat(), iterations)?;
    let mut work = Vec::new();
    for set in &sets {
        for f in BUDGETS {
            work.extend(PolicyKind::ALL.map(|policy| (set, f, policy)));
        }
    }
    let tried = in_parallel("cases", &work, |&(set, f, policy)| {
        let trial = set.under(policy, f)?;
        Ok(Tried {
            policy,
            figures: set.figures(&trial),
            violations: trial.violations(),
            stuck: matches!(trial, Trial::Stuck { .. }),
            reason: trial.reason().map(ToOwned::to_owned),
        })
    });
    let tried: Vec<Tried> = tried.into_iter().collect::<Result<_, ReplayError>>()?;
    let mut summary = Summary::default();
    let mut all = table(&HEADER);
    for (work, tried) in work.chunks(PolicyKind::ALL.len()).zip(tried.chunks(PolicyKind::ALL.len()))
    {
        all.add_row(summary.row(&work[0].0.name, work[0].1, tried));
    }
    Ok(format!("{all}\n\n{}", summary.text()?))
}

/// What all cases come to.
#[derive(Default)]
struct Summary {
    cases: usize,
    replays: usize,
    violations: u64,
    deadlocks: usize,
    /// How often each policy could not run.
    unfit: Vec<(PolicyKind, usize)>,
    /// Why zico could not.
    broken: Vec<String>,
    /// The rows in which zico is behind.
    behind: Vec<[String; 6]>,
}

impl Summary {
    /// The row of one case: what each policy came to, in the order of all policies.
    fn row(&mut self, jobs: &str, f: f64, tried: &[Tried]) -> Vec<String> {
        let violations: u64 = tried.iter().map(|tried| tried.violations).sum();
        let deadlocks = tried.iter().filter(|tried| tried.stuck).count();
        self.cases += 1;
        self.replays += tried.len();
        self.violations += violations;
        self.deadlocks += deadlocks;
        for tried in tried.iter().filter(|tried| tried.figures.is_none()) {
            match self.unfit.iter_mut().find(|(policy, _)| *policy == tried.policy) {
                Some((_, times)) => *times += 1,
                None => self.unfit.push((tried.policy, 1)),
            }
        }
        let throughput = |tried: &Tried| Some(tried.figures.as_ref()?.throughput);
        let zico = tried.iter().find(|tried| tried.policy == PolicyKind::Zico);
        let own = zico.and_then(throughput);
        if let Some(reason) = zico.and_then(|zico| zico.reason.as_ref()) {
            self.broken.push(format!("{jobs} at f = {f}: {reason}"));
        }
        let others = tried.iter().filter(|tried| tried.policy != PolicyKind::Zico);
        let best = others
            .filter_map(|tried| Some((throughput(tried)?, tried.policy)))
            // The first of several that are the same.
            .reduce(|best, other| if other.0 > best.0 { other } else { best });
        let figure = |figure: Option<f64>| figure.map_or_else(dash, |x| format!("{x:.3}"));
        let ratio = own.zip(best).map(|(own, (best, _))| own / best);
        let row = [
            jobs.to_owned(),
            f.to_string(),
            figure(own),
            figure(best.map(|best| best.0)),
            best.map_or_else(dash, |best| name(best.1).to_owned()),
            figure(ratio),
        ];
        if ratio.is_some_and(|ratio| ratio < BEHIND) {
            self.behind.push(row.clone());
        }
        let iterations = zico.and_then(|zico| Some(zico.figures.as_ref()?.iterations.to_string()));
        let rest = [violations.to_string(), deadlocks.to_string(), iterations.unwrap_or_else(dash)];
        row.into_iter().chain(rest).collect()
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = format!(
            "{} cases, {} replays: {} violations, {} deadlocks.",
            self.cases, self.replays, self.violations, self.deadlocks
        );
        for (policy, times) in &self.unfit {
            write!(text, " The budget was too small for {} in {times}.", name(*policy))?;
        }
        for reason in &self.broken {
            write!(text, "\nzico did not run: {reason}")?;
        }
        writeln!(text, "\nzico is more than 1% below another policy in {}:\n", self.behind.len())?;
        let mut behind = table(&[&HEADER[..6], &["reason"]].concat());
        for row in &self.behind {
            behind.add_row(row.iter().cloned().chain([String::new()]));
        }
        write!(text, "{behind}")?;
        Ok(text)
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pairs there are in some triples.
    fn pairs_in(triples: &[Vec<usize>]) -> usize {
        let pair = |triple: &Vec<usize>| {
            let ends = pairs(3).into_iter().map(|pair| (triple[pair[0]], triple[pair[1]]));
            ends.map(|(one, other)| (one.min(other), one.max(other))).collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, usize)> = triples.iter().flat_map(pair).collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.iter().all(|(one, other)| one < other));
        all.len()
    }

    #[test]
    fn each_trace_is_in_two_triples_or_more() {
        let names: Vec<&str> = zico_mock::bundled::names().collect();
        let others = [2, 9, 10].map(|trace| names[trace]);
        assert_eq!(others, ["gcn", "unet", "whisper-tiny"], "what the numbers stand for");
        let triples = triples();
        assert_eq!(
            (triples.len(), pairs_in(&triples[..8]), pairs_in(&triples[..10])),
            (15, 24, 26)
        );
        // Of the fifteen pairs of the last five only two are in others.
        assert_eq!(pairs_in(&triples), 26 + 13);
        for trace in 0..names.len() {
            let with = triples.iter().filter(|triple| triple.contains(&trace)).count();
            assert!(with >= if EIGHT.contains(&trace) { 3 } else { 2 }, "{trace}: {with}");
        }
        assert_eq!(pairs(names.len()).len(), 55);
    }

    #[test]
    fn a_row_names_the_best_of_the_others() {
        let tried = |policy, throughput: Option<f64>, violations| Tried {
            policy,
            figures: throughput.map(|throughput| Figures {
                throughput,
                relative: vec![throughput],
                fairness: 1.0,
                start_delay: 0.0,
                stalled: 0.0,
                iterations: 42,
                memory_calls: 0.0,
            }),
            violations,
            stuck: false,
            reason: None,
        };
        let mut summary = Summary::default();
        let mut row = |zico| {
            let others = [
                tried(PolicyKind::Spatial, Some(1.2), 1),
                tried(PolicyKind::TickTock, Some(1.5), 0),
                tried(PolicyKind::SalusPack, Some(1.5), 0),
                Tried { stuck: true, ..tried(PolicyKind::Static, None, 2) },
            ];
            let all: Vec<Tried> =
                others.into_iter().chain([tried(PolicyKind::Zico, zico, 0)]).collect();
            summary.row("a + b", 0.5, &all)
        };
        let level = ["a + b", "0.5", "1.490", "1.500", "tick-tock", "0.993", "3", "1", "42"];
        assert_eq!(row(Some(1.49)), level);
        assert_eq!(row(Some(1.2))[5], "0.800");
        assert_eq!(row(None)[2..6], ["-", "1.500", "tick-tock", "-"]);
        assert_eq!((summary.cases, summary.replays, summary.violations), (3, 15, 9));
        assert_eq!((summary.deadlocks, summary.behind.len()), (3, 1));
        assert_eq!(summary.unfit, [(PolicyKind::Static, 3), (PolicyKind::Zico, 1)]);
    }
}
