//! A memory snapshot of any bytes is a trace or a typed error; a trace survives being written and read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_cli::import::{Before, Options, Recorded};
use zico_core::{Bytes, Lifetime};
use zico_mock::trace::{Step, Trace};

fuzz_target!(|bytes: &[u8]| {
    // The device and what was in use before are the user's: some of each, as the bytes have it.
    let given = bytes.last().copied().unwrap_or(0);
    let options = Options {
        device_index: (given & 1 == 1).then_some(u32::from(given >> 5)),
        kept_before: (given & 2 == 2).then(|| Bytes::new(u64::MAX >> (given >> 2))),
    };
    let read = zico_cli::import::snapshot::read(bytes, "fuzz".to_owned(), String::new(), &options);
    if let Ok(Recorded { trace, origin }) = read {
        let mut written = Vec::new();
        trace.write(&mut written).expect("a vector takes everything");
        let again = Trace::read(written.as_slice()).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{trace:?}"));
        let _ = trace.stats();
        assert!(!origin.lines().is_empty());
        // What was in use before is in the trace, or was freed before the first iteration.
        let first = trace.setup().first().map(|step| match *step {
            Step::Alloc { bytes, lifetime, .. } => (bytes, lifetime),
            _ => panic!("a setup allocates"),
        });
        let Before { bytes, block, .. } = origin.before;
        assert!(block <= bytes);
        assert!(block == Bytes::ZERO || first == Some((block, Lifetime::Persistent)));
    }
});
