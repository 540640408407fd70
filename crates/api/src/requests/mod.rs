//! Requests: bodies and queries of clients, with their rules.
//!
//! serde reads the members, `reader` adds paths and stable codes to errors, `bounds` has every limit.

pub mod bounds;
pub(crate) mod code;
pub(crate) mod file_body;
pub(crate) mod files;
pub(crate) mod git;
pub(crate) mod gui;
pub(crate) mod nearest;
mod paths;
mod privileged;
pub(crate) mod processes;
pub(crate) mod query;
mod reader;
mod refusal;
pub(crate) mod schedule;
mod schedule_rules;
pub(crate) mod session;

#[cfg(test)]
mod schedule_tests;
