//! The filter of a list of jobs.

use super::request::JobKind;
use super::state::JobState;

/// Selects the jobs of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these states; empty means all.
    pub states: Vec<JobState>,
    /// Only jobs of this kind; `None` means all.
    pub kind: Option<JobKind>,
}
