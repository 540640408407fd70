//! Events: those that are committed, then new ones, until the job has ended. Ids have no gap, so a client resumes after its
//! last one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use sandyard_protocol::OutputStream;

use super::model::CommittedEvent;
use super::{AppError, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::job::EventRow;
use crate::job::JobId;
use crate::job::JobState;
use crate::output;
use crate::store::JobWatch;
use crate::yard::YardContext;

/// A stream of events that ends after the terminal state's event.
pub type JobEventStream = Pin<Box<dyn Stream<Item = Result<CommittedEvent, AppError>> + Send>>;

/// Events in one read of the store.
const EVENTS_PER_READ: usize = 64;

struct EventCursor {
    context: Arc<YardContext>,
    id: JobId,
    after: u64,
    page: VecDeque<EventRow>,
    watch: JobWatch,
    ended: bool,
}

impl Yard {
    /// Returns the number of the newest event; 0 if there is none.
    pub async fn newest_event(&self, job: &JobAccess) -> Result<u64, AppError> {
        job.require(AccessScope::ReadJobs)?;
        Ok(self.row(job.id()).await?.last_event)
    }

    /// Events with an id above `after`, then new ones as they come, until the job has ended.
    pub async fn events(&self, job: &JobAccess, after: u64) -> Result<JobEventStream, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let id = job.id();
        // Before the first read: an event that is committed in between wakes the watch.
        let watch = self.context.store.watch(id);
        self.row(id).await?;
        let start = EventCursor {
            context: Arc::clone(&self.context),
            id: id.clone(),
            after,
            page: VecDeque::new(),
            watch,
            ended: false,
        };
        Ok(Box::pin(stream::try_unfold(start, |mut position| async move {
            Ok(position.next().await?.map(|event| (event, position)))
        })))
    }
}

impl EventCursor {
    async fn next(&mut self) -> Result<Option<CommittedEvent>, AppError> {
        loop {
            if let Some(row) = self.page.pop_front() {
                self.after = row.id;
                self.ended |= is_last(&row);
                return self.event(row).await.map(Some);
            }
            if self.ended {
                return Ok(None);
            }
            self.page = self.context.store.events(&self.id, self.after, EVENTS_PER_READ).await?.into();
            // Checked only after an empty page, so a terminal state never hides events before it.
            if self.page.is_empty() && self.nothing_more().await? {
                return Ok(None);
            }
            if self.page.is_empty() {
                self.watch.changed().await;
            }
        }
    }

    /// True if the job is over and all its events were returned, or it was deleted.
    async fn nothing_more(&self) -> Result<bool, AppError> {
        let row = self.context.store.job(&self.id).await?;
        Ok(row.is_none_or(|row| row.state.is_terminal() && self.after >= row.last_event))
    }

    async fn event(&self, row: EventRow) -> Result<CommittedEvent, AppError> {
        let mut data = row.data;
        let stream = match row.kind.as_str() {
            "stdout" => Some(OutputStream::Stdout),
            "stderr" => Some(OutputStream::Stderr),
            _ => None,
        };
        if let (Some(stream), Some(object)) = (stream, data.as_object_mut()) {
            let number = object.remove("chunk").and_then(|number| number.as_u64()).unwrap_or(0);
            let (store, blobs) = (self.context.store.as_ref(), self.context.blobs.as_ref());
            let text = match store.job(&self.id).await? {
                Some(row) => output::chunk_text(store, blobs, &row, stream, number).await?,
                None => None,
            };
            match text {
                Some(text) => object.insert("text".into(), text.into()),
                None => object.insert("dropped".into(), true.into()),
            };
        }
        Ok(CommittedEvent { id: row.id, kind: row.kind, at_ms: row.at_ms, data })
    }
}

fn is_last(row: &EventRow) -> bool {
    let state = row.data.get("state").and_then(|state| state.as_str()).and_then(JobState::parse);
    row.kind == "state" && state.is_some_and(JobState::is_terminal)
}
