//! Where an answer leaves the gateway: stripped of the key, bounded, and counted, so that it is known whether anything left.

use sandyard_protocol::{ModelEvent, ModelFailureCode, ToolCall, limits};
use tokio::sync::mpsc;

use super::failures::Trouble;
use super::secret::{ApiKey, Scrubber};

/// The way out for one attempt.
#[derive(Debug)]
pub(super) struct Outlet<'a> {
    out: &'a mpsc::Sender<ModelEvent>,
    key: Option<&'a ApiKey>,
    scrubber: Scrubber<'a>,
    bytes: usize,
    used: bool,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(out: &'a mpsc::Sender<ModelEvent>, key: Option<&'a ApiKey>) -> Self {
        Self { out, key, scrubber: Scrubber::new(key), bytes: 0, used: false }
    }

    /// Whether anything has left, so that the attempt can't be repeated.
    pub(super) fn was_used(&self) -> bool {
        self.used
    }

    /// Passes words or a call on.
    pub(super) async fn pass(&mut self, event: ModelEvent) -> Result<(), Trouble> {
        match event {
            ModelEvent::Text { text } => {
                let text = self.scrubber.push(&text);
                self.send_text(text).await
            }
            ModelEvent::Call(call) => {
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
            // The end is told by whoever settles the account.
            ModelEvent::Kept { .. } | ModelEvent::Done { .. } | ModelEvent::Failed(_) => Ok(()),
        }
    }

    /// Passes on what was held back.
    pub(super) async fn flush(&mut self) -> Result<(), Trouble> {
        let rest = self.scrubber.finish();
        self.send_text(rest).await
    }

    async fn send_text(&mut self, text: String) -> Result<(), Trouble> {
        if text.is_empty() {
            return Ok(());
        }
        let bytes = text.len();
        self.send(ModelEvent::Text { text }, bytes).await
    }

    async fn send(&mut self, event: ModelEvent, bytes: usize) -> Result<(), Trouble> {
        self.bytes += bytes;
        if self.bytes > limits::MODEL_ANSWER_BYTES {
            return Err(Trouble::failed(ModelFailureCode::Rejected, "the provider's answer is too long"));
        }
        self.used = true;
        let gone = |_| Trouble::failed(ModelFailureCode::Unavailable, "nobody listens to the answer");
        self.out.send(event).await.map_err(gone)
    }
}
