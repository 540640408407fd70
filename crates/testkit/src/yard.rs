//! The yard under test.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use sandyard_conformance::fake::{FakeDriver, FakeWorld};
use sandyard_protocol::OutputStream;
use sandyard_sandbox::driver::{Driver, InboundLinks, SandboxId};
use sandyard_server::app::{
    AppError, CommittedEvent, FullJobStatus, ImageFlavour, ImageState, Images, JobAccess, KnownStatus,
    NewJob, StartYardError, WithOutput, Yard,
};
use sandyard_server::auth::{AccessScope, Caller};
use sandyard_server::config::{AdmissionConfig, ServerConfig};
use sandyard_server::job::JobId;
use tempfile::TempDir;

/// Longest wait of a test.
const DEADLINE: Duration = Duration::from_secs(30);

/// A test can't continue.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The yard rejected a request.
    #[error(transparent)]
    App(#[from] AppError),
    /// The yard could not be opened.
    #[error(transparent)]
    Start(#[from] StartYardError),
    /// A folder could not be made or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The expected state was not reached in time.
    #[error("not within {} s: {what}; last seen: {last}", DEADLINE.as_secs())]
    Late {
        /// Name of the expected state.
        what: &'static str,
        /// The last observed state.
        last: String,
    },
}

/// A server on the fake driver, or on drivers that pose as others.
pub struct TestYard {
    /// Handle of the running server.
    pub yard: Yard,
    /// World of the fake driver's machines.
    pub world: Arc<FakeWorld>,
    open_drivers: OpenDrivers,
    folders: Arc<Folders>,
    config: ServerConfig,
}

/// Opens the drivers of one server. Each server on the same machines calls it again.
type OpenDrivers = Arc<dyn Fn(&Arc<FakeWorld>) -> Vec<Arc<dyn Driver>> + Send + Sync>;

/// Data and machines of a yard whose server died.
pub struct Crashed {
    /// World of the machines, which outlive the server.
    pub world: Arc<FakeWorld>,
    open_drivers: OpenDrivers,
    folders: Arc<Folders>,
    config: ServerConfig,
}

struct Folders {
    data: TempDir,
    _machines: TempDir,
}

/// Images that always exist.
pub struct ReadyImages;

#[async_trait]
impl Images for ReadyImages {
    fn state(&self, _: ImageFlavour) -> ImageState {
        ImageState::Ready { image: sandyard_conformance::unread_image() }
    }

    async fn changed(&self) {
        std::future::pending().await
    }
}

impl TestYard {
    /// Opens a yard with defaults that suit a test.
    pub async fn new() -> Result<Self, TestError> {
        Self::with(|_| {}).await
    }

    /// Opens a yard with changed settings.
    pub async fn with(change: impl FnOnce(&mut ServerConfig)) -> Result<Self, TestError> {
        let open = |world: &Arc<FakeWorld>| vec![Arc::new(FakeDriver::new(world.clone())) as Arc<dyn Driver>];
        Self::opening(Arc::new(open), change).await
    }

    /// Opens a yard whose machines behave as on another host: they dial a door of the server, and each server
    /// has another one.
    pub async fn remote(change: impl FnOnce(&mut ServerConfig)) -> Result<Self, TestError> {
        let open = |world: &Arc<FakeWorld>| {
            vec![Arc::new(FakeDriver::remote(world.clone(), InboundLinks::default())) as Arc<dyn Driver>]
        };
        Self::opening(Arc::new(open), change).await
    }

    /// Opens a yard with these drivers, in this order.
    pub async fn with_drivers(
        drivers: Vec<Arc<dyn Driver>>,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Self, TestError> {
        Self::opening(Arc::new(move |_: &Arc<FakeWorld>| drivers.clone()), change).await
    }

    async fn opening(
        open_drivers: OpenDrivers,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Self, TestError> {
        let folders = Folders { data: tempfile::tempdir()?, _machines: tempfile::tempdir()? };
        let mut config = ServerConfig::new(folders.data.path().join("yard"), 16 * 1024);
        // Machines of the fake driver have no disk, so they take none of the host's.
        config.admission = AdmissionConfig {
            disk_reserve_mib: 1,
            disk_mib: Some(1 << 30),
            reserve_mib: 0,
            ..config.admission
        };
        config.end_grace = Duration::from_millis(300);
        config.link_timeout = Duration::from_secs(5);
        change(&mut config);
        let world = FakeWorld::new(folders._machines.path());
        Crashed { world, open_drivers, folders: Arc::new(folders), config }.restart().await
    }

    /// Opens another server on the same machines and the same shared store, with a data folder of its own.
    pub async fn beside(&self) -> Result<Self, TestError> {
        let folders = Folders { data: tempfile::tempdir()?, _machines: tempfile::tempdir()? };
        let data = folders.data.path().join("yard");
        std::fs::create_dir(&data)?;
        // Servers of one yard have one key, or they could not read each other's requests.
        std::fs::copy(self.data().join("store.key"), data.join("store.key"))?;
        let config = ServerConfig { data, ..self.config.clone() };
        let (world, open_drivers) = (Arc::clone(&self.world), Arc::clone(&self.open_drivers));
        Crashed { world, open_drivers, folders: Arc::new(folders), config }.restart().await
    }

    /// Kills the server: it releases nothing and finishes nothing.
    pub fn crash(self) -> Crashed {
        let Self { yard, world, open_drivers, folders, config } = self;
        drop(yard);
        Crashed { world, open_drivers, folders, config }
    }

    /// Stops the server as SIGTERM does.
    pub async fn stop(self) -> Crashed {
        self.yard.stop().await;
        self.crash()
    }

    /// Returns the data directory of the yard.
    pub fn data(&self) -> &Path {
        &self.config.data
    }

    /// Returns the folder of a job.
    pub fn job_folder(&self, id: &JobId) -> std::path::PathBuf {
        self.config.data.join("jobs").join(id.as_str())
    }

    /// Schedules a job as the operator and returns its id.
    pub async fn schedule(&self, job: NewJob) -> Result<JobId, TestError> {
        Ok(self.yard.schedule(&Caller::operator(), job, None).await?.id)
    }

    /// Returns the operator's access to a job.
    pub async fn job(&self, id: &JobId) -> Result<JobAccess, AppError> {
        self.yard.job(&Caller::operator(), id, AccessScope::ReadJobs).await
    }

    /// Returns the status of a job.
    pub async fn status(&self, id: &JobId, output: WithOutput) -> Result<Arc<KnownStatus>, AppError> {
        self.yard.status(&self.job(id).await?, output).await
    }

    /// Schedules a job and waits for its end.
    pub async fn run(&self, job: NewJob) -> Result<FullJobStatus, TestError> {
        let id = self.schedule(job).await?;
        self.ended(&id).await
    }

    /// Waits for a job's end.
    pub async fn ended(&self, id: &JobId) -> Result<FullJobStatus, TestError> {
        self.wait(id, "the end of the job", |status| status.state.is_terminal()).await
    }

    /// Waits until `wanted` accepts the job's status.
    pub async fn wait(
        &self,
        id: &JobId,
        what: &'static str,
        wanted: impl Fn(&FullJobStatus) -> bool,
    ) -> Result<FullJobStatus, TestError> {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let status = self.status(id, WithOutput::Tails).await?;
            if wanted(&status) {
                return Ok(FullJobStatus::clone(&status));
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(TestError::Late { what, last: format!("{status:?}") });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Downloads the whole artifact of an ended job.
    pub async fn download(&self, id: &JobId) -> Result<Vec<u8>, TestError> {
        download_whole(&self.yard, id).await
    }

    /// Waits until `wanted` accepts the world.
    pub async fn wait_world(
        &self,
        what: &'static str,
        wanted: impl Fn(&FakeWorld) -> bool,
    ) -> Result<(), TestError> {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while !wanted(&self.world) {
            if tokio::time::Instant::now() >= deadline {
                return Err(TestError::Late { what, last: format!("{:?}", self.world.markers()) });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Returns all events of an ended job above an id.
    pub async fn events(&self, id: &JobId, after: u64) -> Result<Vec<CommittedEvent>, TestError> {
        let mut stream = self.yard.events(&self.job(id).await?, after).await?;
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event?);
        }
        Ok(events)
    }

    /// Returns the whole log of a stream.
    pub async fn log(&self, id: &JobId, stream: OutputStream) -> Result<Vec<u8>, TestError> {
        let mut log = self.yard.logs(&self.job(id).await?, stream).await?;
        let mut bytes = Vec::new();
        while let Some(part) = log.bytes.next().await {
            bytes.extend_from_slice(&part?);
        }
        Ok(bytes)
    }

    /// Returns all sandboxes that a job has had, in order.
    pub fn sandboxes(&self, id: &JobId) -> Vec<SandboxId> {
        self.world.started_in(&self.job_folder(id))
    }
}

impl Crashed {
    /// Starts another server on the same data and machines.
    pub async fn restart(self) -> Result<TestYard, TestError> {
        let Self { world, open_drivers, folders, config } = self;
        let drivers = open_drivers(&world);
        let deadline = tokio::time::Instant::now() + DEADLINE;
        let yard = loop {
            match Yard::start(config.clone(), drivers.clone(), Arc::new(ReadyImages)).await {
                // The tasks of the dead server are still being dropped.
                Err(StartYardError::Held { .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                other => break other?,
            }
        };
        Ok(TestYard { yard, world, open_drivers, folders, config })
    }

    /// Takes all drivers from the next server. The machines live on.
    #[must_use]
    pub fn without_drivers(mut self) -> Self {
        self.open_drivers = Arc::new(|_| Vec::new());
        self
    }

    /// Gives the next server only the fake driver of these machines.
    #[must_use]
    pub fn with_fake_driver(mut self) -> Self {
        self.open_drivers = Arc::new(|world| vec![Arc::new(FakeDriver::new(Arc::clone(world)))]);
        self
    }

    /// Changes the settings of the next server.
    #[must_use]
    pub fn reconfigured(mut self, change: impl FnOnce(&mut ServerConfig)) -> Self {
        change(&mut self.config);
        self
    }
}

/// Downloads the whole artifact of an ended job.
pub async fn download_whole(yard: &Yard, id: &JobId) -> Result<Vec<u8>, TestError> {
    let job = yard.job(&Caller::operator(), id, AccessScope::ReadJobs).await?;
    let download = yard.download(&job).await?;
    let length = download.length;
    let mut stream = download.read(0, length).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}
