//! Errors of calls, in a form that crosses the socket.

use std::io;

use serde::{Deserialize, Serialize};

use crate::driver::{
    BindError, BindingPart, LinkError, ListError, PrepareImageError, SandboxId, StartError, StopError,
    UsageError,
};

/// Longest text of an error or a report. JSON may need six bytes for one, and a packet must hold two texts.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Why a call failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CallFault {
    /// The driver can't run here.
    Unusable { detail: String },
    /// The host has no room now.
    NoCapacity { detail: String },
    /// No live machine has that id.
    NotRunning,
    /// The driver can't change that part after the start.
    Unsupported { part: BindingPart },
    /// A step failed.
    Step { step: String, cause: FaultCause },
}

/// An error of the operating system, or one that only has a text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FaultCause {
    errno: Option<i32>,
    text: String,
}

impl FaultCause {
    pub(super) fn of(error: &io::Error) -> Self {
        Self { errno: error.raw_os_error(), text: bounded(error.to_string()) }
    }

    fn into_error(self) -> io::Error {
        self.errno.map_or_else(|| io::Error::other(self.text), io::Error::from_raw_os_error)
    }
}

/// Cuts a text that is too long for a packet. The end of an error or of a console tells more than its beginning.
pub(super) fn bounded(text: String) -> String {
    let Some(mut start) = text.len().checked_sub(MAX_TEXT_BYTES) else { return text };
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("…{}", &text[start..])
}

impl CallFault {
    pub(super) fn step(step: impl Into<String>, cause: &io::Error) -> Self {
        Self::Step { step: bounded(step.into()), cause: FaultCause::of(cause) }
    }

    /// Returns the step and the cause of any failure.
    fn into_step(self) -> (String, io::Error) {
        match self {
            Self::Step { step, cause } => (step, cause.into_error()),
            Self::Unusable { detail } => ("use the driver".to_owned(), io::Error::other(detail)),
            Self::NoCapacity { detail } => ("find room".to_owned(), io::Error::other(detail)),
            Self::NotRunning => ("find the machine".to_owned(), io::ErrorKind::NotFound.into()),
            Self::Unsupported { part } => (format!("change {part}"), io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn into_io_error(self) -> io::Error {
        let (step, source) = self.into_step();
        // The errno decides what the caller does, so an error that has one stays as it is.
        if source.raw_os_error().is_some() { source } else { io::Error::other(format!("{step}: {source}")) }
    }

    pub(super) fn into_start_error(self, driver: &'static str) -> StartError {
        match self {
            Self::Unusable { detail } => StartError::Unusable { driver, detail },
            Self::NoCapacity { detail } => StartError::NoCapacity(detail),
            other => {
                let (step, source) = other.into_step();
                StartError::Step { step, source }
            }
        }
    }

    pub(super) fn into_prepare_error(self) -> PrepareImageError {
        let (step, source) = self.into_step();
        PrepareImageError { step, source }
    }

    pub(super) fn into_bind_error(self, driver: &'static str, id: &SandboxId) -> BindError {
        match self {
            Self::Unsupported { part } => BindError::Unsupported { driver, part },
            Self::NotRunning => BindError::NotRunning(id.clone()),
            other => {
                let (step, source) = other.into_step();
                BindError::Step { id: id.clone(), step, source }
            }
        }
    }

    pub(super) fn into_link_error(self, id: &SandboxId) -> LinkError {
        match self {
            Self::NotRunning => LinkError::NotRunning(id.clone()),
            other => LinkError::Listen { id: id.clone(), source: other.into_io_error() },
        }
    }

    pub(super) fn into_stop_error(self, id: &SandboxId) -> StopError {
        let (step, source) = self.into_step();
        StopError { id: id.clone(), step, source }
    }
}

impl From<StartError> for CallFault {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Unusable { detail, .. } => Self::Unusable { detail: bounded(detail) },
            StartError::NoCapacity(detail) => Self::NoCapacity { detail: bounded(detail) },
            StartError::Step { step, source } => Self::step(step, &source),
        }
    }
}

impl From<PrepareImageError> for CallFault {
    fn from(error: PrepareImageError) -> Self {
        Self::step(error.step, &error.source)
    }
}

impl From<BindError> for CallFault {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Unsupported { part, .. } => Self::Unsupported { part },
            BindError::NotRunning(_) => Self::NotRunning,
            BindError::Step { step, source, .. } => Self::step(step, &source),
        }
    }
}

impl From<LinkError> for CallFault {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::NotRunning(_) => Self::NotRunning,
            LinkError::Listen { source, .. } => Self::step("listen for the link", &source),
        }
    }
}

impl From<StopError> for CallFault {
    fn from(error: StopError) -> Self {
        Self::step(error.step, &error.source)
    }
}

impl From<ListError> for CallFault {
    fn from(error: ListError) -> Self {
        Self::step("read the markers", &error.0)
    }
}

impl From<UsageError> for CallFault {
    fn from(error: UsageError) -> Self {
        Self::step("read the counters", &error.source)
    }
}

impl From<io::Error> for CallFault {
    fn from(error: io::Error) -> Self {
        Self::step("use the workspace", &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_number_and_a_long_text_keeps_its_end() {
        let full = StartError::Step { step: "write".into(), source: io::Error::from_raw_os_error(28) };
        let StartError::Step { step, source } = CallFault::from(full).into_start_error("native") else {
            panic!()
        };
        assert_eq!((step.as_str(), source.raw_os_error()), ("write", Some(28)));
        let long = "ä".repeat(MAX_TEXT_BYTES) + "end";
        let cut = bounded(long);
        assert!(cut.len() <= MAX_TEXT_BYTES + 3 && cut.starts_with('…') && cut.ends_with("end"));
    }
}
