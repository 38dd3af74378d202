//! A memory snapshot of any bytes is a trace or a typed error; a trace survives being written and
//! read.

#![no_main]

mod recording;

use libfuzzer_sys::fuzz_target;
use zico_cli::import::snapshot;

fuzz_target!(|bytes: &[u8]| {
    let options = recording::options(bytes);
    if let Ok(recorded) = snapshot::read(bytes, "fuzz".to_owned(), String::new(), &options) {
        recording::holds(&recorded);
    }
});
