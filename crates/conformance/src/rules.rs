//! Judges findings of the probe by tables of rules.
//!
//! A check that the probe reports and the table does not know fails. So does one that the table knows and the
//! probe does not report.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::CheckOutcome;

/// Results of a system call that the filter refuses: EPERM and ENOSYS.
const REFUSED: [&str; 2] = ["errno 1", "errno 38"];
/// Results of opening a file that is closed: ENOENT, EACCES, EPERM, EROFS, ENXIO, ENOTDIR.
const CLOSED: [&str; 6] = ["errno 2", "errno 13", "errno 1", "errno 30", "errno 6", "errno 20"];
/// Results of connecting to an address that can't be reached: ENETUNREACH, EADDRNOTAVAIL, EHOSTUNREACH,
/// EINVAL (a link-local address without an interface), EAFNOSUPPORT.
const UNREACHABLE: [&str; 5] = ["errno 101", "errno 99", "errno 113", "errno 22", "errno 97"];

/// Rule that judges a finding.
pub(super) enum CheckRule {
    /// The finding is exactly this text.
    Is(&'static str),
    /// The finding is one of these texts.
    OneOf(&'static [&'static str]),
    /// The finding names another namespace than the host's.
    NotTheHosts(&'static str),
    /// The system-call filter refused the call.
    Refused,
    /// The file does not exist or can't be opened.
    Closed,
    /// The file is empty, does not exist or can't be read.
    Empty,
    /// The address can't be reached.
    Unreachable,
    /// The function accepts the finding.
    Holds(fn(&str) -> bool),
}

/// Rules by the beginning of a check's name. The first that fits judges the check.
pub(super) struct RuleTable<'a> {
    /// Rules that replace others for this subject.
    pub(super) first: &'a [(&'a str, CheckRule)],
    /// Rules for every subject.
    pub(super) rules: &'a [(&'a str, CheckRule)],
}

/// One line of the probe's report.
#[derive(Debug, Deserialize)]
struct ProbeFinding {
    check: String,
    result: String,
}

impl RuleTable<'_> {
    /// Judges a report of the probe.
    pub(super) fn judge(&self, report: &str) -> Vec<CheckOutcome> {
        let mut used: BTreeMap<&str, usize> = self.rules.iter().map(|(prefix, _)| (*prefix, 0)).collect();
        let mut outcomes = Vec::new();
        let findings = report.lines().filter_map(|line| serde_json::from_str::<ProbeFinding>(line).ok());
        for ProbeFinding { check, result } in findings {
            match self.first.iter().chain(self.rules).find(|(prefix, _)| check.starts_with(prefix)) {
                Some((prefix, rule)) => {
                    *used.entry(prefix).or_default() += 1;
                    outcomes.push(CheckOutcome::new(check, rule.allows(&result), result));
                }
                None => outcomes.push(CheckOutcome::new(check, false, "no rule judges it")),
            }
        }
        let unused = used.into_iter().filter(|(_, count)| *count == 0);
        outcomes.extend(unused.map(|(prefix, _)| CheckOutcome::new(prefix, false, "was not reported")));
        outcomes
    }
}

impl CheckRule {
    fn allows(&self, result: &str) -> bool {
        match self {
            Self::Is(expected) => result == *expected,
            Self::OneOf(expected) => expected.contains(&result),
            Self::NotTheHosts(name) => result.starts_with(&format!("{name}:[")) && result != hosts(name),
            Self::Refused => REFUSED.contains(&result),
            Self::Closed => CLOSED.contains(&result),
            Self::Empty => result.is_empty() || result == "0 bytes" || CLOSED.contains(&result),
            Self::Unreachable => UNREACHABLE.contains(&result),
            Self::Holds(judge) => judge(result),
        }
    }
}

fn hosts(namespace: &str) -> String {
    let link = std::fs::read_link(Path::new("/proc/self/ns").join(namespace));
    link.map(|link| link.display().to_string()).unwrap_or_default()
}

/// Reports whether a result means that a file does not exist or can't be opened.
pub(super) fn is_closed(result: &str) -> bool {
    CLOSED.contains(&result)
}
