//! The desk of a task: the loop's journal, kept on the host and answered over the pipe.
//!
//! A loop opens a stream, is given its task and the whole journal, and adds entries one after the other; each is durable
//! before it is answered. What people say meanwhile is pushed to it. The loop is hostile like everything in a sandbox: its
//! messages are bounded by their frames, its journal by count and bytes, and who is refused has to wait a moment.

mod answers;

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameLimits, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::{
    DeskRefusal, DeskReply, DeskRequest, JournalEntry, JournalRow, ModelFacts, TaskBudget, TaskFacts,
    TaskSpent, limits,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::model::{Budget, BudgetLimits, Money, bounds};
use crate::audit::cut;
use crate::job::JobId;
use crate::job::JobState;
use crate::job::{Fence, JobRow, SpentRow};
use crate::store::{Appended, JobWatch, Store, StoreError};

pub(crate) use answers::{Answers, row_of};

/// Desks of one job at once: that of the loop, and that of the one before it whose end was not noticed yet.
const DESKS_AT_ONCE: usize = 2;
/// For a loop to say what it wants after it opened a stream.
const OPEN_TIME: Duration = Duration::from_secs(10);
/// For one message, so that a loop that does not read keeps nothing.
const SEND_TIME: Duration = Duration::from_secs(30);
/// Before a refusal is answered, so that a flood of them stays a trickle.
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);
/// Entries and bytes that are read from the store at once.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Of the name of a call, in the reason of a look at the workspace.
const CALL_BYTES: usize = 100;

const FRAMES: FrameLimits = FrameLimits {
    message_bytes: limits::JOURNAL_ENTRY_BYTES + limits::MESSAGE_BYTES,
    sent_message_bytes: limits::DESK_MESSAGE_BYTES,
    data_bytes: 0,
};

/// Hears of each step that has ended.
pub(crate) type StepObserver = Arc<dyn Fn(&JobId, String) + Send + Sync>;

/// What a desk is made of.
#[derive(Clone)]
pub(crate) struct DeskParts {
    pub(crate) fence: Fence,
    /// The job's number in the store.
    pub(crate) job: i64,
    pub(crate) task: String,
    pub(crate) model: ModelFacts,
    /// As the job was scheduled.
    pub(crate) budget: TaskBudget,
    /// The account that model calls are held against.
    pub(crate) account: Arc<Budget>,
    /// Called with the name of each step that has ended: the workspace may have changed.
    pub(crate) step_ended: StepObserver,
}

/// One job's desk.
pub(crate) struct Desk {
    store: Arc<dyn Store>,
    parts: DeskParts,
    places: Semaphore,
}

/// The loop is gone, breaks the protocol, or the store can't go on; it may come again.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("the loop is gone")]
    Gone,
    #[error("the store")]
    Store(#[from] StoreError),
}

/// A stream with a loop at its other end.
struct Conversation<'a, S> {
    desk: &'a Desk,
    receiver: FrameReceiver<S>,
    sender: FrameSender<S>,
    watch: JobWatch,
    /// The last entry that the loop knows of.
    known: u64,
}

impl Desk {
    pub(crate) fn new(store: Arc<dyn Store>, parts: DeskParts) -> Arc<Self> {
        Arc::new(Self { store, parts, places: Semaphore::new(DESKS_AT_ONCE) })
    }

