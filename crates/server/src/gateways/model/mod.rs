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
mod settlement;

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameError, FrameLimits, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ModelUsage, limits};
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

use crate::audit::digest;
use answer_stream::repeat;
use budget::Reservation;
use settlement::CallSettlement;

/// Calls of one job at once, including those that are still being read. Parsing one may take some 50 MiB.
const MAX_CALLS_AT_ONCE: usize = 4;
/// Longest wait for a whole call, which the sandbox has ready when it opens the stream.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time to send one event, so that a sandbox that does not read keeps no provider busy.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before a refusal, so that a sandbox that repeats refused calls is slow.
const REFUSAL_DELAY: Duration = Duration::from_millis(50);
/// Longest wait until the words of an answer are in the job's events. A store that takes longer must not hold up the task.
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// Events buffered between the provider and the sandbox.
const BUFFERED_EVENTS: usize = 16;

/// Frame limits of a stream with the sandbox.
const FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: limits::MODEL_CALL_BYTES,
    sent_message_bytes: limits::MODEL_EVENT_BYTES,
    data_bytes: 0,
};

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

    /// Serves one stream that a sandbox opened for a call. If the sandbox closes the stream or sends more, the call is
    /// cancelled.
    pub(crate) async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let (mut receiver, mut sender) = Framed::new(stream, FRAME_LIMITS).split();
        // Taken before the call is read: parsing a call needs many times its bytes, so the slots bound the memory.
        let Ok(_slot) = self.slots.acquire().await else { return };
        let call = match timeout(CALL_TIMEOUT, receive(&mut receiver)).await {
            Ok(Some(Ok(call))) => call,
            Ok(Some(Err(failure))) => {
                // A sandbox that is gone needs no answer.
                let _ = end(&mut sender, &ModelEvent::Failed(failure)).await;
                return;
            }
            Ok(None) | Err(_) => return,
        };
        let answering = async {
            let last = self.answer(call, &mut sender).await?;
            end(&mut sender, &last).await
        };
        tokio::select! {
            _ = answering => {}
            // The sandbox closed the stream or sent more. The call to the provider is dropped, and `CallSettlement` charges for
            // the part that was sent and received. An answer that is stored already stays in the journal, and a repeated call
            // gets it from there.
            _ = receiver.receive() => {}
        }
    }

    /// Makes the call and passes the answer on. Returns the last event.
    async fn answer<S>(
        &self,
        mut call: ModelCall,
        sender: &mut FrameSender<S>,
    ) -> Result<ModelEvent, SandboxGone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // Held for the whole call. Numbers share a few locks: two different numbers may wait for each other, which costs only
        // time.
        let _lock = self.number_locks[(call.number % MAX_CALLS_AT_ONCE as u64) as usize].lock().await;
        // Under the lock: of two equal calls, the second finds the answer of the first and pays nothing.
        if let Some((number, answer)) = self.ledger.kept(call.number).await.map_err(|_| SandboxGone)? {
            return repeat(number, answer, sender).await;
        }
        let (model, reservation) = match self.admit(&call) {
            Ok(admitted) => admitted,
            Err(failure) => {
                self.report_refused(&call, &failure).await;
                return Ok(ModelEvent::Failed(failure));
            }
        };
        call.max_tokens = reservation.max_tokens();
        let mut settlement = CallSettlement {
            gateway: self,
            model: &model,
            reservation: Some(reservation),
            number: call.number,
        };
        // It is for the host: no provider gets it, and the audit has the hash of what providers get.
        let packing = std::mem::take(&mut call.packing);
        // The audit must have the call before the provider has it.
        self.record_outgoing(&model, &call).await?;
        // Marked as sent before the request: if this future is dropped in the middle, the call is charged.
        settlement.with(Reservation::sent);
        let mut received = Vec::new();
        let (out, events) = mpsc::channel(BUFFERED_EVENTS);
        let asking = async {
            // If the channel is full, the next pause has the news.
            let paused = |pause| drop(self.reports.try_send(ModelReport::Pause(pause)));
            let asked = model.ask(&call, &out, &paused).await;
            // Closes the channel, which ends `pass_on`.
            drop(out);
            Ok(asked)
        };
        let (asked, ()) =
            tokio::try_join!(asking, self.pass_on(events, sender, &mut settlement, &mut received))?;
        match asked {
            Ok(end) => {
                call.packing = packing;
                self.keep(&call, end, settlement, received, sender).await
            }
            Err(asked) => {
                let failure = asked.failure.clone();
                settlement.failed(asked).await;
                Ok(ModelEvent::Failed(failure))
            }
        }
    }

    /// Records a call that is about to leave the host. A call that can't be recorded is not made.
    async fn record_outgoing(&self, model: &Model, call: &ModelCall) -> Result<(), SandboxGone> {
        let Some(with_key) = model.uses_key() else { return Ok(()) };
        let text = serde_json::to_vec(call).unwrap_or_default();
        let outgoing = OutgoingCall {
            number: call.number,
            model: model.name().to_owned(),
            with_key,
            bytes: text.len(),
            sha256: digest(&text),
        };
        self.ledger.record_outgoing(outgoing).await.map_err(|_| SandboxGone)
    }

    /// Checks that the job may make this call, and reserves its cost.
    fn admit(&self, call: &ModelCall) -> Result<(Arc<Model>, Reservation), ModelFailure> {
        let not_allowed = |message: String| ModelFailure { code: ModelFailureCode::NotAllowed, message };
        let model = match call.model.as_deref() {
            None => self.models.first().ok_or_else(|| not_allowed("the job has no model".to_owned()))?,
            Some(name) => self
                .models
                .iter()
                .find(|model| model.name() == name)
                .ok_or_else(|| not_allowed("the job may not use this model".to_owned()))?,
        };
        if call.messages.is_empty() || call.max_tokens == 0 {
            let message = "a call has at least one message and asks for at least one token".to_owned();
            return Err(ModelFailure { code: ModelFailureCode::Rejected, message });
        }
        Ok((Arc::clone(model), self.budget.reserve(call, model.price())?))
    }

    /// Reports a refused call, so that those who watch the job learn that its budget is used up.
    async fn report_refused(&self, call: &ModelCall, failure: &ModelFailure) {
        let own = self.models.first().map(|model| model.name());
        let named = call.model.as_deref().or(own).unwrap_or_default();
        let model = named.chars().take(limits::NAME_BYTES).collect();
        let end = ModelCallEnd::Failed { failure: failure.clone(), address: None };
        let report = CallReport { number: call.number, model, end, spent: self.budget.spent() };
        // The receiver is gone once the job is over.
        let _ = self.reports.send(ModelReport::Call(report)).await;
        tokio::time::sleep(REFUSAL_DELAY).await;
    }

    async fn record(&self, call: &ModelCall, answer: Vec<ModelEvent>) {
        let Some(recorder) = &self.recorder else { return };
        if let Err(error) = recorder.write(call, answer).await {
            tracing::warn!(%error, "a turn could not be recorded");
        }
    }
}

/// Reads a call. Returns none if the sandbox is gone or breaks the protocol, and a failure if the call is not acceptable.
async fn receive<S>(receiver: &mut FrameReceiver<S>) -> Option<Result<ModelCall, ModelFailure>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let failure = |code, message: String| Some(Err(ModelFailure { code, message }));
    match receiver.receive().await {
        Ok(Some(Frame::Message(json))) => match bounds::read_call(&json) {
            Ok(call) => Some(Ok(call)),
            Err(error) => failure(ModelFailureCode::Rejected, error.to_string()),
        },
        Err(FrameError::TooLong(bytes)) if bytes > limits::MODEL_CALL_BYTES => {
            let message = format!("a call of {bytes} bytes is longer than the host takes");
            failure(ModelFailureCode::ContextTooLong, message)
        }
        Ok(Some(Frame::Data(_)) | None) | Err(_) => None,
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
