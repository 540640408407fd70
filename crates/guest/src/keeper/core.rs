//! The things that every service of keeper shares. Knows no service.

use std::sync::Arc;

use sandyard_protocol::ProcessId;
use tokio::sync::mpsc;

use super::spool::{Spool, SpoolError};
use super::tasks::Tasks;
use crate::process_host::{ProcessHost, SpawnError};

/// The reason why keeper had to stop.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The spool can't be read or written.
    #[error("use the spool")]
    Spool(#[from] SpoolError),
    /// The spawner is gone.
    #[error("ask the spawner")]
    Spawner(#[from] SpawnError),
}

/// The things that every service of keeper shares.
pub(super) struct KeeperCore {
    /// How many keepers this machine has had, counting from 1. Part of each name that must not be used twice.
    pub(super) number: u64,
    pub(super) spool: Arc<Spool>,
    pub(super) host: Arc<dyn ProcessHost>,
    pub(super) tasks: Tasks,
    failure: mpsc::Sender<KeeperError>,
}

impl std::fmt::Debug for KeeperCore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeeperCore").field("number", &self.number).finish_non_exhaustive()
    }
}

impl KeeperCore {
    /// Also returns the receiver of the failure that stops keeper.
    pub(super) fn new(
        number: u64,
        spool: Arc<Spool>,
        host: Arc<dyn ProcessHost>,
    ) -> (Arc<Self>, mpsc::Receiver<KeeperError>) {
        let (failure, failures) = mpsc::channel(1);
        (Arc::new(Self { number, spool, host, tasks: Tasks::default(), failure }), failures)
    }

    /// Makes keeper stop. Only the first reason is reported.
    pub(super) fn fail(&self, error: KeeperError) {
        let _ = self.failure.try_send(error);
    }

    /// Makes keeper stop if the spool failed. Init then starts another keeper, which may find the disk in better order.
    pub(super) fn stop_on(&self, outcome: Result<(), SpoolError>) {
        if let Err(error) = outcome {
            self.fail(error.into());
        }
    }

    /// Makes the spawner drop its record of an ended process, without waiting for it.
    pub(super) fn forget_later(self: &Arc<Self>, id: ProcessId) {
        let core = self.clone();
        self.tasks.spawn(async move {
            let _ = core.host.forget(&id).await;
        });
    }
}
