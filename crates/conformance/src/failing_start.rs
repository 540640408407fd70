//! Starts that fail on purpose, one step after the other (K21): no sandbox ever runs with less than it should have.

use sandyard_sandbox::driver::{Driver, Limits, SandboxId, StartError};

use crate::outcome::CheckOutcome;
use crate::session::SuiteError;
use crate::subject::DriverSubject;

/// One step of a driver's start.
#[derive(Debug, Clone, Copy)]
pub struct FailingStep<'a> {
    /// Position among the driver's steps.
    pub number: usize,
    /// Text of the step in errors.
    pub text: &'a str,
}

/// Starts a sandbox with a driver that fails at `step`. The start must fail and name the step; `leftovers` lists remains on the
/// host other than the marker, and must be empty; after a stop the driver must list nothing.
pub async fn failing_start(
    subject: &DriverSubject,
    driver: &dyn Driver,
    step: FailingStep<'_>,
    leftovers: impl FnOnce(&SandboxId) -> Vec<String>,
) -> Result<Vec<CheckOutcome>, SuiteError> {
    let FailingStep { number, text } = step;
    // Control groups get this name, and other tests run at the same time.
    let spec = subject.spec(&format!("fails-{number}-{}", std::process::id()), Limits::default())?;
    let started = driver.start(&spec).await;
    let named = matches!(&started, Err(StartError::Step { step, .. }) if step.starts_with(text));
    let left = leftovers(&spec.id);
    driver.stop(&spec.id).await?;
    let listed = driver.list().await;
    Ok(vec![
        CheckOutcome::new(format!("K21 names `{text}`"), named, format!("{started:?}")),
        CheckOutcome::new(format!("K21 leaves nothing at `{text}`"), left.is_empty(), left.join(", ")),
        CheckOutcome::new(
            format!("K21 lists nothing after `{text}`"),
            listed.as_ref().is_ok_and(Vec::is_empty),
            format!("{listed:?}"),
        ),
    ])
}
