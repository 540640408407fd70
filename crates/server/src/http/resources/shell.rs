//! `POST /jobs/{id}/shell`: one command in a live sandbox, answered at its end or streamed.
//!
//! The command belongs to its request and ends when the client goes away. Processes that it left in the background stay.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use bytes::Bytes;
use sandyard_api::{ErrorBody, OutputText, ShellEvent, ShellRequest, ShellView};
use sandyard_protocol::{EndReason, Exit, OutputStream, StartProcess};
use sandyard_sandbox::machine::{FromProcess, MachineError, ProcessControl, ProcessReader};
use tokio_util::task::AbortOnDropHandle;

use crate::audit::CallOutcome;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::RouteJob;
use crate::http::request::room::BodyRoom;
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::head_and_tail::HeadAndTail;
use crate::http::response::live::{LiveOutput, failure_words, stream_or_collect};

/// Ends a command that names no limit of its own, so that no request waits for ever.
const DEFAULT_TIMEOUT_S: u64 = 3600;

/// Runs a command with bash. With `Accept: text/event-stream` its output is streamed, ended by an `exit` event.
#[utoipa::path(
    post, path = "/jobs/{id}/shell", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    request_body = ShellRequest,
    responses(
        (status = 200, description = "What it did", content((ShellView = "application/json"), (ShellEvent = "text/event-stream"))),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(in crate::http) async fn run(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpAnswer {
    let (request, room) = body.json(ShellRequest::from_json).await?;
    let machine = state.machine(&job).await?;
    let input = request.stdin.clone();
    let (reader, control) = machine.start_process(start(request)).await?.split();
    let feed = AbortOnDropHandle::new(tokio::spawn(feed(control, input, room)));
    stream_or_collect(&headers, None, RunningCommand { reader, _feed: feed }).await
}

/// A command and the task that feeds it. Dropping it ends the command.
struct RunningCommand {
    reader: ProcessReader,
    _feed: AbortOnDropHandle<()>,
}

fn start(request: ShellRequest) -> StartProcess {
    StartProcess {
        argv: vec!["bash".to_owned(), "-c".to_owned(), request.command],
        cwd: request.cwd,
        env: request.env,
        terminal: None,
        stdin: request.stdin.is_some(),
        timeout_ms: Some(request.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S) * 1000),
        idle_timeout_ms: request.idle_timeout_s.map(|seconds| seconds * 1000),
        ends_with_stream: true,
    }
}

/// Writes the input while the output is read, or a command that echoes would block both sides. Holds the writing half for as
/// long as the command lives: dropping it would end the command. `room` is that of the input.
async fn feed(mut control: ProcessControl, input: Option<String>, room: Arc<BodyRoom>) {
    if let Some(input) = input {
        let written = control.write(&Bytes::from(input)).await;
        if written.is_err() || control.close_input().await.is_err() {
            tracing::debug!("the command did not take all of its input");
        }
    }
    drop(room);
    std::future::pending::<()>().await;
}

impl LiveOutput for RunningCommand {
    type Event = ShellEvent;
    type View = ShellView;

    async fn next_event(&mut self) -> ShellEvent {
        event(self.reader.next().await)
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
            match self.reader.next().await? {
                FromProcess::Output(chunk) => match chunk.stream {
                    OutputStream::Stdout => stdout.push(&chunk.bytes),
                    OutputStream::Stderr => stderr.push(&chunk.bytes),
                },
                FromProcess::Lost(bytes) => stdout.lost(bytes),
                FromProcess::Exited(exit) => break exit,
            }
        };
        Ok(ShellView {
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

fn timed_out(exit: &Exit) -> bool {
    matches!(exit.reason, EndReason::Timeout | EndReason::IdleTimeout)
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
