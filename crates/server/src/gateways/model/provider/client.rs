//! One provider over HTTP: sends a call, reads the answer, and repeats the call where that may help.
//!
//! The key is only in the headers that are made here. A failed attempt is repeated only while no part of its answer was passed
//! on. Dropping the future of [`Endpoint::ask`] drops the request.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use bytes::Bytes;
use reqwest::{Client, Response};
use sandyard_protocol::{
    ErrorChain, ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ModelUsage, StopReason,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use super::answer_sender::ModelAnswerSender;
use super::failures::{AttemptError, ProviderError, is_web_page, shorten, web_page};
use super::http::ProviderTimeouts;
use super::secret::{ApiKey, BadKey};
use super::sse::SseEvents;
use super::wire::{AnswerParser, WireFormat};

/// Longest answer on the wire. The longest answers have 128,000 tokens, each in an event of some 300 bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Longest part of an error response that is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Longest wait for the next part of an error response, and for the end of a stream whose answer is complete.
const TAIL_TIMEOUT: Duration = Duration::from_millis(500);

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateways::model) struct AnswerEnd {
    pub(in crate::gateways::model) stop: StopReason,
    pub(in crate::gateways::model) usage: ModelUsage,
}

/// A call that has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateways::model) struct AskFailure {
    /// The failure as the sandbox may know it.
    pub(in crate::gateways::model) failure: ModelFailure,
    /// The address that was asked, if it is the likely cause. For those who watch the job, not for the sandbox.
    pub(in crate::gateways::model) address: Option<String>,
}

impl From<ModelFailure> for AskFailure {
    fn from(failure: ModelFailure) -> Self {
        Self { failure, address: None }
    }
}

/// A pause before another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelPause {
    /// Attempts that have failed.
    pub(crate) failed: u32,
    /// Time until the next attempt.
    pub(crate) wait: Duration,
    /// Why the last attempt failed.
    pub(crate) reason: String,
}

/// Learns of pauses while a call is repeated.
pub(in crate::gateways::model) type PauseObserver<'a> = &'a (dyn Fn(ModelPause) + Send + Sync);

/// A provider at one address, with one key.
#[derive(Debug)]
pub(super) struct Endpoint {
    http: Client,
    wire: WireFormat,
    url: String,
    headers: HeaderMap,
    key: Option<ApiKey>,
    places: Semaphore,
    timeouts: ProviderTimeouts,
}

impl Endpoint {
    /// `calls_at_once` bounds the calls of all jobs together.
    pub(super) fn new(
        http: Client,
        wire: WireFormat,
        base_url: &str,
        key: Option<ApiKey>,
        calls_at_once: usize,
        timeouts: ProviderTimeouts,
    ) -> Result<Self, BadKey> {
        let url = format!("{}{}", base_url.trim_end_matches('/'), wire.path());
        let headers = wire.headers(key.as_ref())?;
        Ok(Self { http, wire, url, headers, key, places: Semaphore::new(calls_at_once), timeouts })
    }

    /// True if calls carry a key.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Repeats the call until there is an answer, another attempt would not help, or the trouble has lasted too long. Text and
    /// tool calls go to `out` as they arrive, pauses between attempts to `paused`.
    pub(super) async fn ask(
        &self,
        model: &str,
        call: &ModelCall,
        out: &mpsc::Sender<ModelEvent>,
        paused: PauseObserver<'_>,
    ) -> Result<AnswerEnd, AskFailure> {
        let body = Bytes::from(self.wire.request(call, model).to_string());
        let deadline = Instant::now() + self.timeouts.trouble;
        let mut failed: u32 = 0;
        loop {
            let mut sender = ModelAnswerSender::new(out, self.key.as_ref());
            let (message, after) = match self.attempt(&body, call, &mut sender, deadline).await {
                Ok(ended) => return Ok(ended),
                Err(AttemptError::Final(failure)) => {
                    return Err(self.clean(failure.code, &failure.message).into());
                }
                Err(AttemptError::Stranger(message)) => {
                    let failure = self.clean(ModelFailureCode::Rejected, &message);
                    return Err(AskFailure { failure, address: Some(self.url.clone()) });
                }
                Err(AttemptError::Passing { message, after }) => (message, after),
            };
            failed = failed.saturating_add(1);
            // Never again once a part was passed on: the sandbox would get the beginning of two answers as one.
            let wait = self.timeouts.wait(failed, after, chance()).filter(|_| !sender.was_used());
            let wait = wait.filter(|wait| Instant::now() + *wait < deadline);
            let failure = self.clean(ModelFailureCode::Unavailable, &message);
            tracing::info!(model, failed, wait = ?wait, reason = failure.message, "a call of a model failed");
            let Some(wait) = wait else {
                return Err(AskFailure { failure, address: Some(self.url.clone()) });
            };
            paused(ModelPause { failed, wait, reason: failure.message });
            tokio::time::sleep(wait).await;
        }
    }

    /// Makes one attempt, whose answer must begin before the deadline.
    async fn attempt(
        &self,
        body: &Bytes,
        call: &ModelCall,
        sender: &mut ModelAnswerSender<'_>,
        deadline: Instant,
    ) -> Result<AnswerEnd, AttemptError> {
        // Taken for each attempt, so that a call which waits to be repeated holds no slot.
        let queued = deadline.min(Instant::now() + self.timeouts.queue);
        let place = timeout_at(queued, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(AttemptError::passing("too many calls wait for the provider"));
        };
        let whole = timeout(self.timeouts.whole, self.converse(body, call, sender, deadline)).await;
        whole.unwrap_or_else(|_| Err(late("end its answer", self.timeouts.whole)))
    }

