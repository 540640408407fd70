//! A driver that this machine could not run when the server started. Each look tries to open it again, so that one whose runtime
//! is installed later is noticed by the running server.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sandyard_sandbox::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, DiskState, Driver,
    DriverOpenError, FoundSandbox, ImageDigest, Isolation, Limits, LinkError, ListError, Liveness,
    LocalImages, PrepareImageError, ReportProgress, SandboxId, SandboxSpec, StartError, StopError, Usage,
    UsageError,
};

use super::{DriverOpener, DriverPlan};
use crate::config::DriverSettings;

/// A plan that outlives the start of the server.
struct KeptPlan {
    data: PathBuf,
    cache: PathBuf,
    pool: usize,
    disk_mib: u64,
    images: Arc<dyn LocalImages>,
    settings: DriverSettings,
}

struct LateParts {
    opener: &'static DriverOpener,
    plan: KeptPlan,
    /// What the last attempt lacked.
    lack: Mutex<Availability>,
    opened: OnceLock<Arc<dyn Driver>>,
    /// Held during an attempt: two drivers in one folder would disturb each other.
    opening: Mutex<()>,
}

/// Stands in for a driver until it can be opened.
pub(super) struct LateDriver {
    parts: Arc<LateParts>,
}

impl LateDriver {
    /// Returns a stand-in for a driver that could not be opened for this lack.
    pub(super) fn new(
        opener: &'static DriverOpener,
        plan: &DriverPlan<'_>,
        detail: String,
        fix: String,
    ) -> Self {
        let plan = KeptPlan {
            data: plan.data.to_owned(),
            cache: plan.cache.to_owned(),
            pool: plan.pool,
            disk_mib: plan.disk_mib,
            images: Arc::clone(&plan.images),
            settings: plan.settings.clone(),
        };
        let lack = Mutex::new(Availability::missing(detail, fix));
        let parts = LateParts { opener, plan, lack, opened: OnceLock::new(), opening: Mutex::new(()) };
        Self { parts: Arc::new(parts) }
    }

    fn opened(&self) -> Option<&Arc<dyn Driver>> {
        self.parts.opened.get()
    }
}

impl LateParts {
    /// Tries to open the driver. What it lacks is noted.
    fn open(&self) {
        let _opening = self.opening.lock();
        if self.opened.get().is_some() {
            return;
        }
        let KeptPlan { data, cache, pool, disk_mib, images, settings } = &self.plan;
        let plan = DriverPlan {
            data,
            cache,
            pool: *pool,
            disk_mib: *disk_mib,
            images: Arc::clone(images),
            settings,
        };
        match (self.opener.open)(&plan) {
            // Set only here, under the lock, so it was empty.
            Ok(driver) => drop(self.opened.set(driver)),
            Err(DriverOpenError::Unusable { detail, fix }) => {
                *self.lack.lock() = Availability::missing(detail, fix);
            }
            Err(DriverOpenError::Prepare { step, source }) => {
                *self.lack.lock() =
                    Availability::missing(format!("{step}: {source}"), "look at the log of the server");
            }
        }
    }
}

#[async_trait]
impl Driver for LateDriver {
    fn name(&self) -> &'static str {
        self.parts.opener.entry.name
    }

    fn isolation(&self) -> Isolation {
        let absent = || Isolation::without_network(self.parts.opener.entry.level, "not usable");
        self.opened().map_or_else(absent, |driver| driver.isolation())
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        self.opened().map_or(limits.memory_mib, |driver| driver.memory_mib(limits))
    }

    fn disk_mib(&self, limits: &Limits) -> u64 {
        self.opened().map_or(limits.disk_mib, |driver| driver.disk_mib(limits))
    }

    fn boot_time(&self) -> Duration {
        self.opened().map_or(Duration::ZERO, |driver| driver.boot_time())
    }

    async fn availability(&self) -> Availability {
        if self.opened().is_none() {
            let parts = Arc::clone(&self.parts);
            // Programs are searched and started. After a panic the next look tries again.
            drop(tokio::task::spawn_blocking(move || parts.open()).await);
        }
        match self.opened() {
            Some(driver) => driver.availability().await,
            None => self.parts.lack.lock().clone(),
        }
    }

    async fn prepare_image(
        &self,
        image: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        match self.opened() {
            Some(driver) => driver.prepare_image(image, report).await,
            None => Ok(()),
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        match self.opened() {
            Some(driver) => driver.start(spec).await,
            None => {
                let detail = self.parts.lack.lock().detail.clone();
                Err(StartError::Unusable { driver: self.name(), detail })
            }
        }
    }

    fn binds(&self) -> BindSupport {
        // Constant for the life of the process, so the driver that comes later has none either.
        BindSupport::default()
    }

    async fn bind(&self, _id: &SandboxId, _binding: &Binding) -> Result<(), BindError> {
        Err(BindError::Unsupported { driver: self.name(), part: BindingPart::Limits })
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        match self.opened() {
            Some(driver) => driver.next_link(id).await,
            None => Err(LinkError::NotRunning(id.clone())),
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(driver) = self.opened() {
            driver.wait_dead(id).await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        match self.opened() {
            Some(driver) => driver.stop(id).await,
            None => Ok(()),
        }
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        match self.opened() {
            Some(driver) => driver.list().await,
            None => Ok(Vec::new()),
        }
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        match self.opened() {
            Some(driver) => driver.find(id).await,
            None => Ok(None),
        }
    }

    async fn disk_state(&self, id: &SandboxId) -> DiskState {
        match self.opened() {
            Some(driver) => driver.disk_state(id).await,
            None => DiskState::Unknown,
        }
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        match self.opened() {
            Some(driver) => driver.usage(id).await,
            None => Ok(Usage::default()),
        }
    }
}
