//! What is around the jobs: live machines for tools, drivers, images, readiness, counters.

use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::machine::Machine;

use super::model::DriverStatus;
use super::{AppError, ErrorCode, Yard};
use super::{ImageFlavour, ImageState};
use crate::drivers::DriverReport;
use crate::job::JobId;

/// How long a caller waits for drivers to be tried: longer than a container takes, shorter than a patient client.
pub(super) const TRYING: Duration = Duration::from_secs(3);

impl Yard {
    /// The live machine of a job, for tools; a conflict unless `sandbox` is `live`.
    pub fn machine(&self, id: &JobId) -> Result<Arc<Machine>, AppError> {
        self.context.machines.get(id).ok_or_else(|| {
            AppError::new(ErrorCode::SandboxNotLive, "the job's sandbox can't be reached now")
                .hint("tools need `sandbox: live` in the status; schedule with `keep` to use them after the end")
                .retry_after(1)
        })
    }

    /// All drivers and whether they work here. One that was never tried is tried now; a slow one is told as not known yet.
    pub async fn drivers(&self) -> Vec<DriverStatus> {
        let reports = self.context.drivers.reports(TRYING).await;
        let status = |report: DriverReport| DriverStatus {
            name: report.driver.name(),
            isolation: report.driver.isolation(),
            availability: report.answer,
            making: report.making,
        };
        reports.into_iter().map(status).collect()
    }

    /// How far the images are.
    pub fn image(&self, flavour: ImageFlavour) -> ImageState {
        self.context.images.state(flavour)
    }

    /// Whether work can be accepted.
    pub async fn ready(&self) -> Result<(), AppError> {
        if self.is_stopping() {
            return Err(AppError::new(ErrorCode::Stopping, "the server is stopping"));
        }
        if !self.context.admission.has_disk() {
            return Err(AppError::new(ErrorCode::DiskFull, "the yard's disk is full"));
        }
        self.context.store.queued(0, 1).await?;
        Ok(())
    }

    /// Prometheus text of the yard's counters; `http` may append its own.
    pub fn metrics(&self) -> String {
        self.context.metrics.render(&self.context.store.counts(), self.context.admission.in_use())
    }
}
