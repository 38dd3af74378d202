//! The importers keep a bounded amount of a file's text, for any file.

use zico_cli::import::kineto::{KinetoError, LONGEST_ID, MAX_THREADS};

use crate::profile::{annotation, memory, message, op, read, short};

/// The same event, of another thread.
fn of_thread(event: &str, pid: &str, tid: &str) -> String {
    event
        .replace("\"pid\": 1", &format!("\"pid\": {pid}"))
        .replace("\"tid\": 1", &format!("\"tid\": {tid}"))
}

/// A profile that is understood, and then these events.
fn with(more: impl IntoIterator<Item = String>) -> Vec<String> {
    let whole =
        [annotation("iteration", "100", "100"), memory("110", 8, 64), memory("150", 8, -64)];
    whole.into_iter().chain(more).collect()
}

#[test]
fn a_threads_name_is_no_longer_than_a_kibibyte() {
    let name = |length: usize| format!("\"{}\"", "A".repeat(length - 2));
    let (long, longer) = (name(LONGEST_ID), name(LONGEST_ID + 1));
    for event in [op("160", "5"), memory("160", 9, 16)] {
        let fits = read(&with([of_thread(&event, &long, &long)]));
        assert_eq!(short(&fits.unwrap()).len(), 2);
        for (field, pid, tid) in [("pid", &longer, &long), ("tid", &long, &longer)] {
            let error = read(&with([of_thread(&event, pid, tid)])).unwrap_err();
            let KinetoError::LongId { record: 3, field: found, length: 1025 } = error else {
                panic!("{error:?}")
            };
            assert_eq!(found, field);
            let expected =
                format!("record 3: {field} has 1025 bytes, and 1024 is the most that is accepted");
            assert_eq!(message(&error), expected);
        }
    }
}

/// Many short names take as much as a few long ones.
#[test]
fn the_threads_of_a_profile_are_counted() {
    let thread = |number: usize| of_thread(&op("160", "5"), "7", &number.to_string());
    // The memory events are of one more thread.
    let fits = with((1..MAX_THREADS).map(thread));
    assert_eq!(short(&read(&fits).unwrap()).len(), 2);
    // One that is known already is none more.
    assert!(read(&[&fits[..], &[thread(5)]].concat()).is_ok());
    let error = read(&[&fits[..], &[thread(MAX_THREADS)]].concat()).unwrap_err();
    let KinetoError::TooManyThreads { record } = error else { panic!("{error:?}") };
    assert_eq!(record as usize, fits.len());
    assert!(message(&error).contains("the 16384 that are accepted"), "{error}");
}
