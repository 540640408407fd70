//! The model gateway: a sandbox asks, the host adds the key, meters, and answers as the provider streams.
//!
//! A call comes out of the sandbox bounded (`bounds`), is held against the job's models and its budget (`budget`, `table`),
//! and asked of a model (`providers`): over HTTP (`client`, `http`, `wire` with `openai` and `anthropic`, `sse`) or out of a
//! recording (`replay`). What comes back is stripped of the key (`secret`, `outlet`), told as it comes (`words`), kept in the
//! job's journal before the sandbox hears that it is complete (`ledger`), and may be recorded (`record`).

mod account;
mod answering;
mod anthropic;
pub(super) mod bounds;
mod budget;
mod client;
mod failures;
mod http;
mod ledger;
mod openai;
mod outlet;
mod providers;
mod record;
mod recording;
mod replay;
mod secret;
mod specs;
mod sse;
mod table;
mod wire;
mod words;

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameError, FrameLimits, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ModelUsage, limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

pub(crate) use budget::{Budget, BudgetLimits, Spent};
pub(crate) use ledger::{Asking, KeptAnswer, Ledger, LedgerError};
pub(crate) use providers::{Model, Models, NoModel};
pub(crate) use record::Recorder;
pub(crate) use table::Money;
pub(crate) use words::Words;

pub use http::Patience;
pub use providers::{ModelConfig, ModelsError};
pub use recording::recording_of;
pub use secret::{ApiKey, BadKey};
pub use specs::{BadModelSpec, ModelSpec, PROVIDERS, Provider};

use crate::audit::digest;
use account::Account;
use answering::repeat;
use budget::Reservation;

/// Calls of one job at once, those that are still being read included: each may take some 50 MiB while it is parsed.
const CALLS_AT_ONCE: usize = 4;
/// For a whole call, which a sandbox has ready when it opens the stream.
const CALL_TIME: Duration = Duration::from_secs(60);
/// For one event, so that a sandbox that does not read keeps no provider busy.
const EVENT_TIME: Duration = Duration::from_secs(30);
/// Before a refusal is answered, so that a flood of them stays a trickle.
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);
/// Events between the provider and the pipe.
const WAITING: usize = 16;

const FRAMES: FrameLimits = FrameLimits {
    message_bytes: limits::MODEL_CALL_BYTES,
    sent_message_bytes: limits::MODEL_EVENT_BYTES,
    data_bytes: 0,
};

/// What the job's record is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    /// What a model says, while it says it.
    Words(Words),
    /// A call is over.
    Called(Called),
}

/// What became of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    /// The journal number that the answer has, or was expected to have.
    pub(crate) number: u64,
    /// Which model, as the operator named it.
    pub(crate) model: String,
    pub(crate) outcome: Outcome,
    /// What the job has spent so far, this call included.
    pub(crate) spent: Spent,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// With an answer. It cost nothing that we know of if the model has no price.
    Answered { usage: ModelUsage, cost: Option<Money> },
    /// Without one.
    Failed(ModelFailure),
    /// The sandbox went away before the answer was complete.
    CalledOff,
}

/// One job's way to models. Dropping what [`Gateway::serve`] returns calls its question off.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Those that the job may use, its own first.
    models: Vec<Arc<Model>>,
    budget: Arc<Budget>,
    ledger: Arc<dyn Ledger>,
    recorder: Option<Arc<Recorder>>,
    told: mpsc::Sender<Told>,
    places: Semaphore,
    /// One call for one number at a time, or an answer could be paid twice.
    turns: [Mutex<()>; CALLS_AT_ONCE],
}

/// What a gateway is made of.
#[derive(Debug)]
pub(crate) struct GatewayParts {
    /// Those that the job may use, its own first.
    pub(crate) models: Vec<Arc<Model>>,
    pub(crate) budget: Arc<Budget>,
    /// Where answers are kept.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Where they are recorded for a replay.
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// Hears what is asked and answered.
    pub(crate) told: mpsc::Sender<Told>,
}

/// The sandbox is gone, or does not read.
#[derive(Debug)]
struct Gone;

impl Gateway {
    /// The gateway of one job.
    pub(crate) fn new(parts: GatewayParts) -> Arc<Self> {
        let GatewayParts { models, budget, ledger, recorder, told } = parts;
        let places = Semaphore::new(CALLS_AT_ONCE);
        Arc::new(Self { models, budget, ledger, recorder, told, places, turns: Default::default() })
    }

