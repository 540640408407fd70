//! A model call from the sandbox's stream to its last event.

use std::sync::Arc;
use std::time::Duration;

use sandyard_pipe::{Frame, FrameError, FrameLimits, FrameReceiver, FrameSender, Framed};
use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelFailureCode, limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::answer_stream::repeat;
use super::budget::Reservation;
use super::settlement::CallSettlement;
use super::{
    CallReport, MAX_CALLS_AT_ONCE, Model, ModelCallEnd, ModelGateway, ModelReport, OutgoingCall, SandboxGone,
    bounds, end,
};
use crate::audit::digest;

/// Longest wait for a whole call, which the sandbox has ready when it opens the stream.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay before a refusal, so that a sandbox that repeats refused calls is slow.
const REFUSAL_DELAY: Duration = Duration::from_millis(50);
/// Events buffered between the provider and the sandbox.
const BUFFERED_EVENTS: usize = 16;

/// Frame limits of a stream with the sandbox.
const FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: limits::MODEL_CALL_BYTES,
    sent_message_bytes: limits::MODEL_EVENT_BYTES,
    data_bytes: 0,
};

impl ModelGateway {
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
