//! The command as scripts and people use it: the real binary against a real server on the fake driver.
//!
//! Each test has its own yard, home and port. What is asserted is what scripts rely on: exit code, standard output
//! alone for data, standard error for everything else.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod files;
mod inputs;
mod jobs;
mod person;
mod refusals;
mod screens;
mod served;
mod snapshots;
mod tasks;
mod terminal;
