//! What zico and its peers hold for one recorded job alone: the most held over the most alive, over the
//! whole run, that is the setup and all recorded iterations.
//!
//! *Program order*: the device has passed a free when it is made. *Told sizes only*: the same, and zico
//! is told as little as its peers and learns lifetimes. *One arena*: it does not even do that. *On a device*: with lifetimes, on the mock device, behind which the
//! host runs ahead. The models say in their modules what they leave out.
//!
//! ```text
//! cargo run --release -p zico-bench --bin memory
//! ```

use std::error::Error;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use zico_bench::zico::{self, Told};
use zico_bench::{Peaks, Policy, best_fit, bfc, caching, cnmem, expandable, run};
use zico_mock::bundled;

const HEADER: [&str; 11] = [
    "trace",
    "live MiB",
    "zico, program order",
    "zico, told sizes only",
    "zico, one arena",
    "zico, on a device",
    "PyTorch, expandable",
    "PyTorch, default",
    "best fit, one arena",
    "CNMeM",
    "TensorFlow BFC",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEADER);
    for name in bundled::names() {
        let trace = bundled::open(name)?;
        let model = |mut policy: Box<dyn Policy>| run(&trace, policy.as_mut());
        let peaks = [
            zico::in_program_order(&trace, Told::Lifetimes)?,
            zico::in_program_order(&trace, Told::Sizes)?,
            zico::in_program_order(&trace, Told::Nothing)?,
            zico::on_a_device(&trace)?,
            model(Box::<expandable::Expandable>::default()),
            model(Box::<caching::Caching>::default()),
            model(Box::<best_fit::BestFit>::default()),
            model(Box::<cnmem::Cnmem>::default()),
            model(Box::<bfc::Bfc>::default()),
        ];
        let live = format!("{:.0}", trace.stats().peak.value() as f64 / f64::from(1 << 20));
        let over = |peaks: &Peaks| format!("{:.3}", peaks.held as f64 / peaks.live as f64);
        table.add_row([name.to_owned(), live].into_iter().chain(peaks.iter().map(over)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    Ok(())
}
