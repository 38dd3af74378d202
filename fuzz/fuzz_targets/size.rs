//! Sizes, budgets and durations of any text are values or errors in words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_cli::size::{budget, duration, size};

fuzz_target!(|text: &str| {
    match size(text) {
        Ok(bytes) => assert!(!bytes.is_zero()),
        Err(words) => assert!(words.contains("such as")),
    }
    let _ = budget(text);
    let _ = duration(text);
});
