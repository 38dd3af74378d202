//! What holds of every recording that can be read.

use zico_cli::import::{Before, Options, Recorded};
use zico_core::{Bytes, Lifetime};
use zico_mock::trace::{Step, Trace};

/// The device and what was in use before are the user's: some of each, as the bytes have it.
pub fn options(bytes: &[u8]) -> Options {
    let given = bytes.last().copied().unwrap_or(0);
    Options {
        device_index: (given & 1 == 1).then_some(u32::from(given >> 5)),
        kept_before: (given & 2 == 2).then(|| Bytes::new(u64::MAX >> (given >> 2))),
    }
}

/// It survives being written and read, and what was in use before is in it, or was freed before the
/// first iteration.
pub fn holds(Recorded { trace, origin }: &Recorded) {
    let mut written = Vec::new();
    trace.write(&mut written).expect("a vector takes everything");
    let again = Trace::read(written.as_slice()).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{trace:?}"));
    let _ = trace.stats();
    assert!(!origin.lines().is_empty());
    let first = trace.setup().first().map(|step| match *step {
        Step::Alloc { bytes, lifetime, .. } => (bytes, lifetime),
        _ => panic!("a setup allocates"),
    });
    let Before { bytes, block, .. } = origin.before;
    assert!(block <= bytes);
    assert!(block == Bytes::ZERO || first == Some((block, Lifetime::Persistent)));
}
