//! The journal service and the model gateway of a task, and the record of its model calls. They live as long as the owner
//! follows the job.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::TaskBudget;
use tokio::sync::mpsc;

use super::question_timeout::QuestionTimeout;
use crate::audit::{AuditActor, AuditEntry, AuditFacts, ModelCallFacts};
use crate::clock::Clock;
use crate::gateways::TaskGateways;
use crate::gateways::journal::{
    ChargeLedger, JournalLedger, JournalService, JournalServiceParts, StepObserver, limits_of, row_of,
};
use crate::gateways::model::{
    AnswerRecorder, AnswerText, CallReport, ModelBudget, ModelCallEnd, ModelGateway, ModelGatewayParts,
    ModelPause, ModelReport, Money, Spent,
};
use crate::job::NewJob;
use crate::job::{Change, JobRow, ModelAnswerEvent, ModelWaitRow, SpentRow, StoredEvent, StoredModelEvent};
use crate::yard::YardContext;

/// Texts and calls that wait for the next commit. A model that sends more has to wait.
const QUEUED_NOTICES: usize = 64;
/// Events about models that one owner records for a job. Costs are counted without a limit.
const MAX_EVENTS: usize = 100_000;
/// Pauses from this length on are shown: a single refused call is no news.
const SHOWN_PAUSE: Duration = Duration::from_secs(1);

/// The services that a task has in addition to those of every job.
pub(super) struct TaskServices {
    gateways: TaskGateways,
    told: mpsc::Receiver<ModelReport>,
    recorded: usize,
    patience: QuestionTimeout,
    clock: Clock,
    /// True while the row says that the task waits for its model.
    waits: bool,
    /// True while the row names the address of a model that gave no answer.
    lost: bool,
}

impl TaskServices {
    /// Opens the services of a task.
    pub(super) async fn new(context: &YardContext, job: &NewJob, row: &JobRow) -> Self {
        // A model that is no longer configured leaves a gateway without models, which answers every call with an error.
        let model = context.models.find(job.task.model.as_deref()).ok();
        let facts = match &model {
            Some(model) => model.facts(),
            None => unknown(job),
        };
        let task = row.task.clone().unwrap_or_default();
        let budget: TaskBudget = task.budget.unwrap_or(job.task.budget);
        // Begins with the cost that earlier owners stored, or a restart would refill the budget.
        let account = ModelBudget::new(limits_of(&budget), spent(task.spent));
        let (sender, told) = mpsc::channel(QUEUED_NOTICES);
        let fence = row.fence();
        let answers = JournalLedger {
            store: Arc::clone(&context.store),
            fence: fence.clone(),
            texts: context.recall.texts().clone(),
            job: row.number,
        };
        let recorder = recorder(context, &facts.name).await;
        let gateway = ModelGateway::new(ModelGatewayParts {
            models: model.into_iter().collect(),
            budget: Arc::clone(&account),
            ledger: Arc::new(answers),
            recorder,
            reports: sender,
        });
        let parts = JournalServiceParts {
            fence,
            job: row.number,
            task: job.code.clone(),
            model: facts,
            budget: job.task.budget,
            model_budget: account,
            step_ended: step_observer(context),
        };
        let journal = JournalService::new(Arc::clone(&context.store), Arc::clone(&context.recall), parts);
        Self {
            gateways: TaskGateways { journal, model: gateway },
            told,
            recorded: 0,
            patience: QuestionTimeout::of(job),
            clock: context.clock,
            // An owner that died may have left a wait, whose call died with it.
            waits: task.model_wait.is_some(),
            lost: task.model_address.is_some(),
        }
    }

    /// The time limit for answers to the task's questions.
    pub(super) fn patience(&self) -> &QuestionTimeout {
        &self.patience
    }

    /// The services for streams that the task opens.
    pub(super) fn gateways(&self) -> TaskGateways {
        self.gateways.clone()
    }

    /// Waits for the next notice to record. Cancelling loses none.
    pub(super) async fn next(&mut self) -> ModelReport {
        match self.told.recv().await {
            Some(told) => told,
            // `self.gateways` holds a sender, so the channel is never closed.
            None => std::future::pending().await,
        }
    }

    /// Returns the changes that are left to record at the job's end.
    pub(super) fn rest(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Ok(told) = self.told.try_recv() {
            changes.extend(self.record(told));
        }
        changes
    }

    /// Returns the changes that record a notice.
    pub(super) fn record(&mut self, told: ModelReport) -> Vec<Change> {
        let told = match told {
            ModelReport::Pause(pause) => return self.pause(pause),
            told => told,
        };
        let mut all = Vec::new();
        all.extend(std::mem::take(&mut self.waits).then_some(Change::ModelWait(None)));
        let (mut changes, event) = match told {
            // Whoever waits for a commit is told by the session.
            ModelReport::Pause(_) | ModelReport::Settled(_) => return all,
            ModelReport::Text(AnswerText { number, offset, text, .. }) => {
                (Vec::new(), StoredModelEvent::Text { entry: number, offset, text })
            }
            ModelReport::Call(called) => {
                let mut changes = vec![Change::Spent(row_of(called.spent))];
                // The cost is part of the same commit as the event, and is counted even beyond the bound on events.
                changes.extend(unanswered(&called).map(Change::Audit));
                changes.extend(self.address(&called.end).map(Change::ModelAddress));
                (changes, describe(called))
            }
        };
        self.recorded += 1;
        if self.recorded <= MAX_EVENTS {
            changes.push(Change::Event(StoredEvent::Model(event)));
        }
        all.extend(changes);
        all
    }

