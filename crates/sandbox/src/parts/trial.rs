//! Whether sandboxes of a driver start here, found out by starting one: it must dial and prove itself within its
//! time, and leave nothing.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandyard_pipe::{HelloError, HostOffer, welcome};
use sandyard_protocol::Secret;
use tokio::time::timeout;

use super::disk::STOCK;
use crate::driver::{Driver, ImageDigest, Limits, SandboxId, SandboxSpec, with_sources};

/// How long a container may take to dial; a loaded machine needs tens of milliseconds.
pub(crate) const CONTAINER_PATIENCE: Duration = Duration::from_secs(20);

/// What is tried, and where.
pub(crate) struct Trial<'a> {
    /// The driver's data directory; the workspace of the trial is made in its stock.
    pub(crate) data: &'a Path,
    /// The image.
    pub(crate) image: ImageDigest,
    /// The size of its disk: that of blank ones, if there are any.
    pub(crate) disk_mib: u64,
    /// How long it may take to dial.
    pub(crate) patience: Duration,
}

impl Trial<'_> {
    /// Starts a sandbox, waits until its guest has answered the hello and removes it. `said` is what a guest said on its console.
    pub(crate) async fn run(
        self,
        driver: &dyn Driver,
        said: impl Fn(&SandboxId) -> Option<String>,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("probe: {error}");
        let token = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let id = SandboxId::parse(&format!("probe-{token:016x}")).ok_or("probe: bad id")?;
        let workspace = self.data.join(STOCK).join(format!("new-{id}"));
        std::fs::create_dir_all(&workspace).map_err(failed)?;
        let spec = SandboxSpec {
            id: id.clone(),
            image: self.image,
            workspace: workspace.clone(),
            limits: Limits { disk_mib: self.disk_mib, ..Limits::default() },
            lifetime_s: self.patience.as_secs() * 2,
            secret: Secret::new([0; 32]),
        };
        let tried = greeted(driver, &spec, self.patience).await;
        let tried = tried.map_err(|error| format!("{error}: {}", said(&id).unwrap_or_default().trim()));
        let stopped = driver.stop(&id).await;
        let removed = std::fs::remove_dir_all(&workspace);
        tried?;
        stopped.map_err(|error| with_sources(&error))?;
        removed.map_err(failed)
    }
}

/// A link alone proves nothing: what a machine is connected by may be there although no guest ever ran.
async fn greeted(driver: &dyn Driver, spec: &SandboxSpec, patience: Duration) -> Result<(), String> {
    driver.start(spec).await.map_err(|error| with_sources(&error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let offer = HostOffer {
        sandbox: spec.id.to_string(),
        secret: *spec.secret.expose(),
        epoch: 1,
        unix_ms: i64::try_from(now.as_millis()).unwrap_or_default(),
    };
    let greeting = async {
        loop {
            let link = driver.next_link(&spec.id).await.map_err(|error| with_sources(&error))?;
            match welcome(link, offer.clone()).await {
                Err(HelloError::Io(_)) => {}
                answered => return answered.map(drop).map_err(|error| with_sources(&error)),
            }
        }
    };
    match timeout(patience, greeting).await {
        Ok(answered) => answered.map_err(|error| format!("probe: {error}")),
        Err(_) => Err("probe: it never dialled".into()),
    }
}
