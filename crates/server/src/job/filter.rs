//! Which jobs a list holds.

use super::request::JobKind;
use super::state::JobState;

/// Which jobs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these states; empty means all.
    pub states: Vec<JobState>,
    /// Only this kind.
    pub kind: Option<JobKind>,
}
