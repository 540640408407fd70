//! Requests: bodies and queries that clients send, with the rules they must keep.
//!
//! serde reads the members, `reader` adds paths and stable codes to refusals, `bounds` has every limit.

pub mod bounds;
pub(crate) mod code;
pub(crate) mod file_body;
pub(crate) mod files;
pub(crate) mod git;
pub(crate) mod gui;
mod nearest;
mod paths;
mod privileged;
pub(crate) mod query;
mod reader;
mod refusal;
pub(crate) mod schedule;
mod schedule_rules;
pub(crate) mod session;

#[cfg(test)]
mod schedule_tests;
