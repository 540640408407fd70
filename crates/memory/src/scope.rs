//! Which sources may answer a question.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::source::{SourceOrigin, SourceRecord};

/// Limits of a question. Everything that is not set is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallScope {
    /// Only texts of these origins; all if it is empty.
    pub origins: Vec<SourceOrigin>,
    /// Only sources whose path begins so.
    pub path_prefix: Option<String>,
    /// Only sources with these numbers: journal entries before or after some step.
    pub numbers: Option<RangeInclusive<u64>>,
}

impl RecallScope {
    /// True if a source may answer.
    pub fn admits(&self, source: &SourceRecord) -> bool {
        (self.origins.is_empty() || self.origins.contains(&source.origin))
            && self.path_prefix.as_ref().is_none_or(|prefix| source.path.starts_with(prefix.as_str()))
            && self.numbers.as_ref().is_none_or(|numbers| numbers.contains(&source.id.number))
    }

    /// True if nothing is limited.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}
