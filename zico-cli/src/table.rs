//! Tables for people.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};

use crate::terminal::line;

/// A table whose first column is text and whose others are figures, such as can be pasted into a
/// document.
#[derive(Debug)]
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Each cell is one line, whatever it holds.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells.into_iter().map(|cell| line(&cell).into_owned()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An empty one.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Table(table)
}

/// Eight levels of bar, one character a value: the wave as a small plot.
pub(crate) fn sparkline(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let bar =
        |value: u64| BARS[usize::try_from(value.saturating_mul(7) / most).unwrap_or(0).min(7)];
    values.iter().map(|&value| bar(value)).collect()
}

/// Breaks a sentence into lines of at most 80 characters.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.len() - 1;
        if lines[line].len() + word.len() >= 80 {
            lines.push(word.to_owned());
        } else {
            let gap = if lines[line].is_empty() { "" } else { " " };
            lines[line] += &format!("{gap}{word}");
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_its_values() {
        assert_eq!(sparkline(&[0, 7, 14, 3]), "▁▄█▂");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[u64::MAX, 1]).chars().count(), 2);
    }
}
