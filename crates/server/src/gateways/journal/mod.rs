//! The journal service of a task: keeps the agent's journal on the host.
//!
//! The agent opens a stream, reads its task and the whole journal, and appends entries one after the other. Each entry is
//! durable before the reply. Messages of people are pushed to the agent. The agent is hostile like everything in a sandbox:
//! frames bound its messages, count and bytes bound its journal, and a refusal is delayed.

mod charge_ledger;
mod ledger;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameLimits, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::{
    DeskRefusal, DeskReply, DeskRequest, ErrorChain, JournalEntry, JournalQuestion, JournalRow, KeptText,
    ModelFacts, TaskBudget, TaskFacts, TaskSpent, limits,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::model::{BudgetLimits, ModelBudget, Money};
use crate::audit::cut;
use crate::job::JobId;
use crate::job::JobState;
use crate::job::{JobFence, JobRow, SpentRow};
use crate::json_scan::values;
use crate::recall::RecallService;
use crate::store::{Appended, JobWatch, Store, StoreError};

pub(crate) use charge_ledger::ChargeLedger;
pub(crate) use ledger::{JournalLedger, row_of};

/// Connections of one job at once: the agent's, and that of the agent before it whose end was not noticed yet.
const MAX_CONNECTIONS: usize = 2;
/// Longest wait for the first message of a stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to send one message, so that an agent that does not read holds no memory.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before a refusal, so that an agent that repeats refused requests is slow.
const REFUSAL_DELAY: Duration = Duration::from_millis(50);
/// Entries read from the store at once.
const PAGE_ENTRIES: usize = 256;
/// Bytes read from the store at once.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Longest name of a tool call in the cause of a workspace diff.
const MAX_CALL_BYTES: usize = 100;

/// Frame limits of a stream with the agent.
const FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: limits::JOURNAL_ENTRY_BYTES + limits::MESSAGE_BYTES,
    sent_message_bytes: limits::DESK_MESSAGE_BYTES,
    data_bytes: limits::DATA_BYTES,
};

/// Called with the job and the name of each tool call that ended.
pub(crate) type StepObserver = Arc<dyn Fn(&JobId, String) + Send + Sync>;

/// The parts of a [`JournalService`].
#[derive(Clone)]
pub(crate) struct JournalServiceParts {
    pub(crate) fence: JobFence,
    /// The job's number in the store.
    pub(crate) job: i64,
    pub(crate) task: String,
    pub(crate) model: ModelFacts,
    /// The budget at scheduling.
    pub(crate) budget: TaskBudget,
    /// The budget of model calls, whose limits follow the journal.
    pub(crate) model_budget: Arc<ModelBudget>,
    /// Called when a tool call ended, because the workspace may have changed.
    pub(crate) step_ended: StepObserver,
}

/// The journal service of one job.
pub(crate) struct JournalService {
    store: Arc<dyn Store>,
    recall: Arc<RecallService>,
    parts: JournalServiceParts,
    connections: Semaphore,
}

/// Why a connection ended. The agent may connect again.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    /// The agent is gone or broke the protocol.
    #[error("the agent is gone")]
    Gone,
    #[error("the store")]
    Store(#[from] StoreError),
}

/// A stream with an agent at its other end.
struct JournalConnection<'a, S> {
    service: &'a JournalService,
    receiver: FrameReceiver<S>,
    sender: FrameSender<S>,
    watch: JobWatch,
    /// Number of the last entry that the agent knows.
    known: u64,
}

