//! The drivers of this machine: which are wanted, opened, or stood in for by one that says why it can't be used.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sandyard_sandbox::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, LinkError, ListError,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
use sandyard_sandbox::drivers::native::{
    LAUNCHER_COMMAND, LauncherProgram, NativeConfig, NativeDriver, OpenError, ProbeImage,
};

/// Names that `--driver` knows, in the order in which `auto` tries them.
pub(crate) const NAMES: [&str; 1] = ["native"];

/// What drivers need.
pub(crate) struct DriverPlan<'a> {
    /// The yard, or a folder to try things in.
    pub(crate) data: &'a Path,
    /// Parts of sandboxes kept ready.
    pub(crate) pool: usize,
    /// The default disk of a sandbox.
    pub(crate) disk_mib: u64,
    /// Where an image is to try a start with.
    pub(crate) probe_image: ProbeImage,
}

/// All drivers, or the one that is wanted. One that this machine can't run is stood in for. One that should run and fails to open
/// is an error: whoever took it for unusable would take its sandboxes for dead. Must be called within a tokio runtime.
pub(crate) fn open(plan: &DriverPlan<'_>, wanted: Option<&str>) -> Result<Vec<Arc<dyn Driver>>, OpenError> {
    NAMES
        .into_iter()
        .filter(|name| wanted.is_none_or(|wanted| wanted == *name))
        .map(|_| native(plan))
        .collect()
}

fn native(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    let config = NativeConfig {
        data: plan.data.to_owned(),
        run: plan.data.join("run"),
        launcher: LauncherProgram {
            program: "/proc/self/exe".into(),
            arguments: vec![LAUNCHER_COMMAND.to_owned()],
        },
        parked_slots: plan.pool,
        blank_disks: plan.pool,
        blank_disk_mib: plan.disk_mib,
        probe_image: plan.probe_image.clone(),
        fail_at: None,
    };
    match NativeDriver::open(config) {
        Ok(driver) => Ok(Arc::new(driver)),
        Err(error @ OpenError::Unusable { .. }) => {
            Ok(Arc::new(Unusable { name: "native", availability: error.availability() }))
        }
        Err(error @ OpenError::Prepare { .. }) => Err(error),
    }
}

/// Stands for a driver that can't run here, so that everybody who asks learns why.
struct Unusable {
    name: &'static str,
    availability: Availability,
}

#[async_trait]
impl Driver for Unusable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn isolation(&self) -> Isolation {
        Isolation { level: IsolationLevel::None, runtime: "not usable".to_owned() }
    }

    async fn availability(&self) -> Availability {
        self.availability.clone()
    }

    async fn start(&self, _spec: &SandboxSpec) -> Result<(), StartError> {
        Err(StartError::Unusable { driver: self.name, detail: self.availability.detail.clone() })
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        Err(LinkError::NotRunning(id.clone()))
    }

    async fn wait_dead(&self, _id: &SandboxId) {}

    async fn stop(&self, _id: &SandboxId) -> Result<(), StopError> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        Ok(Vec::new())
    }

    async fn usage(&self, _id: &SandboxId) -> Result<Usage, UsageError> {
        Ok(Usage::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_driver_that_cant_open_says_why_and_starts_nothing() {
        let error = OpenError::Unusable { detail: "no cgroups".to_owned(), fix: "mount them".to_owned() };
        let driver = Unusable { name: "native", availability: error.availability() };
        let availability = driver.availability().await;
        assert!(!availability.usable);
        assert_eq!(
            (availability.detail.as_str(), availability.fix.as_deref()),
            ("no cgroups", Some("mount them"))
        );
    }
}
