//! The `converge` binary.

fn main() {}
