//! `POST /jobs/{id}/code`: a piece of code in a kernel of a live sandbox, answered at its end or streamed.
//!
//! The execution belongs to the sandbox: a client that goes away leaves it running, unless it asked otherwise, and finds it
//! again by its name.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use sandyard_api::{
    ApiError, CodeError, CodeEvent, CodeRequest, CodeStatus, CodeView, ErrorBody, ErrorCode, is_kernel_name,
};
use sandyard_protocol::{
    Execute, ExecutionEnd, ExecutionError, ExecutionId, GuestErrorCode, KernelId, Outcome, OutputKind,
    OutputStream,
};
use sandyard_sandbox::machine::{ExecutionStream, FromExecution, MachineError};

use super::HttpState;
use super::body;
use super::failure::{Answer, Failure};
use super::parts::{Job, Named, wants_events};
use super::shell_output::HeadAndTail;
use crate::audit::CallOutcome;

/// Ends code that names no limit of its own, so that no request waits for ever.
const TIMEOUT_S: u64 = 3600;
/// Rich outputs in one answer; the stream has them all.
const OUTPUTS: usize = 1000;

/// Runs code in a persistent kernel. With `Accept: text/event-stream` its output is streamed, ended by a `done` event.
#[utoipa::path(
    post, path = "/jobs/{id}/code", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    request_body = CodeRequest,
    responses(
        (status = 200, description = "What it did", content((CodeView = "application/json"), (CodeEvent = "text/event-stream"))),
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
    let request = CodeRequest::from_json(&body::json(&headers, body).await?)?;
    let machine = state.machine(&id).await?;
    let execution = machine.execute(execute(request)).await.map_err(unknown_kernel)?;
    answer(&headers, execution).await
}

/// Everything that a piece of code did, from its beginning; waits for its end, or streams.
#[utoipa::path(
    get, path = "/jobs/{id}/code/{execution}", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("execution" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "What it did", content((CodeView = "application/json"), (CodeEvent = "text/event-stream"))),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(super) async fn attach(
    State(state): State<HttpState>,
    Job(id): Job,
    Named(execution): Named,
    headers: HeaderMap,
) -> Answer {
    let machine = state.machine(&id).await?;
    if !is_kernel_name(&execution) {
        return Err(unknown_execution());
    }
    let execution = machine.attach_execution(ExecutionId(execution)).await.map_err(|error| match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::NotFound => unknown_execution(),
        other => other.into(),
    })?;
    answer(&headers, execution).await
}

async fn answer(headers: &HeaderMap, execution: ExecutionStream) -> Answer {
    if wants_events(headers) {
        return Ok(stream_events(execution).into_response());
    }
    let view = collect(execution).await?;
    let outcome = CallOutcome::Code { status: view.status, execution: view.execution.clone() };
    let mut response = Json(view).into_response();
    response.extensions_mut().insert(outcome);
    Ok(response)
}

fn execute(request: CodeRequest) -> Execute {
    Execute {
        language: request.language,
        kernel: request.kernel.map(KernelId),
        code: request.code,
        timeout_ms: Some(request.timeout_s.unwrap_or(TIMEOUT_S) * 1000),
        idle_timeout_ms: request.idle_timeout_s.map(|seconds| seconds * 1000),
        interrupt_on_loss: request.interrupt_on_disconnect,
    }
}

/// What the guest does not find is a kernel here.
pub(super) fn unknown_kernel(error: MachineError) -> Failure {
    match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::NotFound => {
            ApiError::new(ErrorCode::UnknownKernel, refusal.message)
                .with_hint("GET /jobs/{id}/kernels lists them; POST there makes one")
                .into()
        }
        other => other.into(),
    }
}

fn unknown_execution() -> Failure {
    ApiError::new(ErrorCode::UnknownExecution, "there is no such execution, or it is no longer kept").into()
}

