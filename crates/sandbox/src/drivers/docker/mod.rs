//! The driver over a container engine: Docker or Podman, through the API on its Unix socket.
//!
//! A start writes the marker, mounts the disk where the engine finds it (`stage`), and has the engine make a container of the
//! loaded image (`images`, `container`, `engine`), whose first process is the guest's `init`. From then on the sandbox needs neither
//! engine API nor server: it is judged by its process, linked over a directory mounted inside, limited and counted by the
//! driver's own control groups. Whoever holds the engine's
//! socket is root: no sandbox gets near it, nor does a server that is not root.

mod availability;
mod config;
mod container;
mod engine;
mod images;
mod stage;
mod start;
mod state;
mod step;
mod stop;

use std::sync::Arc;

use async_trait::async_trait;

pub use config::DockerConfig;
pub use images::{LoadError, LoadedImage, load_image, loaded_images, remove_image};
pub use state::DockerDriver;
pub use step::DockerStep;

use self::state::DockerState;
use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BoxedDuplex, DiskState, Driver, DriverOpenError,
    FoundSandbox, ImageDigest, Isolation, IsolationLevel, LinkError, ListError, Liveness, PrepareImageError,
    ReportProgress, SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
use crate::host::layout;
use crate::host::sandboxes::MarkedSandboxes;
use crate::host::sandboxes::ids::Supply;
use crate::host::sandboxes::links::{KeeperEntry, SocketLinks};
use crate::host::sandboxes::locks::SandboxLocks;
use crate::host::storage::disk::Disks;
use engine::{Engine, EngineMake};
use stage::DiskStage;

/// Paths at which engines listen: Docker's, then Podman's.
pub const SOCKETS: [&str; 3] = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];

impl DockerDriver {
    /// Opens the driver. Does not contact the engine, which may be away while its sandboxes run.
    pub fn open(config: DockerConfig) -> Result<Self, DriverOpenError> {
        let prepare = DriverOpenError::prepare;
        let remembered = MarkedSandboxes::of(&config.data)?;
        let layout = availability::require_host(&config, remembered.in_use)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        let state = DockerState {
            engine: Engine::new(&config.socket),
            sandboxes: remembered.on_host(layout, Supply::Host),
            disks: Disks::open(&config.data, config.disk_mib).map_err(prepare("open the stock of disks"))?,
            stage: DiskStage::open(&config.data).map_err(prepare("make the stage of disks"))?,
            links: SocketLinks::open(&config.run.join("links"), KeeperEntry::Group)
                .map_err(prepare("make the run directory"))?,
            programs: config
                .programs
                .install(&config.data.join("programs"))
                .map_err(prepare("install the guest"))?,
            locks: SandboxLocks::default(),
            config,
        };
        Ok(Self { state: Arc::new(state) })
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        catalogue::DOCKER.name
    }

    fn isolation(&self) -> Isolation {
        let engine = self.state.engine.known_make().map_or("docker", EngineMake::as_str);
        let runtime = format!("{engine}+user namespace+seccomp+landlock");
        Isolation::without_network(IsolationLevel::Container, runtime)
    }

    async fn availability(&self) -> Availability {
        availability::of(&self.state, self).await
    }

    async fn prepare_image(
        &self,
        image: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        let failed = |error: LoadError| PrepareImageError {
            step: "load the image into the engine".into(),
            source: error.into(),
        };
        let image = self.state.image(image).map_err(failed)?;
        let (sender, mut percents) = tokio::sync::mpsc::unbounded_channel();
        // At most a hundred and one reports are sent, which bounds the queue.
        let loading = images::ensure(&self.state.engine, image, move |percent| {
            // The receiver is gone once the call was cancelled.
            let _ = sender.send(percent);
        });
        let mut loading = std::pin::pin!(loading);
        loop {
            // The load goes on while reports are shown. Dropping `recv` loses no report, and a closed channel
            // disables its branch. Dropping the whole future ends the load; the next call starts it again.
            tokio::select! {
                Some(percent) = percents.recv() => report(match percent {
                    // The engine has the whole archive now, and takes as long again.
                    100 => "docker image: the engine unpacks it".to_owned(),
                    _ => format!("docker image {percent} %"),
                }),
                loaded = &mut loading => return loaded.map(drop).map_err(failed),
            }
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.state.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: true, workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        self.state.sandboxes.bind_limits(self.name(), id, binding)
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let DockerState { sandboxes, links, .. } = &*self.state;
        let running = sandboxes.running(id)?;
        let link = running.link(links.accept(id, sandboxes.keeper_on_host(&running.record))).await;
        match &link {
            Ok(_) => {
                // Init has read the document by now. Removing it leaves no copy of the secret on the disk.
                let _ = std::fs::remove_file(self.state.boot_directory(id).join(layout::BOOT_FILE));
            }
            Err(LinkError::NotRunning(_)) => self.state.tell_end(id).await,
            Err(LinkError::Listen { .. }) => {}
        }
        link
    }

    async fn wait_dead(&self, id: &SandboxId) {
        self.state.sandboxes.wait_dead(id).await;
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.state.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        self.state.sweep().await;
        Ok(self.state.sandboxes.found()?)
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        Ok(self.state.sandboxes.find(id)?)
    }

    async fn disk_state(&self, id: &SandboxId) -> DiskState {
        self.state.sandboxes.disk_state(id)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        self.state.sandboxes.usage(id)
    }
}
