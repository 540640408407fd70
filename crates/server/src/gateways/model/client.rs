//! One provider over HTTP: sends a call, hears the answer, and asks again where that may help.
//!
//! The key is in the headers that are made once here, and in nothing that leaves. An attempt that failed is repeated only while
//! nothing of its answer has been passed on. Dropping the future of [`Endpoint::ask`] drops the request.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::RETRY_AFTER;
use bytes::Bytes;
use reqwest::{Client, Response};
use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ModelUsage, StopReason};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::failures::{Complaint, Trouble, shorten};
use super::http::Patience;
use super::outlet::Outlet;
use super::secret::{ApiKey, BadKey};
use super::sse::Events;
use super::wire::{Answer, Wire, malformed};

/// An answer as it is on the wire: the longest of today are 128,000 tokens, each in an event of some 300 bytes.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// What is read of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;
/// How long the rest of a refusal, or the end of a complete answer, is waited for.
const TAIL: Duration = Duration::from_millis(500);

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) stop: StopReason,
    pub(super) usage: ModelUsage,
}

/// A provider at one address, with one key.
#[derive(Debug)]
pub(super) struct Endpoint {
    http: Client,
    wire: Wire,
    url: String,
    headers: HeaderMap,
    key: Option<ApiKey>,
    places: Semaphore,
    patience: Patience,
}

impl Endpoint {
    /// `calls_at_once` is for all jobs together.
    pub(super) fn new(
        http: Client,
        wire: Wire,
        base_url: &str,
        key: Option<ApiKey>,
        calls_at_once: usize,
        patience: Patience,
    ) -> Result<Self, BadKey> {
        let url = format!("{}{}", base_url.trim_end_matches('/'), wire.path());
        let headers = wire.headers(key.as_ref())?;
        Ok(Self { http, wire, url, headers, key, places: Semaphore::new(calls_at_once), patience })
    }

    /// Whether it is asked with a key.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Asks until there is an answer or no use in asking. Words and calls go to `out` as they come.
    pub(super) async fn ask(
        &self,
        model: &str,
        call: &ModelCall,
        out: &mpsc::Sender<ModelEvent>,
    ) -> Result<Ended, ModelFailure> {
        let body = Bytes::from(self.wire.request(call, model).to_string());
        let mut failed = 0;
        loop {
            let mut outlet = Outlet::new(out, self.key.as_ref());
            let (message, after) = match self.attempt(&body, call, &mut outlet).await {
                Ok(ended) => return Ok(ended),
                Err(Trouble::Final(failure)) => return Err(self.clean(failure.code, &failure.message)),
                Err(Trouble::Passing { message, after }) => (message, after),
            };
            failed += 1;
            let wait = self.patience.wait(failed, after, chance()).filter(|_| !outlet.was_used());
            let failure = self.clean(ModelFailureCode::Unavailable, &message);
            tracing::info!(model, failed, wait = ?wait, reason = failure.message, "a call of a model failed");
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failure),
            }
        }
    }

    async fn attempt(
        &self,
        body: &Bytes,
        call: &ModelCall,
        outlet: &mut Outlet<'_>,
    ) -> Result<Ended, Trouble> {
        let place = timeout(self.patience.queue, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(Trouble::passing("too many calls wait for the provider"));
        };
        let whole = timeout(self.patience.whole, self.converse(body, call, outlet)).await;
        whole.unwrap_or_else(|_| Err(late("end its answer", self.patience.whole)))
    }

    async fn converse(
        &self,
        body: &Bytes,
        call: &ModelCall,
        outlet: &mut Outlet<'_>,
    ) -> Result<Ended, Trouble> {
        let request = self.http.post(&self.url).headers(self.headers.clone()).body(body.clone());
        let response = timeout(self.patience.first_byte, request.send())
            .await
            .map_err(|_| late("begin its answer", self.patience.first_byte))?
            .map_err(|error| lost(&error))?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        self.hear(response, self.wire.answer(call), outlet).await
    }

    async fn hear(
        &self,
        mut response: Response,
        mut answer: Answer,
        outlet: &mut Outlet<'_>,
    ) -> Result<Ended, Trouble> {
        let (mut events, mut bytes) = (Events::default(), 0);
        while !answer.is_done() {
            let chunk = timeout(self.patience.idle, response.chunk())
                .await
                .map_err(|_| late("go on with its answer", self.patience.idle))?
                .map_err(|error| lost(&error))?;
            let Some(chunk) = chunk else { break };
            bytes += chunk.len();
            if bytes > ANSWER_BYTES {
                return Err(Trouble::failed(ModelFailureCode::Rejected, "the provider's answer is too long"));
            }
            events.push(&chunk).map_err(|_| malformed("an event that is too long"))?;
            while let Some(data) = events.next() {
                take(&mut answer, &data, outlet).await?;
            }
        }
        if let Some(data) = events.last().filter(|_| !answer.is_done()) {
            take(&mut answer, &data, outlet).await?;
        }
        let ended = end(answer, outlet).await?;
        // A connection whose answer was read to its end can be used again; nothing hangs on it.
        let _ = timeout(TAIL, response.chunk()).await;
        Ok(ended)
    }

    /// Nothing that a sandbox or a log gets to see has the key in it.
    fn clean(&self, code: ModelFailureCode, message: &str) -> ModelFailure {
        let message = self.key.as_ref().map_or_else(|| message.to_owned(), |key| key.strip(message));
        ModelFailure { code, message }
    }
}

async fn take(answer: &mut Answer, data: &str, outlet: &mut Outlet<'_>) -> Result<(), Trouble> {
    for event in answer.take(data)? {
        outlet.pass(event).await?;
    }
    Ok(())
}

async fn end(answer: Answer, outlet: &mut Outlet<'_>) -> Result<Ended, Trouble> {
    for event in answer.finish()? {
        if let ModelEvent::Done { stop, usage } = event {
            outlet.flush().await?;
            return Ok(Ended { stop, usage });
        }
        outlet.pass(event).await?;
    }
    Err(malformed("an answer without an end"))
}

/// What an answer with another status than success means.
async fn refused(mut response: Response) -> Trouble {
    let status = response.status().as_u16();
    let after = retry_after(response.headers());
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout(TAIL, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() >= REFUSAL_BYTES {
            body.truncate(REFUSAL_BYTES);
            break;
        }
    }
    Complaint::read(&String::from_utf8_lossy(&body)).judge(status, after)
}

/// In milliseconds as OpenAI says it, or in seconds; a date is as good as nothing said.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1e3).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// In words that name no address: a sandbox has no business with those.
fn lost(error: &reqwest::Error) -> Trouble {
    if error.is_connect() {
        tracing::debug!(error = %shorten(&chain(error)), "a provider can't be reached");
        return Trouble::passing("the provider can't be reached");
    }
    Trouble::passing("the connection to the provider broke")
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn late(what: &str, after: Duration) -> Trouble {
    Trouble::passing(format!("the provider did not {what} within {} s", after.as_secs_f64().ceil()))
}

/// Between 0 and 1; a host without chance waits as long as it must.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}
