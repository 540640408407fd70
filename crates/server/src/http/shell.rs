//! `POST /jobs/{id}/shell`: one command in a live sandbox, answered at its end or streamed.
//!
//! The command belongs to its request: a client that goes away takes it along. What it started in the background stays.

use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use bytes::Bytes;
use futures_util::stream;
use sandyard_api::{ErrorBody, OutputText, ShellEvent, ShellRequest, ShellView};
use sandyard_protocol::{EndReason, Exit, OutputStream, StartProcess};
use sandyard_sandbox::machine::{FromProcess, MachineError, ProcessControl, ProcessReader};
use tokio_util::task::AbortOnDropHandle;

use super::HttpState;
use super::body;
use super::failure::{Answer, Failure};
use super::parts::{Job, wants_events};
use super::shell_output::HeadAndTail;
use crate::audit::CallOutcome;

/// Ends a command that names no limit of its own, so that no request waits for ever.
const TIMEOUT_S: u64 = 3600;

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
pub(super) async fn run(
    State(state): State<HttpState>,
    Job(id): Job,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let request = ShellRequest::from_json(&body::json(&headers, body).await?)?;
    let machine = state.machine(&id).await?;
    let input = request.stdin.clone();
    let (reader, control) = machine.start_process(start(request)).await?.split();
    let feed = AbortOnDropHandle::new(tokio::spawn(feed(control, input)));
    if wants_events(&headers) {
        return Ok(stream_output(reader, feed).into_response());
    }
    let view = collect(reader).await?;
    drop(feed);
    let outcome = CallOutcome::Shell { exit_code: view.exit_code, timed_out: view.timed_out };
    let mut response = Json(view).into_response();
    response.extensions_mut().insert(outcome);
    Ok(response)
}

fn start(request: ShellRequest) -> StartProcess {
    StartProcess {
        argv: vec!["bash".to_owned(), "-c".to_owned(), request.command],
        cwd: request.cwd,
        env: request.env,
        terminal: None,
        stdin: request.stdin.is_some(),
        timeout_ms: Some(request.timeout_s.unwrap_or(TIMEOUT_S) * 1000),
        idle_timeout_ms: request.idle_timeout_s.map(|seconds| seconds * 1000),
        ends_with_stream: true,
    }
}

/// Writes the input beside the reading of output, or a command that echoes would block both sides. Owns the writing half for as
/// long as the command lives: letting go of it would end the command.
async fn feed(mut control: ProcessControl, input: Option<String>) {
    if let Some(input) = input {
        let written = control.write(&Bytes::from(input)).await;
        if written.is_err() || control.close_input().await.is_err() {
            tracing::debug!("the command did not take all of its input");
        }
    }
    std::future::pending::<()>().await;
}

async fn collect(mut reader: ProcessReader) -> Result<ShellView, Failure> {
    let (mut stdout, mut stderr) = (HeadAndTail::default(), HeadAndTail::default());
    let exit = loop {
        match reader.next().await? {
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

fn timed_out(exit: &Exit) -> bool {
    matches!(exit.reason, EndReason::Timeout | EndReason::IdleTimeout)
}

fn stream_output(reader: ProcessReader, feed: AbortOnDropHandle<()>) -> impl IntoResponse {
    let events = stream::unfold(Some((reader, feed)), |state| async move {
        let (mut reader, feed) = state?;
        let event = event(reader.next().await);
        let last = matches!(event, ShellEvent::Exit { .. } | ShellEvent::Error { .. });
        Some((encode(&event), (!last).then_some((reader, feed))))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
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
            let failure = Failure::from(error);
            ShellEvent::Error { code: failure.code().to_owned(), message: failure.message().to_owned() }
        }
    }
}

fn encode(event: &ShellEvent) -> Result<Event, Infallible> {
    let data = serde_json::to_string(event).unwrap_or_default();
    Ok(Event::default().event(event.name()).data(data))
}
