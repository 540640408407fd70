//! A placeholder for a driver that can't run on this machine. It reports the reason to every caller.

use async_trait::async_trait;
use sandyard_sandbox::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, LinkError, ListError,
    Liveness, SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};

/// Stands in for a driver that can't run here.
pub(super) struct Unusable {
    name: &'static str,
    level: IsolationLevel,
    availability: Availability,
}

impl Unusable {
    /// Returns a placeholder for the driver of that name. `level` is the isolation that the driver would provide.
    pub(super) fn new(name: &'static str, level: IsolationLevel, detail: String, fix: String) -> Self {
        Self { name, level, availability: Availability::missing(detail, fix) }
    }
}

#[async_trait]
impl Driver for Unusable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(self.level, "not usable")
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

    async fn find(&self, _id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        Ok(None)
    }

    async fn usage(&self, _id: &SandboxId) -> Result<Usage, UsageError> {
        Ok(Usage::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_driver_that_cant_open_says_why_and_has_no_sandboxes() {
        let driver =
            Unusable::new("native", IsolationLevel::Container, "no cgroups".into(), "mount them".into());
        let availability = driver.availability().await;
        assert_eq!(
            (availability.detail.as_str(), availability.fix.as_deref()),
            ("no cgroups", Some("mount them"))
        );
        assert!(driver.list().await.unwrap().is_empty());
    }
}