    async fn converse(
        &self,
        body: &Bytes,
        call: &ModelCall,
        sender: &mut ModelAnswerSender<'_>,
        deadline: Instant,
    ) -> Result<AnswerEnd, AttemptError> {
        let started = Instant::now();
        let begins_by = deadline.min(started + self.timeouts.first_byte);
        let request = self.http.post(&self.url).headers(self.headers.clone()).body(body.clone());
        let response = timeout_at(begins_by, request.send())
            .await
            .map_err(|_| late("begin its answer", started.elapsed()))?
            .map_err(|error| lost(&error))?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        if is_web_page(content_type(response.headers()), "") {
            return Err(web_page(response.status().as_u16()));
        }
        self.hear(response, self.wire.answer(call), sender, begins_by).await
    }

    async fn hear(
        &self,
        mut response: Response,
        mut answer: AnswerParser,
        sender: &mut ModelAnswerSender<'_>,
        begins_by: Instant,
    ) -> Result<AnswerEnd, AttemptError> {
        let (mut events, mut bytes) = (SseEvents::default(), 0);
        while !answer.is_done() {
            // Servers that send the head at once still read the prompt or think; from the first words on, silence is a stall.
            let patience = Instant::now() + self.timeouts.idle;
            let (until, what) = match answer.has_begun() {
                true => (patience, "go on with its answer"),
                false => (begins_by, "begin its answer"),
            };
            let asked = Instant::now();
            let chunk = timeout_at(until, response.chunk())
                .await
                .map_err(|_| late(what, asked.elapsed()))?
                .map_err(|error| lost(&error))?;
            let Some(chunk) = chunk else { break };
            if bytes == 0 && is_web_page(None, &String::from_utf8_lossy(&chunk)) {
                return Err(web_page(response.status().as_u16()));
            }
            bytes += chunk.len();
            // A provider, or a server that poses as one, must not fill the host's memory.
            if bytes > MAX_ANSWER_BYTES {
                return Err(AttemptError::failed(
                    ModelFailureCode::Rejected,
                    "the provider's answer is too long",
                ));
            }
            events.push(&chunk).map_err(|_| AttemptError::malformed("an event that is too long"))?;
            while let Some(data) = events.next() {
                take(&mut answer, &data, sender).await?;
            }
        }
        if let Some(data) = events.last().filter(|_| !answer.is_done()) {
            take(&mut answer, &data, sender).await?;
        }
        let ended = end(answer, sender).await?;
        // Reading to the end lets the connection be used again. A provider that keeps it open costs half a second.
        let _ = timeout(TAIL_TIMEOUT, response.chunk()).await;
        Ok(ended)
    }

    /// Makes a failure whose message does not contain the key. Sandboxes and logs see it.
    fn clean(&self, code: ModelFailureCode, message: &str) -> ModelFailure {
        let message = self.key.as_ref().map_or_else(|| message.to_owned(), |key| key.strip(message));
        ModelFailure { code, message }
    }
}

async fn take(
    answer: &mut AnswerParser,
    data: &str,
    sender: &mut ModelAnswerSender<'_>,
) -> Result<(), AttemptError> {
    for event in answer.take(data)? {
        sender.pass(event).await?;
    }
    Ok(())
}

async fn end(answer: AnswerParser, sender: &mut ModelAnswerSender<'_>) -> Result<AnswerEnd, AttemptError> {
    for event in answer.finish()? {
        if let ModelEvent::Done { stop, usage } = event {
            sender.flush().await?;
            return Ok(AnswerEnd { stop, usage });
        }
        sender.pass(event).await?;
    }
    Err(AttemptError::malformed("an answer without an end"))
}

/// Classifies a response whose status is not a success.
async fn refused(mut response: Response) -> AttemptError {
    let status = response.status().as_u16();
    let after = retry_after(response.headers());
    let named = content_type(response.headers()).map(str::to_owned);
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout(TAIL_TIMEOUT, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_ERROR_BYTES {
            body.truncate(MAX_ERROR_BYTES);
            break;
        }
    }
    let body = String::from_utf8_lossy(&body);
    if is_web_page(named.as_deref(), &body) {
        return judge_page(status, after);
    }
    ProviderError::read(&body).judge(status, after)
}

/// Classifies a refusal that is a web page: from the provider's own front, which says only that it is busy, or from somebody
/// else.
fn judge_page(status: u16, after: Option<Duration>) -> AttemptError {
    match ProviderError::default().judge(status, after) {
        AttemptError::Passing { after, .. } => {
            let message = format!("the provider answers with status {status} and a web page (HTML)");
            AttemptError::Passing { message, after }
        }
        AttemptError::Final(failure) if failure.code == ModelFailureCode::Rejected => web_page(status),
        other => other,
    }
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE)?.to_str().ok()
}

/// Reads the delay that a provider asks for: in milliseconds from OpenAI, else in seconds. Dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1e3).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Describes a lost connection without the provider's address, which the sandbox must not learn.
fn lost(error: &reqwest::Error) -> AttemptError {
    if error.is_connect() {
        tracing::debug!(error = %shorten(&ErrorChain(error).to_string()), "a provider can't be reached");
        return AttemptError::passing("the provider can't be reached");
    }
    AttemptError::passing("the connection to the provider broke")
}

fn late(what: &str, after: Duration) -> AttemptError {
    AttemptError::passing(format!("the provider did not {what} within {} s", after.as_secs_f64().ceil()))
}

/// Returns a random number between 0 and 1, or 1 if the host has no randomness: then the delay is the longest.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}
