//! The figures of relief: strategies side by side at each budget.

use std::io::Write;

use serde::Serialize;
use zico_core::Bytes;
use zico_plan::relief::{Outcome, Step};

use crate::failure::Failure;
use crate::table::table;

/// What the columns of a table are.
pub(crate) const HEADER: [&str; 9] = [
    "strategy",
    "budget",
    "time",
    "over the bound",
    "peak",
    "moved",
    "recomputed s",
    "checked",
    "planned in s",
];

/// What is said below it.
pub(crate) const LEGEND: &str = "time: of the iteration, over that without relief";

/// What comes of all strategies at all budgets.
#[derive(Debug, Serialize)]
pub(crate) struct ReliefSummary {
    pub(crate) name: String,
    pub(crate) operations: usize,
    pub(crate) storages: usize,
    /// As the program was recorded.
    pub(crate) peak_bytes: u64,
    /// No plan fits in less.
    pub(crate) working_set_bytes: u64,
    /// No plan fits in less that leaves all on the device that is there before the iteration and
    /// after it.
    pub(crate) resident_set_bytes: u64,
    /// Each operation once.
    pub(crate) seconds: f64,
    pub(crate) rows: Vec<ReliefRow>,
}

/// A strategy at a budget; without figures where it does not fit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReliefRow {
    pub(crate) strategy: &'static str,
    pub(crate) budget_bytes: u64,
    pub(crate) feasible: bool,
    pub(crate) seconds: Option<f64>,
    pub(crate) peak_bytes: Option<u64>,
    /// Over the link, both ways.
    pub(crate) moved_bytes: Option<u64>,
    pub(crate) recomputed_seconds: Option<f64>,
    /// None where no plan at all fits in the budget.
    pub(crate) lower_bound_seconds: Option<f64>,
    /// Whether the checker agrees.
    pub(crate) checked: bool,
    pub(crate) plan_seconds: f64,
}

impl ReliefSummary {
    pub(crate) fn print(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(
            out,
            "{}: {} operations, {} storages, {} at the peak, {:.6} s",
            crate::terminal::line(&self.name),
            self.operations,
            self.storages,
            Bytes::new(self.peak_bytes),
            self.seconds
        )?;
        let mut rows = table(&HEADER);
        for row in &self.rows {
            rows.add_row(row.cells(self.seconds));
        }
        writeln!(out, "{rows}")?;
        writeln!(out, "{LEGEND}")?;
        if self.rows.iter().any(|row| row.budget_bytes < self.working_set_bytes) {
            // In full as well: the least is to be asked for, and is rounded otherwise.
            let least = Bytes::new(self.working_set_bytes);
            writeln!(
                out,
                "No plan fits in less than {} B ({least}): an operation needs all that it reads and \
                 writes at once.",
                self.working_set_bytes
            )?;
        }
        let moves = self.working_set_bytes < self.resident_set_bytes;
        if moves && self.rows.iter().any(|row| row.budget_bytes < self.resident_set_bytes) {
            let resident = Bytes::new(self.resident_set_bytes);
            writeln!(
                out,
                "Below {} B ({resident}) parameters and what else is there before and after the \
                 iteration have to be on the host for a part of it: the strategies zico and \
                 zico-lossy do that.",
                self.resident_set_bytes
            )?;
        }
        Ok(())
    }
}

impl ReliefRow {
    /// The row as text, beside [`HEADER`].
    pub(crate) fn cells(&self, base: f64) -> [String; 9] {
        let budget = Bytes::new(self.budget_bytes).to_string();
        let none = || "-".to_owned();
        let ratio = |one: Option<f64>, other: f64| {
            one.map_or_else(none, |one| {
                format!("{:.4}", if other > 0.0 { one / other } else { 1.0 })
            })
        };
        let size =
            |bytes: Option<u64>| bytes.map_or_else(none, |bytes| Bytes::new(bytes).to_string());
        let time =
            if self.feasible { ratio(self.seconds, base) } else { "does not fit".to_owned() };
        let checked = match (self.feasible, self.checked) {
            (true, true) => "yes",
            (true, false) => "NO",
            (false, _) => "-",
        };
        [
            self.strategy.to_owned(),
            budget,
            time,
            self.lower_bound_seconds.map_or_else(none, |bound| ratio(self.seconds, bound)),
            size(self.peak_bytes),
            size(self.moved_bytes),
            self.recomputed_seconds.map_or_else(none, |seconds| format!("{seconds:.6}")),
            checked.to_owned(),
            format!("{:.3}", self.plan_seconds),
        ]
    }
}

/// A plan with its times.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) strategy: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) outcome: Outcome,
}
