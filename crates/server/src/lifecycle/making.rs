//! The parts of a machine: the isolation that the job has, an image in the form that the driver wants, room, limits.
//!
//! A job never gets weaker isolation than its row says, whatever the operator has changed since. The status says what a start
//! waits for.

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::{Driver, ImageDigest, SandboxId, SandboxSpec, StartError};

use super::outcome::JobOutcome;
use super::start_failure::StartFailure;
use crate::drivers::FormatState;
use crate::drivers::{ImageFlavour, ImageState, Images};
use crate::job::FailureCode;
use crate::job::JobKind;
use crate::job::LONGEST_WAITS_S;
use crate::job::{Change, JobRow};
use crate::store::StoreError;
use crate::yard::YardContext;

/// Lifetime of a machine beyond its job's time: for the start, the end and the export.
const LIFETIME_MARGIN_S: u64 = 600;

/// Returns the specification of the job's sandbox; waits for the image.
pub(super) async fn spec(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
    sandbox: &SandboxId,
) -> Result<SandboxSpec, StartFailure> {
    // First: a job that may not run here must not wait for an image.
    hold_isolation(context, driver, row).await?;
    let image = image(context, row).await?;
    form(context, driver, row, &image).await?;
    let stored = context.store.sandbox(sandbox).await?.ok_or(StoreError::Damaged { what: "sandbox" })?;
    let workspace = context
        .workspaces
        .make(&row.id)
        .await
        .map_err(|error| StartFailure::Again(format!("make the workspace's folder: {error}")))?;
    Ok(SandboxSpec {
        id: sandbox.clone(),
        image,
        workspace,
        limits: row.limits.machine,
        // A job's time may be extended while it runs, up to the longest that this server grants; the machine's can't.
        lifetime_s: row.limits.timeout_s.max(context.config.greatest_limits.timeout_s)
            + LIFETIME_MARGIN_S
            + if row.keep { context.config.keep.as_secs() } else { 0 }
            // A task's clocks stand while it waits for a person, but the driver's lifetime runs on.
            + if row.task.is_some() { LONGEST_WAITS_S } else { 0 },
        secret: stored.secret,
    })
}

/// Starts a machine. After a failure that is not for lack of room, the driver is tried again before another job gets it.
pub(super) async fn start_machine(
    context: &YardContext,
    driver: &dyn Driver,
    spec: &SandboxSpec,
) -> Result<(), StartFailure> {
    let Err(error) = driver.start(spec).await else { return Ok(()) };
    Err(match error {
        StartError::NoCapacity(detail) => StartFailure::Full(detail),
        StartError::Unusable { .. } => {
            context.drivers.doubt(driver.name());
            StartFailure::Never(JobOutcome::failed(
                FailureCode::NoDriver,
                error.to_string(),
                Some("run `sandyard doctor`"),
            ))
        }
        StartError::Step { .. } => {
            context.drivers.doubt(driver.name());
            StartFailure::Again(ErrorChain(&error).to_string())
        }
    })
}

/// Refuses weaker isolation than the row has. Writes changed means of isolation into the row.
async fn hold_isolation(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
) -> Result<(), StartFailure> {
    let isolation = driver.isolation();
    // The operator may have changed the driver's runtime since the job was claimed. The client was promised the level in the row.
    if let Some(level) = row.level.filter(|level| isolation.level < *level) {
        let message = format!(
            "the job runs with isolation `{}`, and {} gives only `{}` now",
            level.as_str(),
            driver.name(),
            isolation.level.as_str()
        );
        let hint = "set the driver up as it was, and schedule the job again";
        return Err(StartFailure::Never(JobOutcome::failed(FailureCode::NoDriver, message, Some(hint))));
    }
    if row.runtime.as_ref() != Some(&isolation.runtime) {
        let reason = row.isolation_reason.clone();
        let change = Change::Isolation { driver: driver.name().to_owned(), isolation, reason };
        *row = context.commit(row, vec![change]).await?;
    }
    Ok(())
}

/// Waits for the image of a job's machine.
async fn image(context: &YardContext, row: &mut JobRow) -> Result<ImageDigest, StartFailure> {
    let stored = context.store.request(&row.id).await?;
    let wanted = stored.and_then(|stored| stored.job.flavour);
    loop {
        let flavour = wanted.unwrap_or_else(|| flavour(row, context.images.as_ref()));
        match context.images.state(flavour) {
            ImageState::Ready { image } => return Ok(image),
            ImageState::Missing { detail, hint } => {
                return Err(StartFailure::Never(JobOutcome::failed(
                    FailureCode::NoImage,
                    detail,
                    Some(&hint),
                )));
            }
            ImageState::Preparing { percent, step } => {
                tell(context, row, format!("{} image {percent} %: {step}", flavour.as_str())).await?;
                context.images.changed().await;
            }
        }
    }
}

/// Waits for the driver's own form of the image.
async fn form(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
    image: &ImageDigest,
) -> Result<(), StartFailure> {
    let Some(mut form) = context.drivers.image_format(driver.name(), image) else { return Ok(()) };
    loop {
        let now = form.borrow_and_update().clone();
        match now {
            FormatState::Ready => return Ok(()),
            FormatState::Failed(detail) => return Err(StartFailure::Again(detail)),
            FormatState::Making(words) if !words.is_empty() => tell(context, row, words).await?,
            FormatState::Making(_) => {}
        }
        // `borrow_and_update` has marked the state as seen, so a change since then returns at once.
        if form.changed().await.is_err() {
            return Err(StartFailure::Again(
                "the making of the image's form ended without a word".to_owned(),
            ));
        }
    }
}

/// Writes the reason for the wait into the status.
async fn tell(context: &YardContext, row: &mut JobRow, reason: String) -> Result<(), StoreError> {
    if row.reason.as_ref() != Some(&reason) {
        *row = context.commit(row, vec![Change::Reason(Some(reason))]).await?;
    }
    Ok(())
}

/// Returns the image for a job that asks for none. Jobs that need kernels, desktop or browser wait for the full one. A session waits for the full
/// one too, unless none will come. A shell script takes the best image that is ready now.
fn flavour(row: &JobRow, images: &dyn Images) -> ImageFlavour {
    match (row.kind, images.state(ImageFlavour::Full)) {
        (_, ImageState::Ready { .. }) | (JobKind::Session, ImageState::Preparing { .. }) => {
            ImageFlavour::Full
        }
        (JobKind::Shell | JobKind::Session, _) => ImageFlavour::Base,
        (JobKind::Task | JobKind::Python | JobKind::Typescript | JobKind::Gui, _) => ImageFlavour::Full,
    }
}
