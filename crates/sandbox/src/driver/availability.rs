//! What a driver says of itself: whether it can be opened, whether sandboxes really start, and who gets them.

use std::io;

use serde::{Deserialize, Serialize};

/// Whether a driver works here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// Whether a sandbox can start.
    pub verdict: Verdict,
    /// Who gets a sandbox of this driver, if one can start.
    pub offer: Offer,
    /// Version or kernel features if usable, what is missing if not. Ends up after a colon: lower case, no full stop.
    pub detail: String,
    /// What a person can do about it: a command, or a sentence.
    pub fix: Option<String>,
}

/// Whether sandboxes of a driver start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One did.
    Usable,
    /// Nothing speaks against it, but there is no image yet to try it with; a job waits for one too.
    Untried,
    /// They don't.
    Missing,
}

/// Who gets sandboxes of a usable driver. A job that names the driver always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Every job whose floor it meets.
    Always,
    /// Jobs whose floor nothing that is offered always can meet. For a wall that is strong but slow: QEMU without KVM.
    WhenNeeded,
    /// Nobody else. For what the operator allowed against advice: an outdated runtime.
    WhenNamed,
}

impl Availability {
    /// A sandbox did start, and every job may have one.
    pub fn usable(detail: impl Into<String>) -> Self {
        Self { verdict: Verdict::Usable, offer: Offer::Always, detail: detail.into(), fix: None }
    }

    /// Sandboxes should start, but none was tried.
    pub fn untried(detail: impl Into<String>) -> Self {
        Self { verdict: Verdict::Untried, ..Self::usable(detail) }
    }

    /// Sandboxes don't start here.
    pub fn missing(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { verdict: Verdict::Missing, fix: Some(fix.into()), ..Self::usable(detail) }
    }

    /// Whether a job may be given to the driver.
    pub fn may_start(&self) -> bool {
        self.verdict != Verdict::Missing
    }

    /// The same, offered to fewer.
    #[must_use]
    pub fn offered(self, offer: Offer) -> Self {
        Self { offer, ..self }
    }
}

/// A driver could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Something of the yard can't be read or made. The driver may own live sandboxes, so nobody may go on as if it had none.
    #[error("{step}")]
    Prepare {
        /// What was being done.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// This host can't run its sandboxes, and none of this yard run; the text says what is missing.
    #[error("{detail}")]
    Unusable {
        /// What is missing.
        detail: String,
        /// What a person can do about it.
        fix: String,
    },
}

impl OpenError {
    /// Names what could not be prepared.
    pub(crate) fn prepare(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Prepare { step, source }
    }

    /// Says what this host lacks and how to get it.
    pub(crate) fn unusable(detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Unusable { detail: detail.into(), fix: fix.into() }
    }

    /// The same, but no mere lack while sandboxes of the yard run: whoever took the driver for unusable would take them for dead.
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
        let lack = || OpenError::Unusable { detail: "not root".into(), fix: "run as root".into() };
        assert!(matches!(lack().unless_in_use(false), OpenError::Unusable { .. }));
        let OpenError::Prepare { source, .. } = lack().unless_in_use(true) else { panic!() };
        assert_eq!(source.to_string(), "not root; run as root");
    }
}
