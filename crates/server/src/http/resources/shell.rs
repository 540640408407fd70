//! `POST /jobs/{id}/shell`: one command in a live sandbox, answered at its end, streamed, or at once.
//!
//! The command belongs to the sandbox: it goes on when the server is replaced, and its client finds it again by its id
//! (`processes`). A command that nobody follows any more is ended after a while, unless it was detached; one whose client asked for it
//! ends with its connection. Processes that it left in the background stay.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use sandyard_api::{ErrorBody, OutputText, ProcessView, ShellEvent, ShellRequest, ShellView};
use sandyard_memory::SourceOrigin;
use sandyard_protocol::{OutputOffsets, OutputStream, RequestKey, StartProcess};
use sandyard_sandbox::machine::{FromProcess, MachineError, ProcessControl, ProcessReader, ProcessStream};
use tokio_util::task::AbortOnDropHandle;

use super::process_view::{timed_out, view};
use crate::audit::CallOutcome;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::conditions::wants_events;
use crate::http::request::extract::RouteJob;
use crate::http::request::idempotency::{KeyedBody, keyed_json, known_key};
use crate::http::request::room::BodyRoom;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::head_and_tail::HeadAndTail;
use crate::http::response::live::{LiveOutput, failure_words, stream_or_collect};
use crate::recall::CallMemory;

/// Ends a command that names no limit of its own, so that no request waits for ever.
const DEFAULT_TIMEOUT_S: u64 = 3600;
/// How long a command or terminal waits for its client while a server runs: longer than clients try to come back (the CLI: 60 s).
pub(super) const LINGER_MS: u64 = 90_000;

/// Runs a command with bash. With `Accept: text/event-stream` its output is streamed, from a `started` event to an `exit` event. With
/// `detach` it answers at once. A client whose connection is lost finds the command again under `/jobs/{id}/processes/{process}`.
#[utoipa::path(
    post, path = "/jobs/{id}/shell", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same process"),
    ),
    request_body = ShellRequest,
    responses(
        (status = 200, description = "What it did", content((ShellView = "application/json"), (ShellEvent = "text/event-stream"))),
        (status = 202, description = "It runs on its own", body = ProcessView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox, or the key was used with another body", body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(in crate::http) async fn run(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpAnswer {
    let KeyedBody { mut request, key, room } = keyed_json(&headers, body, ShellRequest::from_json).await?;
    let machine = state.machine(&job).await?;
    let (input, detach) = (request.stdin.take(), request.detach);
    let memory = state.yard().remember_call(&job, "shell", SourceOrigin::Result, &request.command).await?;
    let started = machine.start_process(start(request, input.is_some(), key)).await;
    let process = started.map_err(|error| known_key(error).unwrap_or_else(HttpFailure::from))?;
    // The input of a repeated request was sent by the first one.
    let input = input.filter(|_| !process.info().repeated).map(|text| CommandInput { text, _room: room });
    if detach && !wants_events(&headers) {
        // Nobody reads its output here; the command itself is remembered.
        drop(memory);
        let view = view(process.info().clone());
        if let Some(input) = input {
            tokio::spawn(feed_detached(process, input));
        }
        return Ok((StatusCode::ACCEPTED, Json(view)).into_response());
    }
    // A repeated request is remembered already.
    let memory = (!process.info().repeated).then_some(memory);
    RunningCommand { memory, ..RunningCommand::fed(process, input) }.answer(&headers).await
}

fn start(request: ShellRequest, stdin: bool, key: Option<RequestKey>) -> StartProcess {
    StartProcess {
        argv: vec!["bash".to_owned(), "-c".to_owned(), request.command],
        cwd: request.cwd,
        env: request.env,
        terminal: None,
        stdin,
        timeout_ms: Some(request.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S) * 1000),
        idle_timeout_ms: request.idle_timeout_s.map(|seconds| seconds * 1000),
        ends_with_stream: request.interrupt_on_disconnect,
        linger_ms: (!request.detach).then_some(LINGER_MS),
        needs_whole_input: stdin,
        key,
    }
}

/// The input of a command, with its room in the budget of bodies.
struct CommandInput {
    text: String,
    _room: Arc<BodyRoom>,
}

impl CommandInput {
    async fn send(self, control: &mut ProcessControl) {
        let written = control.write(&Bytes::from(self.text)).await;
        if written.is_err() || control.close_input().await.is_err() {
            tracing::debug!("the command did not take all of its input");
        }
    }
}

/// Writes the input while the output is read, or a command that echoes would block both sides. Holds the writing half for as
/// long as the command is followed: dropping it ends the stream.
async fn feed(mut control: ProcessControl, input: Option<CommandInput>) {
    if let Some(input) = input {
        input.send(&mut control).await;
    }
    std::future::pending::<()>().await;
}

