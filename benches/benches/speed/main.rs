//! The time that zico and its peers take, in one run:
//!
//! ```text
//! cargo bench -p zico-bench --bench speed               # everything
//! cargo bench -p zico-bench --bench speed -- peers
//! ```
//!
//! `docs/benchmarks.md` says what the tables mean.

mod limit;
mod measure;
mod paths;
mod peers;
mod player;
mod shadow;
mod threads;
mod versus;

use zico_bench::speed::Outcome;

type Part = fn() -> Outcome<()>;

fn main() -> Outcome<()> {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|part| part != "--bench").collect();
    let parts: [(&str, Part); 5] = [
        ("peers", versus::synthetic),
        ("traces", versus::recorded),
        ("planned", versus::planned),
        ("threads", threads::run),
        ("paths", paths::run),
    ];
    if let Some(unknown) = wanted.iter().find(|part| !parts.iter().any(|(name, _)| name == part)) {
        let names = parts.map(|(name, _)| name).join(", ");
        return Err(format!("there is no part \"{unknown}\"; there are {names}").into());
    }
    for (name, run) in parts {
        if wanted.is_empty() || wanted.iter().any(|part| part == name) {
            run()?;
        }
    }
    Ok(())
}
