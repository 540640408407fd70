//! The lease that gives a job to one server for a time.

use crate::job::JobRow;

/// The owner of a job, and the end of the ownership by the clock of leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobLease {
    pub(crate) owner: Option<String>,
    pub(crate) until_ms: i64,
}

/// A row with its lease.
#[derive(Debug, Clone)]
pub(crate) struct LeasedJob {
    pub(crate) row: JobRow,
    pub(crate) lease: JobLease,
}

impl JobLease {
    /// The lease of a job that nobody owns.
    pub(crate) fn free() -> Self {
        Self::default()
    }

    pub(super) fn is_free(&self, now_ms: i64) -> bool {
        self.owner.is_none() || self.until_ms <= now_ms
    }
}