async fn collect(mut execution: ExecutionStream) -> Result<CodeView, Failure> {
    let info = execution.info().clone();
    let (mut stdout, mut stderr) = (HeadAndTail::default(), HeadAndTail::default());
    let (mut outputs, mut result, mut error, mut notes) = (Vec::new(), None, None, Vec::new());
    let mut left_out = 0;
    let end: ExecutionEnd = loop {
        match execution.next().await? {
            FromExecution::Text(OutputStream::Stdout, text) => stdout.push(text.as_bytes()),
            FromExecution::Text(OutputStream::Stderr, text) => stderr.push(text.as_bytes()),
            FromExecution::Output(kind, forms) => {
                let data: BTreeMap<_, _> = forms.into_iter().collect();
                if kind == OutputKind::Result {
                    result = data.get("text/plain").and_then(|text| text.as_str()).map(str::to_owned);
                }
                if outputs.len() < OUTPUTS {
                    outputs.push(data);
                }
            }
            FromExecution::Error(exception) => error = Some(code_error(exception)),
            FromExecution::Clear => outputs.clear(),
            FromExecution::Note(text) => notes.push(text),
            FromExecution::Truncated(bytes) => left_out += bytes,
            FromExecution::Done(end) => break end,
        }
    };
    Ok(CodeView {
        execution: info.id.0,
        kernel: info.kernel.0,
        language: info.language,
        status: status(end.outcome),
        truncated_bytes: stdout.dropped() + stderr.dropped() + left_out,
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        result,
        outputs,
        error,
        execution_count: end.execution_count,
        timed_out: matches!(end.outcome, Outcome::TimedOut | Outcome::IdleTimedOut),
        notes,
    })
}

fn status(outcome: Outcome) -> CodeStatus {
    match outcome {
        Outcome::Ok => CodeStatus::Ok,
        Outcome::Error => CodeStatus::Error,
        Outcome::TimedOut => CodeStatus::TimedOut,
        Outcome::IdleTimedOut => CodeStatus::IdleTimedOut,
        Outcome::Interrupted => CodeStatus::Interrupted,
        Outcome::Died => CodeStatus::Died,
        Outcome::Aborted => CodeStatus::Aborted,
        Outcome::Lost => CodeStatus::Lost,
    }
}

fn code_error(error: ExecutionError) -> CodeError {
    CodeError { name: error.name, message: error.value, traceback: error.traceback }
}

fn stream_events(execution: ExecutionStream) -> impl IntoResponse {
    let info = execution.info().clone();
    let started = CodeEvent::Started { execution: info.id.0, kernel: info.kernel.0 };
    let events = stream::unfold((Some(started), Some(execution)), |(first, state)| async move {
        if let Some(first) = first {
            return Some((encode(&first), (None, state)));
        }
        let mut execution = state?;
        let event = event(execution.next().await);
        let last = matches!(event, CodeEvent::Done { .. } | CodeEvent::Error { .. });
        Some((encode(&event), (None, (!last).then_some(execution))))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn event(next: Result<FromExecution, MachineError>) -> CodeEvent {
    match next {
        Ok(FromExecution::Text(OutputStream::Stdout, text)) => CodeEvent::Stdout { text },
        Ok(FromExecution::Text(OutputStream::Stderr, text)) => CodeEvent::Stderr { text },
        Ok(FromExecution::Output(kind, forms)) => {
            let data = forms.into_iter().collect();
            match kind {
                OutputKind::Display => CodeEvent::Display { data },
                OutputKind::Result => CodeEvent::Result { data },
            }
        }
        Ok(FromExecution::Error(error)) => CodeEvent::Exception(code_error(error)),
        Ok(FromExecution::Clear) => CodeEvent::Clear,
        Ok(FromExecution::Note(text)) => CodeEvent::Note { text },
        Ok(FromExecution::Truncated(bytes)) => CodeEvent::Truncated { dropped_bytes: bytes },
        Ok(FromExecution::Done(end)) => {
            CodeEvent::Done { status: status(end.outcome), execution_count: end.execution_count }
        }
        Err(error) => {
            let failure = Failure::from(error);
            CodeEvent::Error { code: failure.code().to_owned(), message: failure.message().to_owned() }
        }
    }
}

fn encode(event: &CodeEvent) -> Result<Event, Infallible> {
    let data = serde_json::to_string(event).unwrap_or_default();
    Ok(Event::default().event(event.name()).data(data))
}
