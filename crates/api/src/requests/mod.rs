//! Requests: read from JSON by hand, so that a refusal says which member, what was expected and what is nearest.

pub mod bounds;
pub(crate) mod code;
pub(crate) mod files;
pub(crate) mod gui;
mod nearest;
mod object;
mod paths;
mod privileged;
pub(crate) mod query;
pub(crate) mod schedule;
mod schedule_members;
pub(crate) mod session;

#[cfg(test)]
mod schedule_tests;