    /// Returns the address to note after a call, if it is another than the noted one.
    fn address(&mut self, end: &ModelCallEnd) -> Option<Option<String>> {
        match end {
            ModelCallEnd::Failed { address: Some(address), .. } => {
                self.lost = true;
                Some(Some(address.clone()))
            }
            ModelCallEnd::Answered { .. } => std::mem::take(&mut self.lost).then_some(None),
            ModelCallEnd::Failed { address: None, .. } | ModelCallEnd::CalledOff => None,
        }
    }

    /// Returns the change that shows a pause. Short ones come and go before anybody could read of them.
    fn pause(&mut self, pause: ModelPause) -> Vec<Change> {
        let ModelPause { failed, wait, reason } = pause;
        if wait < SHOWN_PAUSE {
            return Vec::new();
        }
        self.waits = true;
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.clock.unix_ms().saturating_add(wait_ms);
        vec![Change::ModelWait(Some(ModelWaitRow { failed, until_ms, why: reason }))]
    }
}

/// Opens a model gateway for calls of the host itself at the end of a task: the same model, the same budget, no journal. `None` if
/// the model is not configured any more, or is a recording, which has no other answers than those to the agent.
pub(super) fn open_side_gateway(
    context: &YardContext,
    job: &NewJob,
    row: &JobRow,
) -> Option<(Arc<ModelGateway>, mpsc::Receiver<ModelReport>)> {
    let model = context.models.find(job.task.model.as_deref()).ok().filter(|model| !model.facts().replay)?;
    let task = row.task.clone().unwrap_or_default();
    let budget: TaskBudget = task.budget.unwrap_or(job.task.budget);
    let ledger = JournalLedger {
        store: Arc::clone(&context.store),
        fence: row.fence(),
        texts: context.recall.texts().clone(),
        job: row.number,
    };
    let (reports, told) = mpsc::channel(QUEUED_NOTICES);
    let gateway = ModelGateway::new(ModelGatewayParts {
        models: vec![model],
        budget: ModelBudget::new(limits_of(&budget), spent(task.spent)),
        ledger: Arc::new(ChargeLedger(ledger)),
        recorder: None,
        reports,
    });
    Some((gateway, told))
}

/// The changes that charge and audit a call of the host. Its text is no event of the job.
pub(super) fn side_changes(told: ModelReport) -> Vec<Change> {
    match told {
        // Who waits for a commit is told when the report is dropped.
        ModelReport::Text(_) | ModelReport::Pause(_) | ModelReport::Settled(_) => Vec::new(),
        ModelReport::Call(called) => {
            let charge = Change::Spent(row_of(called.spent));
            std::iter::once(charge).chain(unanswered(&called).map(Change::Audit)).collect()
        }
    }
}

/// The audit record of a call without an answer. An answer's record is committed with the answer.
fn unanswered(called: &CallReport) -> Option<AuditEntry> {
    let (model, number) = (called.model.clone(), called.number);
    let facts = match &called.end {
        ModelCallEnd::Answered { .. } => return None,
        ModelCallEnd::Failed { failure, .. } => ModelCallFacts::failed(model, number, failure.code),
        ModelCallEnd::CalledOff => ModelCallFacts::called_off(model, number),
    };
    Some(AuditEntry::new(AuditActor::Host, AuditFacts::Model(facts)))
}

/// The event about the end of a call.
fn describe(called: CallReport) -> StoredModelEvent {
    let (entry, model) = (called.number, called.model);
    match called.end {
        ModelCallEnd::Answered { usage, cost } => StoredModelEvent::Answered(ModelAnswerEvent {
            entry,
            model,
            done: true,
            usd: cost.map(Money::usd),
            tokens_in: usage.input,
            tokens_cached: usage.cached,
            tokens_out: usage.output,
        }),
        ModelCallEnd::Failed { failure, address } => {
            let code = failure.code;
            let error = match address {
                Some(address) => format!("{} ({address})", failure.message),
                None => failure.message,
            };
            StoredModelEvent::Failed { entry, model, done: true, error, code }
        }
        ModelCallEnd::CalledOff => StoredModelEvent::CalledOff { entry, model, done: true, called_off: true },
    }
}

fn spent(row: SpentRow) -> Spent {
    Spent {
        steps: row.steps,
        input: row.tokens_in,
        output: row.tokens_out,
        money: Money::from_units(row.money),
    }
}

fn unknown(job: &NewJob) -> sandyard_protocol::ModelFacts {
    sandyard_protocol::ModelFacts {
        name: job.task.model.clone().unwrap_or_default(),
        replay: false,
        sees: false,
        window_tokens: 0,
        max_output_tokens: 0,
    }
}

/// Compares the workspace after each step, for the audit.
fn step_observer(context: &YardContext) -> StepObserver {
    let recorder = Arc::clone(&context.recorder);
    Arc::new(move |job, step| recorder.diff_workspace(job, step))
}

/// Opens the recording of model calls, if one is configured. A task runs without it if that fails.
async fn recorder(context: &YardContext, model: &str) -> Option<Arc<AnswerRecorder>> {
    let path = context.config.models.record.as_ref()?;
    match AnswerRecorder::open(path, model).await {
        Ok(recorder) => Some(Arc::new(recorder)),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the recording can't be written");
            None
        }
    }
}