    /// Serves one stream that a sandbox opened for a call. Its end, or anything more on it, calls the question off.
    pub(crate) async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let (mut receiver, mut sender) = Framed::new(stream, FRAMES).split();
        let Ok(_place) = self.places.acquire().await else { return };
        let call = match timeout(CALL_TIME, receive(&mut receiver)).await {
            Ok(Some(Ok(call))) => call,
            Ok(Some(Err(failure))) => {
                // Whoever is gone needs no answer; what else it sent is not read.
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
            _ = receiver.receive() => {}
        }
    }

    /// Asks, passes on what comes, and returns the last event.
    async fn answer<S>(&self, mut call: ModelCall, sender: &mut FrameSender<S>) -> Result<ModelEvent, Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let _turn = self.turns[(call.number % CALLS_AT_ONCE as u64) as usize].lock().await;
        if let Some((number, answer)) = self.ledger.kept(call.number).await.map_err(|_| Gone)? {
            return repeat(number, answer, sender).await;
        }
        let (model, reservation) = match self.admit(&call) {
            Ok(admitted) => admitted,
            Err(failure) => {
                self.tell_refused(&call, &failure).await;
                return Ok(ModelEvent::Failed(failure));
            }
        };
        call.max_tokens = reservation.max_tokens();
        let mut account =
            Account { gateway: self, model: &model, reservation: Some(reservation), number: call.number };
        self.note(&model, &call).await?;
        account.with(Reservation::sent);
        let mut said = Vec::new();
        let (out, heard) = mpsc::channel(WAITING);
        let asking = async {
            let asked = model.ask(&call, &out).await;
            drop(out);
            Ok(asked)
        };
        let (asked, ()) = tokio::try_join!(asking, self.pass_on(heard, sender, &mut account, &mut said))?;
        match asked {
            Ok(ended) => self.keep(&call, ended, account, said, sender).await,
            Err(failure) => {
                account.failed(&failure).await;
                Ok(ModelEvent::Failed(failure))
            }
        }
    }

    /// Records a call that leaves the host. One that can't be recorded is not made, and may be made again.
    async fn note(&self, model: &Model, call: &ModelCall) -> Result<(), Gone> {
        let Some(with_key) = model.uses_key() else { return Ok(()) };
        let text = serde_json::to_vec(call).unwrap_or_default();
        let asking = Asking {
            number: call.number,
            model: model.name().to_owned(),
            with_key,
            bytes: text.len(),
            sha256: digest(&text),
        };
        self.ledger.asking(asking).await.map_err(|_| Gone)
    }

    /// Whether the job may ask this.
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

    /// Whoever waits for the job learns that its budget is used up, or what it tried.
    async fn tell_refused(&self, call: &ModelCall, failure: &ModelFailure) {
        let own = self.models.first().map(|model| model.name());
        let named = call.model.as_deref().or(own).unwrap_or_default();
        let model = named.chars().take(limits::NAME_BYTES).collect();
        let outcome = Outcome::Failed(failure.clone());
        let told = Called { number: call.number, model, outcome, spent: self.budget.spent() };
        // Nobody listens once the job is over.
        let _ = self.told.send(Told::Called(told)).await;
        // Whoever asks again and again what it may not has to wait.
        tokio::time::sleep(REFUSAL_PAUSE).await;
    }

    async fn record(&self, call: &ModelCall, said: Vec<ModelEvent>) {
        let Some(recorder) = &self.recorder else { return };
        if let Err(error) = recorder.write(call, said).await {
            tracing::warn!(%error, "a turn could not be recorded");
        }
    }
}

/// The call, or what is wrong with it; nothing from a sandbox that has gone or breaks the protocol.
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

async fn end<S>(sender: &mut FrameSender<S>, last: &ModelEvent) -> Result<(), Gone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    send(sender, last).await?;
    sender.finish().await.map_err(|_| Gone)
}

async fn send<S>(sender: &mut FrameSender<S>, event: &ModelEvent) -> Result<(), Gone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match timeout(EVENT_TIME, sender.send_message(event)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
    }
}

#[cfg(test)]
#[path = "model_tests/mod.rs"]
mod tests;
