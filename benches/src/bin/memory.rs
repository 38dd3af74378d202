//! What zico and its peers hold for one recorded job alone: the most held over the most alive, over
//! the whole run, that is the setup and all recorded iterations; *planned*: in the last one, when
//! it follows a plan.
//!
//! *Program order*: the device has passed a free when it is made. *Told sizes only*: the same, and
//! zico is told as little as its peers and learns lifetimes. *One arena*: it does not even do that.
//! *On a device*: with lifetimes, on the mock device, behind which the host runs ahead by 64
//! launches; what is held is the physical memory that the pool has created, at its most over eight
//! iterations. The models say in their modules what they leave out.
//!
//! ```text
//! cargo run --release -p zico-bench --bin memory
//! ```

use std::error::Error;

use zico_bench::table::table;
use zico_bench::zico::{self, Told};
use zico_bench::{Peaks, Policy, best_fit, bfc, caching, cnmem, expandable, run};
use zico_core::{Bytes, PoolConfig};
use zico_mock::bundled;

const HEADER: [&str; 14] = [
    "trace",
    "live MiB",
    "zico, program order",
    "zico, told sizes only",
    "zico, one arena",
    "zico, last planned iteration",
    "zico, whole replay on a device, no plans",
    "zico, whole replay on a device, plans",
    "the same, regions as for 80 and 192 GiB",
    "PyTorch, expandable",
    "PyTorch, default",
    "best fit, one arena",
    "CNMeM",
    "TensorFlow BFC",
];

const STRANDED: [&str; 4] = ["trace", "zico, told lifetimes", "told sizes only", "one arena"];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut held, mut stranded) = (table(&HEADER), table(&STRANDED));
    for name in bundled::names() {
        let trace = bundled::open(name)?;
        let model = |mut policy: Box<dyn Policy>| run(&trace, policy.as_mut());
        let alone = [
            zico::in_program_order(&trace, Told::Lifetimes)?,
            zico::in_program_order(&trace, Told::Sizes)?,
            zico::in_program_order(&trace, Told::Nothing)?,
        ];
        let peers = [
            zico::planned(&trace)?,
            zico::on_a_device(&trace, zico::REGION, false)?,
            zico::on_a_device(&trace, zico::REGION, true)?,
            zico::on_a_device(
                &trace,
                PoolConfig::new(Bytes::gib(80)).region_for(zico::REGION),
                true,
            )?,
            model(Box::<expandable::Expandable>::default()),
            model(Box::<caching::Caching>::default()),
            model(Box::<best_fit::BestFit>::default()),
            model(Box::<cnmem::Cnmem>::default()),
            model(Box::<bfc::Bfc>::default()),
        ];
        let live = format!("{:.0}", mib(trace.stats().peak.value()));
        let over = |peaks: Peaks| format!("{:.3}", peaks.held as f64 / peaks.live as f64);
        let ours = alone.map(|alone| over(alone.peaks));
        held.add_row([name.to_owned(), live].into_iter().chain(ours).chain(peers.map(over)));
        let left = alone.map(|alone| format!("{:.1}", mib(alone.stranded)));
        stranded.add_row([name.to_owned()].into_iter().chain(left));
    }
    println!("Held over live, both at their peaks:\n\n{held}\n");
    println!("Held between iterations and in no block, MiB at most:\n\n{stranded}");
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
