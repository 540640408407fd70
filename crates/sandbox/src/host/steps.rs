//! The steps of making a sandbox: their names in errors, their timing, and the fail-point before each.
//!
//! A step that fails ends the start. There is no step that may be skipped. Each driver defines its own steps.

use std::fmt;
use std::io;
use std::time::Instant;

use crate::driver::StartError;

#[derive(Debug, thiserror::Error)]
#[error("{step} ({object})")]
pub(crate) struct StepFailure<Step> {
    pub(crate) step: Step,
    pub(crate) object: String,
    #[source]
    pub(crate) source: io::Error,
}

impl<Step> StepFailure<Step> {
    /// Returns the system's error number, by which the failure can be sent to another process.
    pub(crate) fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(libc::EIO)
    }
}

impl<Step: fmt::Display> From<StepFailure<Step>> for StartError {
    fn from(failure: StepFailure<Step>) -> Self {
        Self::Step { step: failure.to_string(), source: failure.source }
    }
}

/// Runs steps one after the other, records the duration of each, and fails where a test asked for it.
#[derive(Debug)]
pub(crate) struct StartSteps<Step> {
    fail_at: Option<Step>,
    phases: Vec<(Step, u64)>,
}

impl<Step: Copy + PartialEq> StartSteps<Step> {
    pub(crate) fn new(fail_at: Option<Step>) -> Self {
        Self { fail_at, phases: Vec::new() }
    }

    /// Runs one step on an object, which the error names.
    pub(crate) fn run<T, E: Into<io::Error>>(
        &mut self,
        step: Step,
        object: impl fmt::Display,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, StepFailure<Step>> {
        let began = Instant::now();
        let outcome = match self.fail_at {
            Some(at) if at == step => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => work().map_err(Into::into),
        };
        self.note(step, began);
        outcome.map_err(|source| StepFailure { step, object: object.to_string(), source })
    }

    /// Awaits one step on an object, which the error names.
    pub(crate) async fn wait<T, E: Into<io::Error>>(
        &mut self,
        step: Step,
        object: impl fmt::Display,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StepFailure<Step>> {
        let began = Instant::now();
        let outcome = match self.fail_at {
            Some(at) if at == step => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => work.await.map_err(Into::into),
        };
        self.note(step, began);
        outcome.map_err(|source| StepFailure { step, object: object.to_string(), source })
    }

    /// Adds steps that another process did.
    pub(crate) fn add(&mut self, phases: Vec<(Step, u64)>) {
        self.phases.extend(phases);
    }

    fn note(&mut self, step: Step, began: Instant) {
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.phases.push((step, micros));
    }

    /// Returns the duration of each step in microseconds.
    pub(crate) fn into_phases(self) -> Vec<(Step, u64)> {
        self.phases
    }
}
