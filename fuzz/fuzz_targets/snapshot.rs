//! A memory snapshot of any bytes is a trace or a typed error; a trace survives being written and read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_mock::trace::Trace;

fuzz_target!(|bytes: &[u8]| {
    let read = zico_cli::import::snapshot::read(bytes, "fuzz".to_owned(), String::new());
    if let Ok(trace) = read {
        let mut written = Vec::new();
        trace.write(&mut written).expect("a vector takes everything");
        let again = Trace::read(written.as_slice()).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{trace:?}"));
        let _ = trace.stats();
    }
});
