//! Whatever bytes clients send, the broker keeps its promises; whatever bytes a broker sends, a
//! client has a message or a fault.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| zico_tests::requests::bytes(bytes));
