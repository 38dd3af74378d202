//! Sizes, budgets and durations of any text are values or errors in words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_cli::size::{amount, budget, duration, size};

fuzz_target!(|text: &str| {
    match size(text) {
        Ok(bytes) => assert!(!bytes.is_zero()),
        Err(words) => assert!(words.contains("such as")),
    }
    assert_eq!(size(text).ok(), amount(text).ok().filter(|bytes| !bytes.is_zero()));
    let _ = budget(text);
    let _ = duration(text);
});
