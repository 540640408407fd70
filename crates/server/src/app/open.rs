//! Opening and closing a yard.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use sandyard_sandbox::driver::Driver;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::Images;
use super::Yard;
use super::brief_cache::BriefCache;
use super::open_tickets::Tickets;
use super::owner_cache::OwnerCache;
use super::yard_task::YardTask;
use crate::audit::SigningKey;
use crate::blobs::{self, Scratch, WorkspaceFolders};
use crate::clock::Clock;
use crate::config::{ModelsError, ServerConfig};
use crate::disk;
use crate::drivers::Drivers;
use crate::gateways::model::Models;
use crate::job::{self, RandomError};
use crate::key_file::KeyFileError;
use crate::lifecycle::{MAX_ADOPTIONS_AT_ONCE, Reconciler, remove_strays};
use crate::output::SharedOutputPace;
use crate::recall::{KeptTexts, RecallService};
use crate::store::{self, AuditSigner, OpenStoreError, StoreError, YardLock};
use crate::yard::Admission;
use crate::yard::AuditRecorder;
use crate::yard::Metrics;
use crate::yard::StatusCache;
use crate::yard::{DiskProbe, Machines, Usages, Verdicts, WaitingLine, YardContext};

/// Jobs that were claimed as they were stored and wait for the loop. A scheduler waits when there are more.
const CLAIM_QUEUE_JOBS: usize = 256;

/// A yard can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartYardError {
    /// A folder can't be made.
    #[error("prepare {}", path.display())]
    Prepare {
        /// The data directory that could not be prepared.
        path: std::path::PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The store can't be opened.
    #[error("open the store")]
    Open(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The place of results and output can't be used.
    #[error("open the blobs")]
    Blobs(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another server holds it.
    #[error("another server works on {}", path.display())]
    Held {
        /// The data directory that another server holds.
        path: std::path::PathBuf,
    },
    /// The state that the last server left can't be read.
    #[error("read what the last server left")]
    Left(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A configured model is not available.
    #[error("prepare the models")]
    Models(#[from] ModelsError),
    /// The key that signs audits can't be used.
    #[error("prepare the key of the audit")]
    AuditKey(#[from] KeyFileError),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn not_opened(error: OpenStoreError) -> StartYardError {
    match error {
        OpenStoreError::Held { path } => StartYardError::Held { path },
        other => StartYardError::Open(Box::new(other)),
    }
}

impl Yard {
    /// Opens the data directory, adopts live sandboxes, removes strays, and starts the loop.
    pub async fn start(
        config: ServerConfig,
        drivers: Vec<Arc<dyn Driver>>,
        images: Arc<dyn Images>,
    ) -> Result<Self, StartYardError> {
        let data = config.data.clone();
        let prepare = |source| StartYardError::Prepare { path: data.clone(), source };
        disk::make_data_folder(&data).map_err(prepare)?;
        // First: a server that finds the yard taken must leave it as it is, and two that start at once must not both make a key.
        let lock = YardLock::take(&data).map_err(not_opened)?;
        let signer = Arc::new(SigningKey::load_or_create(&data.join("audit.key"))?);
        let audit_key = signer.public();
        let clock = Clock::default();
        let store = store::open(&config.store, &data, lock, AuditSigner::new(signer), clock);
        let store = store.map_err(not_opened)?;
        // With the yard's lock: opening empties the scratch folder, which another server might use.
        let scratch = Scratch::open(&data).map_err(prepare)?;
        let blobs = blobs::open(&config.blobs, &data, scratch.clone());
        let blobs = blobs.map_err(|error| StartYardError::Blobs(Box::new(error)))?;
        let texts = KeptTexts::new(Arc::clone(&store), Arc::clone(&blobs));
        let recall = RecallService::new(config.reader, data.join("indexes"), Arc::clone(&store), texts);
        let workspaces = WorkspaceFolders::new(&data, config.workspace_owner.clone());
        let (ended, machines) = (Arc::new(StatusCache::default()), Machines::default());
        let wake = Arc::new(Notify::new());
        let drivers = Drivers::new(drivers, config.floors.clone(), &wake);
        let context = Arc::new(YardContext {
            admission: Admission::new(config.admission.clone(), &data, Arc::clone(&wake)),
            line: WaitingLine::new(config.admission.patience),
            disk_probe: DiskProbe::new(&data),
            usages: Usages::default(),
            verdicts: Verdicts::default(),
            output_pace: SharedOutputPace::new(config.output.bytes_per_s, Instant::now()),
            adoptions: Arc::new(Semaphore::new(MAX_ADOPTIONS_AT_ONCE)),
            models: Models::new(&config.models)?,
            config,
            recorder: AuditRecorder::new(Arc::clone(&store), Arc::clone(&ended), machines.clone()),
            audit_key,
            clock,
            store,
            drivers,
            images,
            blobs,
            recall,
            scratch,
            workspaces,
            metrics: Metrics::default(),
            ended,
            machines,
            wake,
            orphaned: Notify::new(),
            owner: job::random_id()?.to_string(),
        });
        // Before the loop starts: nothing is being made yet, so a sandbox without a row is a stray.
        remove_strays(&context).await.map_err(|error: StoreError| StartYardError::Left(Box::new(error)))?;
        Self::work(context).map_err(prepare)
    }

    fn work(context: Arc<YardContext>) -> std::io::Result<Self> {
        let (claimed, receiver) = mpsc::channel(CLAIM_QUEUE_JOBS);
        let stop = CancellationToken::new();
        let task = tokio::spawn(Reconciler::new(Arc::clone(&context), receiver)?.run(stop.clone()));
        let running = YardTask { claimed, stop, task: Mutex::new(Some(task)) };
        Ok(Self {
            context,
            tickets: Arc::new(Tickets::default()),
            owners: Arc::new(OwnerCache::default()),
            briefs: Arc::new(BriefCache::default()),
            running: Arc::new(running),
        })
    }

    /// Stops claiming, releases all jobs and returns when no task is left. Jobs go on in their sandboxes.
    pub async fn stop(&self) {
        // Stops scheduling too: `schedule` refuses once this is set.
        self.running.stop.cancel();
        let task = self.running.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the loop ended badly");
        }
        // Last: results of calls that ended during the stop are still in the queue.
        self.context.recorder.settle().await;
    }

    /// True after `stop` was called.
    pub fn is_stopping(&self) -> bool {
        self.running.stop.is_cancelled()
    }

    /// Returns when the yard can't go on, with the reason: the state on disk is unknown and the process should end.
    pub async fn broken(&self) -> String {
        self.context.store.broken().await
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::app::{ImageFlavour, ImageState};

    struct NoImages;

    #[async_trait]
    impl Images for NoImages {
        fn state(&self, _: ImageFlavour) -> ImageState {
            ImageState::Missing { detail: "none".to_owned(), hint: String::new() }
        }

        async fn changed(&self) {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_server_that_finds_the_yard_taken_makes_nothing_in_it() {
        let data = tempfile::tempdir().unwrap();
        let held = YardLock::take(data.path()).unwrap();
        let config = ServerConfig::new(data.path().to_owned(), 1024);
        let second = Yard::start(config.clone(), Vec::new(), Arc::new(NoImages)).await;
        assert!(matches!(second, Err(StartYardError::Held { .. })));
        let names: Vec<_> =
            std::fs::read_dir(data.path()).unwrap().flatten().map(|file| file.file_name()).collect();
        assert_eq!(names, ["lock"]);
        drop(held);
        assert!(Yard::start(config, Vec::new(), Arc::new(NoImages)).await.is_ok());
        assert!(data.path().join("audit.key").exists());
    }
}
