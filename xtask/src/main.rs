//! What a contributor types: `cargo xtask demo|test|bench`.

fn main() {}
