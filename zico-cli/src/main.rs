//! The program `zico`.

use std::process::ExitCode;

use clap::Parser;
use zico_cli::args::Args;

fn main() -> ExitCode {
    zico_cli::run(&Args::parse()).into()
}
