//! Drivers and images of this host.

use std::time::Duration;

use super::access::require;
use super::model::DriverStatus;
use super::{AppError, ImageFlavour, ImageState, Yard};
use crate::auth::{AccessScope, Caller};
use crate::drivers::DriverReport;

/// Longest wait for drivers to be tried: longer than a container takes, shorter than a client waits.
pub(super) const TRIAL_TIMEOUT: Duration = Duration::from_secs(3);

impl Yard {
    /// All drivers and whether they work here. Tries drivers that were never tried; a slow one is reported as unknown.
    pub async fn drivers(&self, caller: &Caller) -> Result<Vec<DriverStatus>, AppError> {
        require(caller, AccessScope::ReadYard)?;
        let reports = self.context.drivers.reports(TRIAL_TIMEOUT).await;
        let status = |report: DriverReport| DriverStatus {
            name: report.driver.name(),
            isolation: report.driver.isolation(),
            availability: report.answer,
            making: report.making,
        };
        Ok(reports.into_iter().map(status).collect())
    }

    /// Returns the state of an image.
    pub fn image(&self, caller: &Caller, flavour: ImageFlavour) -> Result<ImageState, AppError> {
        require(caller, AccessScope::ReadYard)?;
        Ok(self.context.images.state(flavour))
    }
}
