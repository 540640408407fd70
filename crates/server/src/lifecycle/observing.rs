//! What the host observes of a running job for later: the looks of its desktop and what it uses. Each observer is a task of one
//! session and reports changes for the session's commits.

use std::sync::Arc;

use sandyard_sandbox::machine::Machine;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{screen_recording, usage_series};
use crate::job::{Change, JobRow};
use crate::yard::YardContext;

/// Changes that wait for the session. Observers go on when it has room.
const QUEUED_CHANGES: usize = 2;

/// The observers of one session. Dropping them ends them.
pub(super) struct JobObservers {
    changes: mpsc::Receiver<Change>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl JobObservers {
    /// Begins to observe, or goes on after what the row has.
    pub(super) fn begin(context: &Arc<YardContext>, row: &JobRow, machine: &Arc<Machine>) -> Self {
        let (sender, changes) = mpsc::channel(QUEUED_CHANGES);
        let screen = {
            let (context, row, machine) = (Arc::clone(context), row.clone(), Arc::clone(machine));
            let sender = sender.clone();
            async move { screen_recording::record(context, &row, machine, sender).await }
        };
        let (context, row) = (Arc::clone(context), row.clone());
        let usage = async move { usage_series::record(context, &row, sender).await };
        let tasks = [tokio::spawn(screen), tokio::spawn(usage)].map(AbortOnDropHandle::new);
        Self { changes, _tasks: tasks }
    }

    /// Waits for the next change of the job. Cancelling loses none.
    pub(super) async fn next(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            // Nothing more is observed over this link.
            None => std::future::pending().await,
        }
    }
}
