//! The `sandyard` command.
fn main() {}
