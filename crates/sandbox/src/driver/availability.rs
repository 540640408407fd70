//! A driver's report about itself: whether it opens, whether sandboxes start, and which jobs may get them.

use std::io;

use serde::{Deserialize, Serialize};

/// A driver's report on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// Result of the last attempt to start a sandbox.
    pub verdict: DriverVerdict,
    /// Which jobs get sandboxes of this driver, if sandboxes can start.
    pub offer: Offer,
    /// Version or kernel features if usable, the missing part if not. Printed after a colon: lower case, no full stop. Further
    /// lines are the last that a guest printed.
    pub detail: String,
    /// A remedy for people: a command or a sentence.
    pub fix: Option<String>,
}

/// Result of an attempt to start a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverVerdict {
    /// A sandbox started and answered.
    Usable,
    /// The host has all it needs, but there is no image yet to start a sandbox from. A job waits for an image too.
    Untried,
    /// Sandboxes don't start on this host.
    Missing,
}

/// Jobs that get sandboxes of a usable driver. A job that names the driver always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Every job whose floor it meets.
    Always,
    /// Jobs whose floor no driver with `Always` meets. For a wall that is strong but slow: QEMU without KVM.
    WhenNeeded,
    /// No other job. For runtimes that the operator allowed against advice: an outdated one.
    WhenNamed,
}

impl Availability {
    /// A sandbox started, and every job may have one.
    pub fn usable(detail: impl Into<String>) -> Self {
        Self { verdict: DriverVerdict::Usable, offer: Offer::Always, detail: detail.into(), fix: None }
    }

    /// Sandboxes should start, but none was tried.
    pub fn untried(detail: impl Into<String>) -> Self {
        Self { verdict: DriverVerdict::Untried, ..Self::usable(detail) }
    }

    /// Sandboxes don't start here.
    pub fn missing(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { verdict: DriverVerdict::Missing, fix: Some(fix.into()), ..Self::usable(detail) }
    }

    /// Reports whether a job may be given to the driver.
    pub fn may_start(&self) -> bool {
        self.verdict != DriverVerdict::Missing
    }

    /// Returns the detail without what a guest printed.
    pub fn summary(&self) -> &str {
        self.detail.lines().next().unwrap_or_default()
    }

    /// Restricts the report to fewer jobs.
    #[must_use]
    pub fn offered(self, offer: Offer) -> Self {
        Self { offer, ..self }
    }
}

/// A driver could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DriverOpenError {
    /// A file of the yard can't be read or created. The driver may own live sandboxes, so the server must not continue as if
    /// there were none.
    #[error("{step}")]
    Prepare {
        /// Operation that failed, in the imperative.
        step: &'static str,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// This host can't run the driver's sandboxes, and none of this yard run.
    #[error("{detail}")]
    Unusable {
        /// Missing part of the host, for people.
        detail: String,
        /// A remedy for people.
        fix: String,
    },
}

impl DriverOpenError {
    /// Names the operation that failed.
    pub(crate) fn prepare(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Prepare { step, source }
    }

    /// Names the missing part of this host and its remedy.
    pub(crate) fn unusable(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Unusable { detail: detail.into(), fix: fix.into() }
    }

    /// Turns `Unusable` into `Prepare` while sandboxes of the yard run: a server that took the driver for unusable would take
    /// its sandboxes for dead.
    #[must_use]
    pub(crate) fn unless_in_use(self, in_use: bool) -> Self {
        match self {
            Self::Unusable { detail, fix } if in_use => Self::Prepare {
                step: "reach the sandboxes of this yard that run",
                source: io::Error::other(format!("{detail}; {fix}")),
            },
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_an_error_while_sandboxes_run() {
        let lack = || DriverOpenError::Unusable { detail: "not root".into(), fix: "run as root".into() };
        assert!(matches!(lack().unless_in_use(false), DriverOpenError::Unusable { .. }));
        let DriverOpenError::Prepare { source, .. } = lack().unless_in_use(true) else { panic!() };
        assert_eq!(source.to_string(), "not root; run as root");
    }
}
