//! The loop at work in a scripted world.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod crashes;
mod memory;
mod patience;
mod talk;
mod tools;
mod world;
