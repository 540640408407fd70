//! The driver over a container engine: Docker or Podman, through the API on its Unix socket.
//!
//! A start writes the marker, mounts the disk where the engine finds it (`stage`), and has the engine make a container of the
//! loaded image (`images`, `container`, `engine`), whose first process is the guest's `init`. From then on the sandbox needs neither
//! engine API nor server: it is judged by its process, linked over a directory mounted inside, limited and counted by the
//! driver's own control groups. The engine's socket is the server's alone.

mod availability;
mod container;
mod engine;
mod images;
mod stage;
mod start;
mod step;
mod stop;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

pub use images::{LoadError, LoadedImage, load_image, loaded_images, remove_image};
pub use step::Step;

use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BoxedDuplex, Driver, FoundSandbox, ImageDigest, Isolation,
    IsolationLevel, LinkError, ListError, LocalImages, OpenError, PrepareImageError, Report, SandboxId,
    SandboxSpec, StartError, StopError, Usage, UsageError,
};
use crate::parts::disk::Disks;
use crate::parts::ids::Supply;
use crate::parts::links::{Entry, Links};
use crate::parts::locks::Locks;
use crate::parts::sandboxes::{Remembered, Sandboxes};
use crate::parts::{layout, programs};
use engine::{Engine, Make};
use stage::Stage;

/// Where engines listen: Docker's, then Podman's.
pub const SOCKETS: [&str; 3] = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    /// The driver's own data directory.
    pub data: PathBuf,
    /// Where link directories and boot documents are made; need not survive a reboot.
    pub run: PathBuf,
    /// The engine's socket.
    pub socket: PathBuf,
    /// The default disk of a sandbox.
    pub disk_mib: u64,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Whether an engine whose runtime has known holes may be used by jobs that name the driver.
    pub allow_outdated_runtime: bool,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<Step>,
}

/// The driver. Dropping it leaves sandboxes running.
#[derive(Debug)]
pub struct DockerDriver {
    yard: Arc<Yard>,
}

/// Everything the driver's parts share.
#[derive(Debug)]
struct Yard {
    config: DockerConfig,
    engine: Engine,
    sandboxes: Sandboxes,
    disks: Disks,
    stage: Stage,
    links: Links,
    /// Directory of the guest's programs.
    programs: PathBuf,
    locks: Locks,
}

impl DockerDriver {
    /// Opens the driver of a yard. Asks nothing of the engine, which may be away while its sandboxes run.
    pub fn open(config: DockerConfig) -> Result<Self, OpenError> {
        let prepare = OpenError::prepare;
        let remembered = Remembered::of(&config.data)?;
        let layout = availability::require_host(&config, remembered.in_use)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        let yard = Yard {
            engine: Engine::new(&config.socket),
            sandboxes: remembered.on_host(layout, Supply::Host),
            disks: Disks::open(&config.data, config.disk_mib).map_err(prepare("open the stock of disks"))?,
            stage: Stage::open(&config.data).map_err(prepare("make the stage of disks"))?,
            links: Links::open(&config.run.join("links"), Entry::Group)
                .map_err(prepare("make the run directory"))?,
            programs: programs::install(&config.data.join("programs"))
                .map_err(prepare("install the guest"))?,
            locks: Locks::default(),
            config,
        };
        Ok(Self { yard: Arc::new(yard) })
    }
}

impl Yard {
    /// Init's directory on the host.
    fn boot_directory(&self, id: &SandboxId) -> PathBuf {
        self.config.run.join("boot").join(id.as_str())
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        catalogue::DOCKER.name
    }

    fn isolation(&self) -> Isolation {
        let engine = self.yard.engine.known_make().map_or("docker", Make::as_str);
        let runtime = format!("{engine}+user namespace+seccomp+landlock");
        Isolation::without_network(IsolationLevel::Container, runtime)
    }

    async fn availability(&self) -> Availability {
        availability::of(&self.yard, self).await
    }

    async fn prepare_image(&self, image: &ImageDigest, report: Report<'_>) -> Result<(), PrepareImageError> {
        let failed = |error: LoadError| PrepareImageError {
            step: "load the image into the engine".into(),
            source: error.into(),
        };
        let image = self.yard.image(image).map_err(failed)?;
        let (sender, mut percents) = tokio::sync::mpsc::unbounded_channel();
        // At most a hundred and one reports, so the queue is bounded by what is sent.
        let loading = images::ensure(&self.yard.engine, image, move |percent| {
            // Nobody listens once the call was cancelled.
            let _ = sender.send(percent);
        });
        let mut loading = std::pin::pin!(loading);
        loop {
            tokio::select! {
                Some(percent) = percents.recv() => report(match percent {
                    // It has all of it by then, and takes as long again.
                    100 => "docker image: the engine unpacks it".to_owned(),
                    _ => format!("docker image {percent} %"),
                }),
                loaded = &mut loading => return loaded.map(drop).map_err(failed),
            }
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: true, workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        self.yard.sandboxes.bind_limits(self.name(), id, binding)
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let Yard { sandboxes, links, .. } = &*self.yard;
        let running = sandboxes.running(id)?;
        let link = running.link(links.accept(id, sandboxes.keeper_on_host(&running.record))).await;
        match &link {
            Ok(_) => {
                // Init has read it; the secret need not lie about any longer.
                let _ = std::fs::remove_file(self.yard.boot_directory(id).join(layout::BOOT_FILE));
            }
            Err(LinkError::NotRunning(_)) => self.yard.tell_end(id).await,
            Err(LinkError::Listen { .. }) => {}
        }
        link
    }

    async fn wait_dead(&self, id: &SandboxId) {
        self.yard.sandboxes.wait_dead(id).await;
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.yard.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        self.yard.sweep().await;
        Ok(self.yard.sandboxes.found()?)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        self.yard.sandboxes.usage(id)
    }
}
