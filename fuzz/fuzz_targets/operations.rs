//! Any text is an iteration or a typed error, whichever kind of file it looks like: a node-link
//! graph, a log of DTR, an execution trace. What is before a line `---` is a profile with its
//! times.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_cli::relief::{execution::Times, parse};

fuzz_target!(|text: &str| {
    let (profile, text) = text.split_once("\n---\n").unwrap_or(("", text));
    let times = Times::parse(profile).ok();
    if let Ok(input) = parse(text, 1e3, times.as_ref()) {
        let graph = input.graph;
        let bytes: u64 = graph.storages().iter().map(|storage| storage.bytes).sum();
        assert!(graph.peak() <= bytes);
    }
});
