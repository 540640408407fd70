//! What a machine is made from: the isolation that the job has, an image in the form that the driver wants, room, limits.
//!
//! A job never gets a weaker wall than its row says, whatever the operator changed since. Whatever a start waits for is told in
//! the status.

use sandyard_sandbox::driver::{Driver, ImageDigest, SandboxId, SandboxSpec, StartError};

use super::outcome::JobOutcome;
use super::starting::StartFailure;
use crate::drivers::FormatState;
use crate::drivers::{ImageFlavour, ImageState, Images};
use crate::error_chain::chain;
use crate::job::FailureCode;
use crate::job::JobKind;
use crate::job::LONGEST_WAITS_S;
use crate::job::{Change, JobRow};
use crate::store::StoreError;
use crate::yard::YardContext;

/// What a machine lives beyond its job's time: the start, the end and the export.
const LIFETIME_MARGIN_S: u64 = 600;
/// What a kept machine lives beyond its job's time.
const KEPT_S: u64 = 24 * 3600;

/// Everything a driver needs; waits for the image.
pub(super) async fn spec(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
    sandbox: &SandboxId,
) -> Result<SandboxSpec, StartFailure> {
    hold_isolation(context, driver, row).await?;
    let image = image(context, row).await?;
    form(context, driver, row, &image).await?;
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
        lifetime_s: row.limits.timeout_s
            + LIFETIME_MARGIN_S
            + if row.keep { KEPT_S } else { 0 }
            + if row.task.is_some() { LONGEST_WAITS_S } else { 0 },
        secret: row.secret.clone(),
    })
}

/// Starts a machine. A failure that is not for lack of room has the driver tried before it is chosen for another job.
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
            StartFailure::Again(chain(&error))
        }
    })
}

/// The wall is at least the one that the row tells of; if it is another one, the row tells of that.
async fn hold_isolation(
    context: &YardContext,
    driver: &dyn Driver,
    row: &mut JobRow,
) -> Result<(), StartFailure> {
    let isolation = driver.isolation();
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

/// The image of a job's machine, once it is there.
async fn image(context: &YardContext, row: &mut JobRow) -> Result<ImageDigest, StartFailure> {
    loop {
        let flavour = flavour(row, context.images.as_ref());
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

/// The image in the form that the driver wants.
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
        if form.changed().await.is_err() {
            return Err(StartFailure::Again(
                "the making of the image's form ended without a word".to_owned(),
            ));
        }
    }
}

/// What the start waits for, in the status.
async fn tell(context: &YardContext, row: &mut JobRow, reason: String) -> Result<(), StoreError> {
    if row.reason.as_ref() != Some(&reason) {
        *row = context.commit(row, vec![Change::Reason(Some(reason))]).await?;
    }
    Ok(())
}

/// The tree that a job's machine gets. What needs kernels, desktop or browser waits for the full one; a session makes do
/// with the base only where no full one will come; a script takes the best there is now.
fn flavour(row: &JobRow, images: &dyn Images) -> ImageFlavour {
    match (row.kind, images.state(ImageFlavour::Full)) {
        (_, ImageState::Ready { .. }) | (JobKind::Session, ImageState::Preparing { .. }) => {
            ImageFlavour::Full
        }
        (JobKind::Shell | JobKind::Session, _) => ImageFlavour::Base,
        (JobKind::Task | JobKind::Python | JobKind::Typescript | JobKind::Gui, _) => ImageFlavour::Full,
    }
}
