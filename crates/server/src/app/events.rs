//! Events: what is committed, then what comes, until the job has ended. Ids have no gap; a client goes on from its last.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use sandyard_protocol::OutputStream;

use super::model::JobEvent;
use super::{AppError, Yard};
use crate::job::EventRow;
use crate::job::JobId;
use crate::job::JobState;
use crate::output;
use crate::store::JobWatch;
use crate::yard::YardContext;

/// A stream of events that ends after the terminal state's event.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<JobEvent, AppError>> + Send>>;

/// Events read at once.
const PAGE: usize = 64;

struct Position {
    context: Arc<YardContext>,
    id: JobId,
    after: u64,
    page: VecDeque<EventRow>,
    watch: JobWatch,
    ended: bool,
}

impl Yard {
    /// Events with an id above `after`, then new ones as they come, until the job has ended.
    pub async fn events(&self, id: &JobId, after: u64) -> Result<EventStream, AppError> {
        let watch = self.context.store.watch(id);
        self.row(id).await?;
        let start = Position {
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

impl Position {
    async fn next(&mut self) -> Result<Option<JobEvent>, AppError> {
        loop {
            if let Some(row) = self.page.pop_front() {
                self.after = row.id;
                self.ended |= is_last(&row);
                return self.event(row).await.map(Some);
            }
            if self.ended {
                return Ok(None);
            }
            self.page = self.context.store.events(&self.id, self.after, PAGE).await?.into();
            if self.page.is_empty() && self.nothing_more().await? {
                return Ok(None);
            }
            if self.page.is_empty() {
                self.watch.changed().await;
            }
        }
    }

    /// Whether the job is over and all its events were given, or it is gone.
    async fn nothing_more(&self) -> Result<bool, AppError> {
        let row = self.context.store.job(&self.id).await?;
        Ok(row.is_none_or(|row| row.state.is_terminal() && self.after >= row.last_event))
    }

    async fn event(&self, row: EventRow) -> Result<JobEvent, AppError> {
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
        Ok(JobEvent { id: row.id, kind: row.kind, at_ms: row.at_ms, data })
    }
}

fn is_last(row: &EventRow) -> bool {
    let state = row.data.get("state").and_then(|state| state.as_str()).and_then(JobState::parse);
    row.kind == "state" && state.is_some_and(JobState::is_terminal)
}
