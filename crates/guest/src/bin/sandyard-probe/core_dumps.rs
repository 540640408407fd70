//! Tries every way to change the limit of core dumps. At any other value than 1 a crash would run the host's core handler.

use std::fs;

use crate::{ProbeFinding, outcome, sys};

/// Tries to change the limit, and reports what it is afterwards.
pub(crate) fn all() -> Vec<ProbeFinding> {
    let own = std::process::id().cast_signed();
    let attempts = [
        ("setrlimit", sys::CoreLimitCall::Old),
        ("prlimit", sys::CoreLimitCall::OfProcess(0)),
        ("prlimit_by_number", sys::CoreLimitCall::OfProcess(own)),
        ("prlimit_low_address", sys::CoreLimitCall::FromRoundAddress),
    ];
    let mut findings = vec![ProbeFinding::new("K23.limit.first", outcome(sys::core_limit()))];
    for (name, attempt) in attempts {
        // Refused or ignored: what counts is the limit afterwards.
        let _ = sys::lower_core_limit(attempt);
        findings.push(ProbeFinding::new(format!("K23.limit.{name}"), outcome(sys::core_limit())));
    }
    let parts = fs::read_to_string("/proc/self/coredump_filter").map(|text| text.trim().to_owned());
    findings.push(ProbeFinding::new("K23.parts", outcome(parts)));
    findings
}
