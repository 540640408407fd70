//! Why a job failed.

use serde::{Deserialize, Serialize};

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// Stable, snake_case.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
