//! The model gateway of a job: takes a call from the sandbox, adds the operator's key, meters it and streams the answer back.
//!
//! A call is bounded before it is parsed (`bounds`), checked against the job's models and budget (`budget`), and sent to a
//! model (`provider`). `answer_stream` passes the answer to the sandbox and, gathered into runs (`answer_text`), to the job's
//! events. The answer is stored in the job's journal (`ledger`) before the sandbox learns that it is complete. `settlement`
//! charges every call exactly once, also when the sandbox goes away.

mod answer_stream;
mod answer_text;
mod bounds;
mod budget;
mod ledger;
mod provider;
mod serving;
mod settlement;

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::FrameSender;
use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelUsage};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

pub(crate) use answer_text::AnswerText;
pub(crate) use budget::{BudgetLimits, ModelBudget, Spent};
pub(crate) use ledger::{KeptAnswer, Ledger, LedgerError, OutgoingCall};
pub(crate) use provider::{AnswerRecorder, Model, ModelPause, Models, Money, NoModel};

pub use provider::{
    ApiKey, BadKey, BadModelSpec, ModelConfig, ModelSpec, ModelsError, PROVIDERS, Provider, ProviderTimeouts,
    recording_of,
};

/// Calls of one job at once, including those that are still being read. Parsing one may take some 50 MiB.
const MAX_CALLS_AT_ONCE: usize = 4;
/// Longest time to send one event, so that a sandbox that does not read keeps no provider busy.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait until the words of an answer are in the job's events. A store that takes longer must not hold up the task.
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// A report for the job's events and its record.
#[derive(Debug)]
pub(crate) enum ModelReport {
    /// A run of an answer's text, while the answer arrives.
    Text(AnswerText),
    /// A call failed and will be repeated after a pause.
    Pause(ModelPause),
    /// A call ended, with or without an answer.
    Call(CallReport),
    /// Nothing happened. The sender is dropped once everything before it is committed.
    Settled(oneshot::Sender<()>),
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallReport {
    /// The journal number that the answer has, or was expected to have.
    pub(crate) number: u64,
    /// The model's name as the operator wrote it.
    pub(crate) model: String,
    pub(crate) end: ModelCallEnd,
    /// Total spending of the job, including this call.
    pub(crate) spent: Spent,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ModelCallEnd {
    /// With an answer. `cost` is none if the model has no price.
    Answered { usage: ModelUsage, cost: Option<Money> },
    /// The provider or the host refused the call, or the call failed.
    Failed {
        failure: ModelFailure,
        /// The address that was asked, if it is the likely cause.
        address: Option<String>,
    },
    /// The sandbox went away before the answer was complete.
    CalledOff,
}

/// The model gateway of one job. Dropping the future of [`ModelGateway::serve`] cancels its call.
#[derive(Debug)]
pub(crate) struct ModelGateway {
    /// Models that the job may use; the first is its default.
    models: Vec<Arc<Model>>,
    budget: Arc<ModelBudget>,
    ledger: Arc<dyn Ledger>,
    recorder: Option<Arc<AnswerRecorder>>,
    reports: mpsc::Sender<ModelReport>,
    slots: Semaphore,
    /// Locks by journal number: two calls for one number at once would pay for its answer twice.
    number_locks: [Mutex<()>; MAX_CALLS_AT_ONCE],
}

/// The parts of a [`ModelGateway`].
#[derive(Debug)]
pub(crate) struct ModelGatewayParts {
    /// Models that the job may use; the first is its default.
    pub(crate) models: Vec<Arc<Model>>,
    pub(crate) budget: Arc<ModelBudget>,
    /// Stores answers before the sandbox sees them as complete.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Records the answers for a replay.
    pub(crate) recorder: Option<Arc<AnswerRecorder>>,
    /// Gets reports about calls and answers.
    pub(crate) reports: mpsc::Sender<ModelReport>,
}

/// The sandbox is gone or does not read, or the journal is not available. The sandbox may repeat the call.
#[derive(Debug)]
struct SandboxGone;

impl ModelGateway {
    pub(crate) fn new(parts: ModelGatewayParts) -> Arc<Self> {
        let ModelGatewayParts { models, budget, ledger, recorder, reports } = parts;
        let slots = Semaphore::new(MAX_CALLS_AT_ONCE);
        Arc::new(Self { models, budget, ledger, recorder, reports, slots, number_locks: Default::default() })
    }

    async fn record(&self, call: &ModelCall, answer: Vec<ModelEvent>) {
        let Some(recorder) = &self.recorder else { return };
        if let Err(error) = recorder.write(call, answer).await {
            tracing::warn!(%error, "a turn could not be recorded");
        }
    }
}

async fn end<S>(sender: &mut FrameSender<S>, last: &ModelEvent) -> Result<(), SandboxGone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    send(sender, last).await?;
    sender.finish().await.map_err(|_| SandboxGone)
}

async fn send<S>(sender: &mut FrameSender<S>, event: &ModelEvent) -> Result<(), SandboxGone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match timeout(EVENT_TIMEOUT, sender.send_message(event)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(SandboxGone),
    }
}

#[cfg(test)]
#[path = "model_tests/mod.rs"]
mod tests;
