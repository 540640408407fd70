//! Commands in a live sandbox, followed across lost connections and restarted servers.
//!
//! A command belongs to its sandbox. The request has a key, so a repeat after a lost answer finds the same command; once its id
//! is known, the client asks for the output after the bytes that it has. Nothing runs twice, nothing is shown twice and nothing is
//! lost.

use reqwest::{Method, StatusCode};
use sandyard_api::{
    OutputText, ProcessSignal, ProcessView, SandboxState, ShellEvent, ShellRequest, ShellView, SignalRequest,
};

use super::patience::RetryPatience;
use super::{ApiClient, ClientError, SseReader};

impl ApiClient {
    /// Runs a command and streams its events. A repeat with the same key and body streams those of the same command.
    async fn shell(&self, job: &str, body: &ShellRequest, key: &str) -> Result<SseReader, ClientError> {
        let request =
            self.request(Method::POST, &format!("/jobs/{job}/shell")).header("idempotency-key", key);
        let request = request.header("accept", "text/event-stream").json(body);
        Ok(SseReader::new(self.send(request).await?))
    }

    /// Runs a short command and returns its whole answer.
    pub(crate) async fn shell_once(&self, job: &str, command: &str) -> Result<ShellView, ClientError> {
        let body = ShellRequest { command: command.to_owned(), ..ShellRequest::default() };
        self.json(self.request(Method::POST, &format!("/jobs/{job}/shell")).json(&body)).await
    }

    /// Starts a command that runs on its own.
    pub(crate) async fn start(&self, job: &str, body: &ShellRequest) -> Result<ProcessView, ClientError> {
        self.json(self.request(Method::POST, &format!("/jobs/{job}/shell")).json(body)).await
    }

    /// Streams the events of a process after a position.
    async fn process(
        &self,
        job: &str,
        process: &str,
        position: SeenOutput,
    ) -> Result<SseReader, ClientError> {
        let SeenOutput { stdout, stderr } = position;
        let path = format!("/jobs/{job}/processes/{process}?offset={stdout},{stderr}");
        let request = self.request(Method::GET, &path).header("accept", "text/event-stream");
        Ok(SseReader::new(self.send(request).await?))
    }

    /// Sends a signal to a process.
    pub(crate) async fn signal(
        &self,
        job: &str,
        process: &str,
        signal: ProcessSignal,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &format!("/jobs/{job}/processes/{process}/signal"));
        self.send(request.json(&SignalRequest { signal })).await.map(drop)
    }

    /// True if an error is about a sandbox that lives and has not dialled the new server yet.
    pub(super) async fn is_dialling(&self, job: &str, error: &ClientError) -> bool {
        let refused = matches!(error, ClientError::Refused { status, code, .. }
            if *status == StatusCode::CONFLICT.as_u16() && code == "sandbox_not_live");
        refused && self.status(job).await.is_ok_and(|view| view.sandbox == SandboxState::Live)
    }
}

/// Bytes of both outputs that were returned.
#[derive(Debug, Clone, Copy, Default)]
struct SeenOutput {
    stdout: u64,
    stderr: u64,
}

/// One observation while following a command.
#[derive(Debug)]
pub(crate) enum CommandUpdate {
    /// An event of the command.
    Event(ShellEvent),
    /// The connection is lost; the follower retries.
    Lost,
    /// The connection works again.
    Back,
}

/// Runs one command and follows it.
pub(crate) struct FollowCommand {
    client: ApiClient,
    job: String,
    body: ShellRequest,
    key: String,
    process: Option<String>,
    seen: SeenOutput,
    reader: Option<SseReader>,
    /// True once a server took the request or its connection: before that, a server that does not answer is not waited for.
    begun: bool,
    patience: RetryPatience,
}

impl FollowCommand {
    /// Prepares a command; the first call of [`next`](Self::next) starts it. `key` must be new.
    pub(crate) fn new(client: ApiClient, job: &str, body: ShellRequest, key: String) -> Self {
        Self {
            client,
            job: job.to_owned(),
            body,
            key,
            process: None,
            seen: SeenOutput::default(),
            reader: None,
            begun: false,
            patience: RetryPatience::default(),
        }
    }

    /// Id of the process, once it is known.
    pub(crate) fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// Returns the next observation. May be cancelled at any time without losing output.
    pub(crate) async fn next(&mut self) -> Result<CommandUpdate, ClientError> {
        loop {
            let Some(reader) = &mut self.reader else {
                if let Some(news) = self.connect().await? {
                    return Ok(news);
                }
                continue;
            };
            match reader.next().await {
                Ok(Some(frame)) => {
                    // A newer server may send events we do not know.
                    let Ok(event) = serde_json::from_str::<ShellEvent>(&frame.data) else { continue };
                    if let Some(event) = self.accept(event) {
                        return Ok(CommandUpdate::Event(event));
                    }
                }
                Ok(None) | Err(ClientError::Lost(_)) => self.reader = None,
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries to connect once; `Some` is an observation for the caller.
    async fn connect(&mut self) -> Result<Option<CommandUpdate>, ClientError> {
        let connected = match &self.process {
            Some(process) => self.client.process(&self.job, process, self.seen).await,
            None => self.client.shell(&self.job, &self.body, &self.key).await,
        };
        match connected {
            Ok(reader) => {
                self.reader = Some(reader);
                self.begun = true;
                Ok(self.patience.connected().then_some(CommandUpdate::Back))
            }
            Err(error) if self.may_retry(&error).await => {
                self.begun = true;
                Ok(self.patience.pause().await.then_some(CommandUpdate::Lost))
            }
            Err(error) => Err(error),
        }
    }

    async fn may_retry(&mut self, error: &ClientError) -> bool {
        let worth_it = match error {
            // Sent, perhaps carried out: the key makes the repeat harmless.
            ClientError::Lost(_) => true,
            error => self.begun && (error.is_transient() || self.client.is_dialling(&self.job, error).await),
        };
        worth_it && self.patience.lasts()
    }

    /// Notes the position after an event. `None` for an event that says nothing new, or that ends only the stream.
    fn accept(&mut self, event: ShellEvent) -> Option<ShellEvent> {
        self.patience.progressed();
        let end = |text: &OutputText| text.offset + text.bytes().map_or(0, |bytes| bytes.len() as u64);
        match &event {
            ShellEvent::Started { process } => {
                self.process = Some(process.clone());
                return None;
            }
            ShellEvent::Stdout(text) => self.seen.stdout = end(text),
            ShellEvent::Stderr(text) => self.seen.stderr = end(text),
            // The stream between server and sandbox broke, as when a newer server takes the sandbox over.
            ShellEvent::Error { code, .. } if code == "sandbox_failed" && self.process.is_some() => {
                self.reader = None;
                return None;
            }
            _ => {}
        }
        Some(event)
    }
}
