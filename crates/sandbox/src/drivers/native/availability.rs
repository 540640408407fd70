//! Checks whether native sandboxes can start on this host, by starting one.

use super::state::{NativeDriver, NativeState};
use crate::driver::Availability;
use crate::host::start_probe::{CONTAINER_DIAL_TIMEOUT, StartProbe};

impl NativeState {
    /// Starts a sandbox; without an image to start from, reports the state of the host.
    pub(super) async fn availability(&self, driver: &NativeDriver) -> Availability {
        let groups =
            format!("{}control groups {}", self.privileges.prefix(), self.sandboxes.layout.describe());
        let Some(image) = self.config.images.probe_image() else {
            return Availability::untried(groups);
        };
        let probe = StartProbe {
            data: &self.config.data,
            image,
            disk_mib: self.config.blank_disk_mib,
            dial_timeout: CONTAINER_DIAL_TIMEOUT,
        };
        match probe.run(driver, |id| self.started.console(id)).await {
            Ok(()) => Availability::usable(groups),
            Err(error) => Availability::missing(error, "run `sandyard doctor native`"),
        }
    }
}
