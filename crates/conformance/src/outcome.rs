//! Outcomes of the suite's checks.

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Id and name, such as `K2.CapEff`.
    pub check: String,
    /// True if the check passed.
    pub passed: bool,
    /// Observed value, for the report of a failure.
    pub found: String,
}

impl CheckOutcome {
    /// Records the outcome of a check with the observed value.
    pub fn new(check: impl Into<String>, passed: bool, found: impl Into<String>) -> Self {
        Self { check: check.into(), passed, found: found.into() }
    }
}

/// Returns the checks that did not pass, one line each.
pub fn failures(outcomes: &[CheckOutcome]) -> Vec<String> {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed);
    failed.map(|outcome| format!("{}: {}", outcome.check, outcome.found)).collect()
}
