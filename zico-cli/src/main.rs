//! The program `zico`.
fn main() {}
