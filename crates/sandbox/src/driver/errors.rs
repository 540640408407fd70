//! How the calls of a driver fail: one type for each call, which names the step and keeps the cause.

use std::fmt;
use std::io;

use super::{BindingPart, SandboxId};

/// A machine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The driver can't run here.
    #[error("driver {driver} is not usable: {detail}")]
    Unusable {
        /// Its name.
        driver: &'static str,
        /// What is missing.
        detail: String,
    },
    /// A step of the set-up failed; the job must fail too.
    #[error("{step}")]
    Step {
        /// What was being done, with its object.
        step: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The host has no room now; trying again later may help.
    #[error("no capacity: {0}")]
    NoCapacity(String),
}

impl StartError {
    /// Names the step that failed.
    pub(crate) fn at(step: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        let step = step.to_string();
        move |source| Self::Step { step, source }
    }
}

impl From<StopError> for StartError {
    /// What a start before left could not be removed.
    fn from(error: StopError) -> Self {
        Self::Step { step: error.to_string(), source: error.source }
    }
}

/// A driver's form of an image could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct PrepareImageError {
    /// What was being done, with its object.
    pub step: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

/// A connection from the sandbox can't come.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No live machine has that name.
    #[error("sandbox {0} is not running")]
    NotRunning(SandboxId),
    /// The listening end could not be made.
    #[error("listen for sandbox {id}")]
    Listen {
        /// Which.
        id: SandboxId,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A running sandbox could not be given other limits or another workspace.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The driver can't change that part of a sandbox after its start.
    #[error("driver {driver} can't bind {part} after the start")]
    Unsupported {
        /// Name of the driver.
        driver: &'static str,
        /// The part that it can't change.
        part: BindingPart,
    },
    /// No live machine has that name.
    #[error("sandbox {0} is not running")]
    NotRunning(SandboxId),
    /// A step failed.
    #[error("bind sandbox {id}: {step}")]
    Step {
        /// The sandbox.
        id: SandboxId,
        /// The step that failed.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// A machine could not be removed; call again.
#[derive(Debug, thiserror::Error)]
#[error("remove sandbox {id}: {step}")]
pub struct StopError {
    /// Which.
    pub id: SandboxId,
    /// What was being done.
    pub step: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

impl StopError {
    /// Names the step that failed.
    pub(crate) fn at(id: &SandboxId, step: &str) -> impl FnOnce(io::Error) -> Self {
        let (id, step) = (id.clone(), step.to_owned());
        move |source| Self { id, step, source }
    }
}

/// The markers could not be read.
#[derive(Debug, thiserror::Error)]
#[error("list sandboxes")]
pub struct ListError(#[from] pub io::Error);

/// The counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read usage of sandbox {id}")]
pub struct UsageError {
    /// Which.
    pub id: SandboxId,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// An error with its causes, on one line.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
