//! Passes an answer on to the gateway: without the key, bounded, and aware whether anything was sent.

use sandyard_protocol::{ModelEvent, ModelFailureCode, ToolCall, limits};
use tokio::sync::mpsc;

use super::failures::AttemptError;
use super::secret::{ApiKey, Scrubber};

/// The sender of one attempt.
#[derive(Debug)]
pub(super) struct ModelAnswerSender<'a> {
    out: &'a mpsc::Sender<ModelEvent>,
    key: Option<&'a ApiKey>,
    scrubber: Scrubber<'a>,
    bytes: usize,
    used: bool,
}

impl<'a> ModelAnswerSender<'a> {
    pub(super) fn new(out: &'a mpsc::Sender<ModelEvent>, key: Option<&'a ApiKey>) -> Self {
        Self { out, key, scrubber: Scrubber::new(key), bytes: 0, used: false }
    }

    /// True if a part of the answer was sent, so that the attempt can't be repeated.
    pub(super) fn was_used(&self) -> bool {
        self.used
    }

    /// Sends text or a tool call.
    pub(super) async fn pass(&mut self, event: ModelEvent) -> Result<(), AttemptError> {
        match event {
            ModelEvent::Text { text } => {
                let text = self.scrubber.push(&text);
                self.send_text(text).await
            }
            ModelEvent::Call(call) => {
                // Held text first, or the call would overtake the words before it.
                self.flush().await?;
                let clean = |text: &String| self.key.map_or_else(|| text.clone(), |key| key.strip(text));
                let call = ToolCall {
                    id: clean(&call.id),
                    name: clean(&call.name),
                    arguments: clean(&call.arguments),
                };
                let bytes = call.id.len() + call.name.len() + call.arguments.len();
                self.send(ModelEvent::Call(call), bytes).await
            }
            // The gateway reports the end itself, once the answer is stored and paid for.
            ModelEvent::Kept { .. } | ModelEvent::Done { .. } | ModelEvent::Failed(_) => Ok(()),
        }
    }

    /// Sends the text that the scrubber held back.
    pub(super) async fn flush(&mut self) -> Result<(), AttemptError> {
        let rest = self.scrubber.finish();
        self.send_text(rest).await
    }

    async fn send_text(&mut self, text: String) -> Result<(), AttemptError> {
        if text.is_empty() {
            return Ok(());
        }
        let bytes = text.len();
        self.send(ModelEvent::Text { text }, bytes).await
    }

    async fn send(&mut self, event: ModelEvent, bytes: usize) -> Result<(), AttemptError> {
        self.bytes += bytes;
        if self.bytes > limits::MODEL_ANSWER_BYTES {
            return Err(AttemptError::failed(
                ModelFailureCode::Rejected,
                "the provider's answer is too long",
            ));
        }
        // Before the send: a send that is cancelled may have happened.
        self.used = true;
        let gone = |_| AttemptError::failed(ModelFailureCode::Unavailable, "nobody listens to the answer");
        self.out.send(event).await.map_err(gone)
    }
}
