//! Entry point: the role is the first argument.
fn main() {}