impl JournalService {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        recall: Arc<RecallService>,
        parts: JournalServiceParts,
    ) -> Arc<Self> {
        Arc::new(Self { store, recall, parts, connections: Semaphore::new(MAX_CONNECTIONS) })
    }

    /// Serves one stream that an agent opened.
    pub(crate) async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        // Refused at once, not queued: an agent could fill the host's memory with streams that wait.
        let Ok(_permit) = self.connections.try_acquire() else { return };
        let (receiver, sender) = Framed::new(stream, FRAME_LIMITS).split();
        let watch = self.store.watch(self.id());
        let mut connection = JournalConnection { service: self, receiver, sender, watch, known: 0 };
        if let Err(closed @ ConnectionEnd::Store(_)) = connection.serve().await {
            tracing::warn!(job = %self.id(), error = %ErrorChain(&closed), "a journal connection ended");
        }
    }

    fn id(&self) -> &JobId {
        &self.parts.fence.job
    }

    async fn row(&self) -> Result<JobRow, StoreError> {
        let row = self.store.any_job(self.id()).await?;
        // Reads have no fence in the store. Without this check, an agent could read through a service whose owner lost the job.
        row.filter(|row| row.epoch == self.parts.fence.epoch)
            .ok_or_else(|| StoreError::Stale(self.id().clone()))
    }

    /// Returns the present budget, and applies it to model calls.
    fn budget(&self, row: &JobRow) -> TaskBudget {
        let budget = row.task.as_ref().and_then(|task| task.budget).unwrap_or(self.parts.budget);
        self.parts.model_budget.change(limits_of(&budget));
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
            keeps_texts: true,
        }
    }

    async fn append(&self, number: u64, entry: JournalEntry) -> Result<DeskReply, StoreError> {
        let refused = |code, message: &str| DeskReply::Refused { code, message: message.to_owned() };
        // The agent must not forge the host's entries: they carry people's words, budgets and paid answers.
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
            JournalEntry::StepEnded { call, .. } => Some(format!("step {}", cut(call, MAX_CALL_BYTES))),
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

impl<S: AsyncRead + AsyncWrite + Unpin> JournalConnection<'_, S> {
    async fn serve(&mut self) -> Result<(), ConnectionEnd> {
        match timeout(OPEN_TIMEOUT, self.request()).await.map_err(|_| ConnectionEnd::Gone)?? {
            DeskRequest::Open { loop_version } => {
                let version: String = loop_version.chars().take(100).collect();
                tracing::info!(job = %self.service.id(), version, "an agent opened its journal");
            }
            DeskRequest::Append { .. } | DeskRequest::Read { .. } => return Err(ConnectionEnd::Gone),
        }
        self.open().await?;
        loop {
            // Requests of the agent and commits of the job. Both are cancel-safe: a frame stays in its buffer, a commit in the
            // watch. An agent that floods requests can't keep messages back for ever, because tokio picks a ready branch at
            // random.
            let request = tokio::select! {
                request = self.receiver.receive() => read_request(request)?,
                // Every commit of the job wakes this, so a message of a person is pushed without polling.
                () = self.watch.changed() => {
                    self.push_messages().await?;
                    continue;
                }
            };
            match request {
                DeskRequest::Open { .. } => self.open().await?,
                DeskRequest::Append { number, entry, kept } => self.append(number, entry, kept).await?,
                DeskRequest::Read { question: Some(question), .. } => self.answer(*question).await?,
                DeskRequest::Read { first, count, question: None } => self.read(first, count).await?,
            }
        }
    }

    async fn request(&mut self) -> Result<DeskRequest, ConnectionEnd> {
        read_request(self.receiver.receive().await)
    }

    /// Waits until the job runs, because entries move its state, and then sends task and journal.
    async fn open(&mut self) -> Result<(), ConnectionEnd> {
        // The row is read before the watch is awaited, so a move to `running` in between wakes it.
        let row = loop {
            let row = self.service.row().await?;
            if row.state != JobState::Starting {
                break row;
            }
            self.watch.changed().await;
        };
        let facts = self.service.facts(&row);
        let last = facts.entries;
        self.send(&DeskReply::Opened(Box::new(facts))).await?;
        self.entries(1, last).await?;
        self.known = last;
        Ok(())
    }

    async fn append(
        &mut self,
        number: u64,
        entry: JournalEntry,
        kept: Vec<KeptText>,
    ) -> Result<(), ConnectionEnd> {
        // Before the entry: whoever sees the entry finds its texts.
        let texts = timeout(SEND_TIMEOUT, self.service.receive_texts(&mut self.receiver, kept));
        let texts = texts.await.map_err(|_| ConnectionEnd::Gone)??;
        self.service.keep_texts(number, texts).await?;
        let reply = self.service.append(number, entry).await?;
        match &reply {
            DeskReply::Appended { number } => {
                // People's words before the reply: the entry got a number behind them, and the agent must know them to
                // understand it.
                self.push_messages_before(*number).await?;
                self.known = self.known.max(*number);
            }
            _ => tokio::time::sleep(REFUSAL_DELAY).await,
        }
        self.send(&reply).await
    }

    async fn answer(&mut self, question: JournalQuestion) -> Result<(), ConnectionEnd> {
        let recalled = self.service.answer(question).await?;
        self.send(&DeskReply::Reading { entries: 0, recalled: Some(Box::new(recalled)) }).await
    }

    async fn read(&mut self, first: u64, count: u64) -> Result<(), ConnectionEnd> {
        let first = first.max(1);
        let there = (entries(&self.service.row().await?) + 1).saturating_sub(first);
        // The agent chose `first` and `count`. Both are bounded by the journal before anything is read.
        let count = count.min(limits::JOURNAL_READ_ENTRIES).min(there);
        self.send(&DeskReply::Reading { entries: count, recalled: None }).await?;
        self.entries(first, first + count - 1).await
    }

    /// Sends the entries from `first` to `last`.
    async fn entries(&mut self, first: u64, last: u64) -> Result<(), ConnectionEnd> {
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

    /// Reads the first entries from `first` to `last`; at least one.
    async fn page(&self, first: u64, last: u64) -> Result<Vec<JournalRow>, StoreError> {
        let limit = usize::try_from(last + 1 - first).unwrap_or(PAGE_ENTRIES).min(PAGE_ENTRIES);
        let page = self.service.store.journal(self.service.parts.job, first, limit, PAGE_BYTES).await?;
        if page.is_empty() { Err(StoreError::Damaged { what: "journal" }) } else { Ok(page) }
    }

    async fn push_messages(&mut self) -> Result<(), ConnectionEnd> {
        let row = self.service.row().await?;
        // A person may have raised the budget. The model gateway must know it before the agent asks for its next answer.
        self.service.budget(&row);
        self.push_messages_before(entries(&row) + 1).await
    }

    /// Sends the messages of people before a number that the agent does not know yet.
    async fn push_messages_before(&mut self, before: u64) -> Result<(), ConnectionEnd> {
        while self.known + 1 < before {
            for row in self.page(self.known + 1, before - 1).await? {
                self.known = row.number;
                if let JournalEntry::Said { budget, .. } = &row.entry {
                    if let Some(budget) = budget {
                        self.service.parts.model_budget.change(limits_of(budget));
                    }
                    self.send(&DeskReply::Said(row)).await?;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, reply: &DeskReply) -> Result<(), ConnectionEnd> {
        match timeout(SEND_TIMEOUT, self.sender.send_message(reply)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ConnectionEnd::Gone),
        }
    }
}

fn read_request(
    frame: Result<Option<Frame>, sandyard_pipe::FrameError>,
) -> Result<DeskRequest, ConnectionEnd> {
    match frame {
        // Counted first, because a parser takes up to thirty times the memory of its input.
        Ok(Some(Frame::Message(json))) if values(&json) <= limits::MODEL_CALL_VALUES => {
            serde_json::from_slice(&json).map_err(|_| ConnectionEnd::Gone)
        }
        Ok(Some(_) | None) | Err(_) => Err(ConnectionEnd::Gone),
    }
}

fn entries(row: &JobRow) -> u64 {
    row.task.as_ref().map_or(0, |task| task.entries)
}

/// Converts a task's budget to limits of model calls.
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
