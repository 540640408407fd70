//! Reports from inside a sandbox what the job's code can see and do, one JSON line `{check, result}` for each check.
//!
//! It judges nothing: the conformance suite knows the expected results. Check names begin with the id of the attack they
//! belong to (K2, N1 …). Run with an argument it is one of the small misbehaving programs the suite needs.

mod calls;
mod core_dumps;
mod counters;
mod fill;
mod inodes;
mod misbehave;
mod neighbours;
mod network;
mod places;
mod sys;
mod tree;
mod visible;

use std::io::Write;
use std::process::ExitCode;

/// One line of the report.
pub(crate) struct ProbeFinding {
    check: String,
    result: String,
}

impl ProbeFinding {
    /// Makes a finding from the name of a check and its result.
    pub(crate) fn new(check: impl Into<String>, result: impl Into<String>) -> Self {
        Self { check: check.into(), result: result.into() }
    }
}

/// A result as text: its value, or the number of its error.
pub(crate) fn outcome<T: ToString>(result: std::io::Result<T>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = arguments.first() {
        return misbehave::run(name, arguments.get(1..).unwrap_or_default());
    }
    let mut findings = visible::all();
    findings.extend(calls::all());
    findings.extend(network::all());
    findings.extend(places::all());
    findings.extend(tree::all());
    findings.extend(core_dumps::all());
    findings.extend(counters::all());
    report(&findings)
}

/// Prints the findings as JSON on standard output.
pub(crate) fn report(findings: &[ProbeFinding]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for ProbeFinding { check, result } in findings {
        let line = serde_json::json!({ "check": check, "result": result });
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
