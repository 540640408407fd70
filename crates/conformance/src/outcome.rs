//! Outcomes of checks.

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Id and name, such as `K2.CapEff`.
    pub check: String,
    /// True if the check passed.
    pub passed: bool,
    /// Observed value.
    pub found: String,
}

impl CheckOutcome {
    /// Creates an outcome.
    pub fn new(check: impl Into<String>, passed: bool, found: impl Into<String>) -> Self {
        Self { check: check.into(), passed, found: found.into() }
    }
}

/// The checks that did not pass, one line each.
pub fn failures(outcomes: &[CheckOutcome]) -> Vec<String> {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed);
    failed.map(|outcome| format!("{}: {}", outcome.check, outcome.found)).collect()
}
