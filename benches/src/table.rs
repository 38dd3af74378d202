//! Tables as they stand in documents.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table in Markdown whose first column is text and whose others are figures.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
