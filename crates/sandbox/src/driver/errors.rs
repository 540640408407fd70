//! Errors of a driver's calls: one type for each call, which names the step and keeps the cause.

use std::fmt;
use std::io;

use super::binding::BindingPart;
use super::sandbox::SandboxId;

/// A machine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The driver can't run here.
    #[error("driver {driver} is not usable: {detail}")]
    Unusable {
        /// Name of the driver.
        driver: &'static str,
        /// Missing part of the host, for people.
        detail: String,
    },
    /// A step of the start failed.
    #[error("{step}")]
    Step {
        /// Failed operation and its object.
        step: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The host has no room now. A later attempt may succeed.
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
    /// The remains of an earlier start could not be removed.
    fn from(error: StopError) -> Self {
        Self::Step { step: error.to_string(), source: error.source }
    }
}

/// An image could not be converted to the driver's format.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct PrepareImageError {
    /// Failed operation and its object.
    pub step: String,
    /// The operating system's error.
    #[source]
    pub source: io::Error,
}

/// A link from the sandbox can't arrive.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No live machine has that name.
    #[error("sandbox {0} is not running")]
    NotRunning(SandboxId),
    /// The driver could not listen for the link.
    #[error("listen for sandbox {id}")]
    Listen {
        /// Id of the sandbox.
        id: SandboxId,
        /// The operating system's error.
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
        /// Part that the driver can't change.
        part: BindingPart,
    },
    /// No live machine has that name.
    #[error("sandbox {0} is not running")]
    NotRunning(SandboxId),
    /// A step of the binding failed.
    #[error("bind sandbox {id}: {step}")]
    Step {
        /// Id of the sandbox.
        id: SandboxId,
        /// Step that failed.
        step: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// A sandbox could not be removed. The caller tries again.
#[derive(Debug, thiserror::Error)]
#[error("remove sandbox {id}: {step}")]
pub struct StopError {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Operation that failed, in the imperative.
    pub step: String,
    /// The operating system's error.
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
    /// Id of the sandbox.
    pub id: SandboxId,
    /// The operating system's error.
    #[source]
    pub source: io::Error,
}
