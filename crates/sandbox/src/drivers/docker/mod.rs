//! The driver over a container engine: Docker or Podman, through the API on its Unix socket.
//!
//! A start writes the marker (`record`), mounts the disk where the engine finds it (`stage`), and has the engine make a container of the
//! loaded image (`images`, `container`, `engine`), whose first process is the guest's `init`. From then on the sandbox needs neither
//! engine API nor server: it is judged by its process, linked over a directory mounted inside, limited and counted by the
//! driver's own control groups. The engine's socket is the server's alone.

mod availability;
mod container;
mod engine;
mod images;
mod record;
mod stage;
mod start;
mod stop;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

pub use images::{LoadError, LoadedImage, load_image, loaded_images, remove_image};

use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, LinkError, ListError,
    OpenError, PrepareImageError, ProbeImage, Report, SandboxId, SandboxSpec, StartError, StopError, Usage,
    UsageError,
};
use crate::parts::cgroup::{Groups, Layout};
use crate::parts::disk::Disks;
use crate::parts::ids::{IdPool, Supply};
use crate::parts::links::{Entry, Links};
use crate::parts::locks::Locks;
use crate::parts::records::Records;
use crate::parts::{disk, layout, programs, yard_id};
use engine::{Engine, Make};
use record::Record;
use stage::Stage;

/// Where engines listen: Docker's, then Podman's.
pub const SOCKETS: [&str; 3] = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];

/// What the driver needs to know.
#[derive(Clone)]
pub struct DockerConfig {
    /// The driver's own data directory.
    pub data: PathBuf,
    /// Where link directories and boot documents are made; need not survive a reboot.
    pub run: PathBuf,
    /// The engine's socket.
    pub socket: PathBuf,
    /// The default disk of a sandbox.
    pub disk_mib: u64,
    /// An image for `availability`.
    pub probe_image: ProbeImage,
    /// Whether an engine whose runtime has known holes may be used by jobs that name the driver.
    pub allow_outdated_runtime: bool,
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DockerConfig").field("socket", &self.socket).finish_non_exhaustive()
    }
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
    yard: String,
    engine: Engine,
    layout: Layout,
    records: Records<Record>,
    disks: Disks,
    stage: Stage,
    links: Links,
    ids: IdPool,
    /// Directory of the guest's programs.
    programs: PathBuf,
    locks: Locks,
}

impl DockerDriver {
    /// Opens the driver of a yard. Asks nothing of the engine, which may be away while its sandboxes run.
    pub fn open(config: DockerConfig) -> Result<Self, OpenError> {
        let prepare = |step| move |source| OpenError::Prepare { step, source };
        std::fs::create_dir_all(&config.data).map_err(prepare("make the data directory"))?;
        let records = Records::<Record>::open(&config.data).map_err(prepare("open the markers"))?;
        let known = records.all().map_err(prepare("read the markers"))?;
        let in_use = known.iter().any(Record::is_alive);
        let layout =
            availability::require_host(&config, in_use).map_err(|error| error.unless_in_use(in_use))?;
        let disks = Disks::open(&config.data, config.disk_mib).map_err(prepare("open the stock of disks"))?;
        disks.tidy().map_err(prepare("tidy the stock of disks"))?;
        let yard = Yard {
            yard: yard_id::of(&config.data).map_err(prepare("read the yard's id"))?,
            engine: Engine::new(&config.socket),
            layout,
            disks,
            stage: Stage::open(&config.data).map_err(prepare("make the stage of disks"))?,
            links: Links::open(&config.run.join("links"), Entry::Group)
                .map_err(prepare("make the run directory"))?,
            ids: IdPool::with_taken(Supply::Host, known.iter().map(|record| record.id_base)),
            programs: programs::install(&config.data.join("programs"))
                .map_err(prepare("install the guest"))?,
            locks: Locks::default(),
            records,
            config,
        };
        Ok(Self { yard: Arc::new(yard) })
    }
}

impl Yard {
    /// The groups of a sandbox, named like it.
    fn groups(&self, id: &SandboxId) -> Groups {
        Groups::new(&self.layout, &self.yard, id.as_str())
    }

    /// Init's directory on the host.
    fn boot_directory(&self, id: &SandboxId) -> PathBuf {
        self.config.run.join("boot").join(id.as_str())
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn isolation(&self) -> Isolation {
        let engine = self.yard.engine.known_make().map_or("docker", Make::as_str);
        let runtime = format!("{engine}+user namespace+seccomp+landlock");
        Isolation { level: IsolationLevel::Container, runtime }
    }

    async fn availability(&self) -> Availability {
        availability::of(&self.yard, self).await
    }

    async fn prepare_image(&self, image_root: &Path, report: Report<'_>) -> Result<(), PrepareImageError> {
        let failed = |error: LoadError| PrepareImageError {
            step: "load the image into the engine".into(),
            source: error.into(),
        };
        let image = images::image_of(image_root).map_err(failed)?;
        let (sender, mut percents) = tokio::sync::mpsc::unbounded_channel();
        // At most a hundred and one reports, so the queue is bounded by what is sent.
        let loading = images::ensure(&self.yard.engine, image, move |percent| {
            // Nobody listens once the call was cancelled.
            let _ = sender.send(percent);
        });
        let mut loading = std::pin::pin!(loading);
        loop {
            tokio::select! {
                Some(percent) = percents.recv() => report(format!("docker image {percent} %")),
                loaded = &mut loading => return loaded.map(drop).map_err(failed),
            }
        }
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let not_running = || LinkError::NotRunning(id.clone());
        let record = self.yard.records.read(id).ok().flatten().ok_or_else(not_running)?;
        let process = record.process.ok_or_else(not_running)?;
        let keeper = self.yard.ids.keeper_on_host(record.id_base);
        tokio::select! {
            stream = self.yard.links.accept(id, keeper) => match stream {
                Ok(stream) => {
                    // Init has read it; the secret need not lie about any longer.
                    let _ = std::fs::remove_file(self.yard.boot_directory(id).join(layout::BOOT_FILE));
                    Ok(Box::new(stream))
                }
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
            () = process.wait_dead() => {
                self.yard.tell_end(id).await;
                Err(not_running())
            }
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        let record = self.yard.records.read(id).ok().flatten();
        if let Some(process) = record.and_then(|record| record.process) {
            process.wait_dead().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.yard.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        Ok(self.yard.list().await?)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let failed = |source| UsageError { id: id.clone(), source };
        let record = self.yard.records.read(id).map_err(failed)?;
        record.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        self.yard.groups(id).usage().map_err(failed)
    }
}
