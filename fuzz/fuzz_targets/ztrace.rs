//! A trace file of any bytes is a trace or a typed error. The content is inside a compressed
//! stream, so the bytes are tried as they are and as the content of one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_mock::trace::Trace;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = Trace::read(bytes) {
        let mut written = Vec::new();
        trace.write(&mut written).expect("a vector takes everything");
        let again = Trace::read(written.as_slice()).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{trace:?}"));
        let _ = trace.stats();
        let _ = trace.wave(0, 60);
        let _ = trace.operations(trace.iterations().len() - 1);
    }
});