    /// Serves one stream that a loop opened.
    pub(crate) async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let Ok(_place) = self.places.try_acquire() else { return };
        let (receiver, sender) = Framed::new(stream, FRAMES).split();
        let watch = self.store.watch(self.id());
        let mut conversation = Conversation { desk: self, receiver, sender, watch, known: 0 };
        if let Err(closed @ Closed::Store(_)) = conversation.hold().await {
            tracing::warn!(job = %self.id(), error = %crate::error_chain::chain(&closed), "the desk is closed");
        }
    }

    fn id(&self) -> &JobId {
        &self.parts.fence.job
    }

    async fn row(&self) -> Result<JobRow, StoreError> {
        let row = self.store.any_job(self.id()).await?;
        row.filter(|row| row.epoch == self.parts.fence.epoch)
            .ok_or_else(|| StoreError::Stale(self.id().clone()))
    }

    /// The budget that holds now. Also makes it hold for model calls.
    fn budget(&self, row: &JobRow) -> TaskBudget {
        let budget = row.task.as_ref().and_then(|task| task.budget).unwrap_or(self.parts.budget);
        self.parts.account.change(limits_of(&budget));
        budget
    }

    fn facts(&self, row: &JobRow) -> TaskFacts {
        let spent = row.task.as_ref().map(|task| task.spent).unwrap_or_default();
        TaskFacts {
            task: self.parts.task.clone(),
            model: self.parts.model.clone(),
            budget: self.budget(row),
            spent: spent_of(spent),
            incarnation: row.incarnation,
            entries: entries(row),
        }
    }

    async fn append(&self, number: u64, entry: JournalEntry) -> Result<DeskReply, StoreError> {
        let refused = |code, message: &str| DeskReply::Refused { code, message: message.to_owned() };
        let is_ours = matches!(
            entry,
            JournalEntry::Task { .. } | JournalEntry::Said { .. } | JournalEntry::Answer { .. }
        );
        if is_ours {
            return Ok(refused(DeskRefusal::NotYours, "only the host writes such an entry"));
        }
        let length = serde_json::to_vec(&entry).map_or(usize::MAX, |text| text.len());
        if length > limits::JOURNAL_ENTRY_BYTES {
            return Ok(refused(DeskRefusal::TooLarge, "the entry is too long for the journal"));
        }
        let step = match &entry {
            JournalEntry::StepEnded { call, .. } => Some(format!("step {}", cut(call, CALL_BYTES))),
            _ => None,
        };
        Ok(match self.store.append(&self.parts.fence, number, Box::new(entry)).await? {
            Appended::Kept { number } => {
                if let Some(step) = step {
                    (self.parts.step_ended)(self.id(), step);
                }
                DeskReply::Appended { number }
            }
            Appended::NumberTaken => refused(DeskRefusal::NumberTaken, "this is not the next number"),
            Appended::Full => refused(DeskRefusal::JournalFull, "the job's journal is full"),
            Appended::Ended => refused(DeskRefusal::Ended, "the job is over"),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<'_, S> {
    async fn hold(&mut self) -> Result<(), Closed> {
        match timeout(OPEN_TIME, self.request()).await.map_err(|_| Closed::Gone)?? {
            DeskRequest::Open { loop_version } => {
                let version: String = loop_version.chars().take(100).collect();
                tracing::info!(job = %self.desk.id(), version, "a loop is at its desk");
            }
            DeskRequest::Append { .. } | DeskRequest::Read { .. } => return Err(Closed::Gone),
        }
        self.open().await?;
        loop {
            let request = tokio::select! {
                request = self.receiver.receive() => read_request(request)?,
                () = self.watch.changed() => {
                    self.pass_on_what_was_said().await?;
                    continue;
                }
            };
            match request {
                DeskRequest::Open { .. } => self.open().await?,
                DeskRequest::Append { number, entry } => self.append(number, entry).await?,
                DeskRequest::Read { first, count } => self.read(first, count).await?,
            }
        }
    }

    async fn request(&mut self) -> Result<DeskRequest, Closed> {
        read_request(self.receiver.receive().await)
    }

    /// Waits until the job is known to run, so that its state can move; then tells everything.
    async fn open(&mut self) -> Result<(), Closed> {
        let row = loop {
            let row = self.desk.row().await?;
            if row.state != JobState::Starting {
                break row;
            }
            self.watch.changed().await;
        };
        let facts = self.desk.facts(&row);
        let last = facts.entries;
        self.send(&DeskReply::Opened(Box::new(facts))).await?;
        self.entries(1, last).await?;
        self.known = last;
        Ok(())
    }

    async fn append(&mut self, number: u64, entry: JournalEntry) -> Result<(), Closed> {
        let reply = self.desk.append(number, entry).await?;
        match &reply {
            DeskReply::Appended { number } => {
                self.tell_said(*number).await?;
                self.known = self.known.max(*number);
            }
            _ => tokio::time::sleep(REFUSAL_PAUSE).await,
        }
        self.send(&reply).await
    }

    async fn read(&mut self, first: u64, count: u64) -> Result<(), Closed> {
        let first = first.max(1);
        let there = (entries(&self.desk.row().await?) + 1).saturating_sub(first);
        let count = count.min(limits::JOURNAL_READ_ENTRIES).min(there);
        self.send(&DeskReply::Reading { entries: count }).await?;
        self.entries(first, first + count - 1).await
    }

    /// Sends the entries from one number to another.
    async fn entries(&mut self, first: u64, last: u64) -> Result<(), Closed> {
        let mut next = first;
        while next <= last {
            let page = self.page(next, last).await?;
            for row in page {
                next = row.number + 1;
                self.send(&DeskReply::Entry(row)).await?;
            }
        }
        Ok(())
    }

    /// Some of the entries from one number to another; never none.
    async fn page(&self, first: u64, last: u64) -> Result<Vec<JournalRow>, StoreError> {
        let limit = usize::try_from(last + 1 - first).unwrap_or(PAGE).min(PAGE);
        let page = self.desk.store.journal(self.desk.parts.job, first, limit, PAGE_BYTES).await?;
        if page.is_empty() { Err(StoreError::Damaged { what: "journal" }) } else { Ok(page) }
    }

    async fn pass_on_what_was_said(&mut self) -> Result<(), Closed> {
        let row = self.desk.row().await?;
        self.desk.budget(&row);
        self.tell_said(entries(&row) + 1).await
    }

    /// Tells what was said before a number and after what the loop knows.
    async fn tell_said(&mut self, before: u64) -> Result<(), Closed> {
        while self.known + 1 < before {
            for row in self.page(self.known + 1, before - 1).await? {
                self.known = row.number;
                if let JournalEntry::Said { budget, .. } = &row.entry {
                    if let Some(budget) = budget {
                        self.desk.parts.account.change(limits_of(budget));
                    }
                    self.send(&DeskReply::Said(row)).await?;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, reply: &DeskReply) -> Result<(), Closed> {
        match timeout(SEND_TIME, self.sender.send_message(reply)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Closed::Gone),
        }
    }
}

fn read_request(frame: Result<Option<Frame>, sandyard_pipe::FrameError>) -> Result<DeskRequest, Closed> {
    match frame {
        // Counted first: a parser takes up to thirty times the memory of what it reads.
        Ok(Some(Frame::Message(json))) if bounds::values(&json) <= limits::MODEL_CALL_VALUES => {
            serde_json::from_slice(&json).map_err(|_| Closed::Gone)
        }
        Ok(Some(_) | None) | Err(_) => Err(Closed::Gone),
    }
}

fn entries(row: &JobRow) -> u64 {
    row.task.as_ref().map_or(0, |task| task.entries)
}

/// A budget as the account understands it.
pub(crate) fn limits_of(budget: &TaskBudget) -> BudgetLimits {
    BudgetLimits { steps: budget.steps, tokens: budget.tokens, money: budget.usd.map(Money::from_usd) }
}

fn spent_of(spent: SpentRow) -> TaskSpent {
    TaskSpent {
        steps: spent.steps,
        tokens: spent.tokens_in.saturating_add(spent.tokens_out),
        usd: Money::from_units(spent.money).usd(),
    }
}