/// Feeds a command that nobody follows. Output is read and dropped meanwhile; the sandbox keeps it. Ends with the input or the
/// command, which has a time limit.
async fn feed_detached(process: ProcessStream, input: CommandInput) {
    let (mut reader, mut control) = process.split();
    // Cancelling either side ends the stream, which is all that is left to do.
    tokio::select! {
        () = input.send(&mut control) => {}
        () = async { while !matches!(reader.next().await, Ok(FromProcess::Exited(_)) | Err(_)) {} } => {}
    }
}

/// A command that is followed. Dropping it leaves the command to the sandbox.
pub(super) struct RunningCommand {
    reader: ProcessReader,
    position: OutputOffsets,
    /// What is remembered of it, for the request that started it.
    memory: Option<CallMemory>,
    _feed: AbortOnDropHandle<()>,
}

impl RunningCommand {
    /// A process that was found again, from a position on.
    pub(super) fn following(process: ProcessStream, position: OutputOffsets) -> Self {
        Self { position, ..Self::fed(process, None) }
    }

    fn fed(process: ProcessStream, input: Option<CommandInput>) -> Self {
        let (reader, control) = process.split();
        let feed = AbortOnDropHandle::new(tokio::spawn(feed(control, input)));
        Self { reader, position: OutputOffsets::default(), memory: None, _feed: feed }
    }

    /// The next part of the command's output, which is remembered before it is passed on.
    async fn next(&mut self) -> Result<FromProcess, MachineError> {
        let next = self.reader.next().await;
        let Some(memory) = &mut self.memory else { return next };
        match &next {
            Ok(FromProcess::Output(chunk)) => memory.push(&chunk.bytes).await,
            Ok(FromProcess::Exited(_)) => memory.finish().await,
            Ok(FromProcess::Lost(_)) | Err(_) => {}
        }
        next
    }

    /// Streams to a client that asked for events, else answers at the end.
    pub(super) async fn answer(self, headers: &HeaderMap) -> HttpAnswer {
        let started = ShellEvent::Started { process: self.reader.info().id.0.clone() };
        stream_or_collect(headers, Some(started), self).await
    }
}

impl LiveOutput for RunningCommand {
    type Event = ShellEvent;
    type View = ShellView;

    async fn next_event(&mut self) -> ShellEvent {
        let next = self.next().await;
        if let Ok(FromProcess::Output(chunk)) = &next {
            self.position.set(chunk.stream, chunk.offset + chunk.bytes.len() as u64);
        }
        event(next)
    }

    fn position(&self) -> Option<String> {
        Some(format!("{},{}", self.position.stdout, self.position.stderr))
    }

    fn name(event: &ShellEvent) -> &'static str {
        event.name()
    }

    fn is_last(event: &ShellEvent) -> bool {
        matches!(event, ShellEvent::Exit { .. } | ShellEvent::Error { .. })
    }

    async fn collect(mut self) -> Result<ShellView, HttpFailure> {
        let (mut stdout, mut stderr) = (HeadAndTail::default(), HeadAndTail::default());
        let exit = loop {
            match self.next().await? {
                FromProcess::Output(chunk) => match chunk.stream {
                    OutputStream::Stdout => stdout.push(&chunk.bytes),
                    OutputStream::Stderr => stderr.push(&chunk.bytes),
                },
                FromProcess::Lost(bytes) => stdout.lost(bytes),
                FromProcess::Exited(exit) => break exit,
            }
        };
        Ok(ShellView {
            process: self.reader.info().id.0.clone(),
            truncated_bytes: stdout.dropped() + stderr.dropped(),
            stdout: stdout.into_text(),
            stderr: stderr.into_text(),
            exit_code: exit.code,
            timed_out: timed_out(&exit),
        })
    }

    fn outcome(view: &ShellView) -> CallOutcome {
        CallOutcome::Shell { exit_code: view.exit_code, timed_out: view.timed_out }
    }
}

fn event(next: Result<FromProcess, MachineError>) -> ShellEvent {
    match next {
        Ok(FromProcess::Output(chunk)) => {
            let text = OutputText::new(chunk.offset, &chunk.bytes);
            match chunk.stream {
                OutputStream::Stdout => ShellEvent::Stdout(text),
                OutputStream::Stderr => ShellEvent::Stderr(text),
            }
        }
        Ok(FromProcess::Lost(bytes)) => ShellEvent::Truncated { dropped_bytes: bytes },
        Ok(FromProcess::Exited(exit)) => {
            ShellEvent::Exit { exit_code: exit.code, timed_out: timed_out(&exit) }
        }
        Err(error) => {
            let (code, message) = failure_words(error);
            ShellEvent::Error { code, message }
        }
    }
}
