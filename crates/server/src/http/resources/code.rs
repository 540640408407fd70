//! `POST /jobs/{id}/code`: a piece of code in a kernel of a live sandbox, answered at its end or streamed.
//!
//! The execution belongs to the sandbox: it goes on when the client goes away, unless the client asked otherwise, and can be
//! attached to again by its name.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use sandyard_api::{
    ApiError, CodeError, CodeEvent, CodeRequest, CodeStatus, CodeView, ErrorBody, ErrorCode, is_kernel_name,
};
use sandyard_protocol::{
    Execute, ExecutionEnd, ExecutionError, ExecutionId, GuestErrorCode, KernelId, Outcome, OutputKind,
    OutputStream, RequestKey,
};
use sandyard_sandbox::machine::{ExecutionStream, FromExecution, MachineError};

use sandyard_memory::SourceOrigin;

use crate::audit::CallOutcome;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::{PathName, RouteJob};
use crate::http::request::idempotency::{KeyedBody, keyed_json, known_key};
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::head_and_tail::HeadAndTail;
use crate::http::response::live::{LiveOutput, failure_words, stream_or_collect};
use crate::recall::CallMemory;

/// Ends code that names no limit of its own, so that no request waits for ever.
const DEFAULT_TIMEOUT_S: u64 = 3600;
/// Rich outputs in one answer; the stream has them all.
const MAX_OUTPUTS: usize = 1000;

/// Runs code in a persistent kernel. With `Accept: text/event-stream` its output is streamed, ended by a `done` event.
#[utoipa::path(
    post, path = "/jobs/{id}/code", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same execution"),
    ),
    request_body = CodeRequest,
    responses(
        (status = 200, description = "What it did", content((CodeView = "application/json"), (CodeEvent = "text/event-stream"))),
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
    let KeyedBody { request, key, room: _room } = keyed_json(&headers, body, CodeRequest::from_json).await?;
    let machine = state.machine(&job).await?;
    let language = request.language.as_str();
    let memory = state.yard().remember_call(&job, language, SourceOrigin::Cell, &request.code).await?;
    let execution = machine.execute(execute(request, key)).await;
    let execution = execution.map_err(|error| known_key(error).unwrap_or_else(unknown_kernel))?;
    answer(&headers, execution, Some(memory)).await
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
pub(in crate::http) async fn attach(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(execution): PathName,
    headers: HeaderMap,
) -> HttpAnswer {
    let machine = state.machine(&job).await?;
    if !is_kernel_name(&execution) {
        return Err(unknown_execution());
    }
    let execution = machine.attach_execution(ExecutionId(execution)).await.map_err(|error| match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::NotFound => unknown_execution(),
        other => other.into(),
    })?;
    answer(&headers, execution, None).await
}

async fn answer(headers: &HeaderMap, execution: ExecutionStream, memory: Option<CallMemory>) -> HttpAnswer {
    let info = execution.info().clone();
    let started = CodeEvent::Started { execution: info.id.0, kernel: info.kernel.0 };
    stream_or_collect(headers, Some(started), FollowedExecution { execution, memory }).await
}

fn execute(request: CodeRequest, key: Option<RequestKey>) -> Execute {
    Execute {
        language: request.language,
        kernel: request.kernel.map(KernelId),
        code: request.code,
        timeout_ms: Some(request.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S) * 1000),
        idle_timeout_ms: request.idle_timeout_s.map(|seconds| seconds * 1000),
        interrupt_on_loss: request.interrupt_on_disconnect,
        key,
    }
}

/// A failure about a kernel: "not found" of the guest means the kernel.
pub(in crate::http) fn unknown_kernel(error: MachineError) -> HttpFailure {
    match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::NotFound => {
            ApiError::new(ErrorCode::UnknownKernel, refusal.message)
                .with_hint("GET /jobs/{id}/kernels lists them; POST there makes one")
                .into()
        }
        other => other.into(),
    }
}

fn unknown_execution() -> HttpFailure {
    ApiError::new(ErrorCode::UnknownExecution, "there is no such execution, or it is no longer kept").into()
}

/// An execution that is followed.
struct FollowedExecution {
    execution: ExecutionStream,
    /// What is remembered of it, for the request that started it.
    memory: Option<CallMemory>,
}

impl FollowedExecution {
    /// The next part of the output, which is remembered before it is passed on.
    async fn next(&mut self) -> Result<FromExecution, MachineError> {
        let next = self.execution.next().await;
        let Some(memory) = &mut self.memory else { return next };
        match &next {
            Ok(FromExecution::Text(_, text) | FromExecution::Note(text)) => {
                memory.push(text.as_bytes()).await
            }
            Ok(FromExecution::Output(_, forms)) => {
                let text =
                    forms.iter().find_map(|(mime, value)| value.as_str().filter(|_| mime == "text/plain"));
                memory.push(text.unwrap_or_default().as_bytes()).await;
            }
            Ok(FromExecution::Error(error)) => memory.push(error.traceback.join("\n").as_bytes()).await,
            Ok(FromExecution::Done(_)) => memory.finish().await,
            Ok(FromExecution::Clear | FromExecution::Truncated(_)) | Err(_) => {}
        }
        next
    }
}

impl LiveOutput for FollowedExecution {
    type Event = CodeEvent;
    type View = CodeView;

    async fn next_event(&mut self) -> CodeEvent {
        event(self.next().await)
    }

    fn name(event: &CodeEvent) -> &'static str {
        event.name()
    }

    fn is_last(event: &CodeEvent) -> bool {
        matches!(event, CodeEvent::Done { .. } | CodeEvent::Error { .. })
    }

    async fn collect(mut self) -> Result<CodeView, HttpFailure> {
        let info = self.execution.info().clone();
        let (mut stdout, mut stderr) = (HeadAndTail::default(), HeadAndTail::default());
        let (mut outputs, mut result, mut error, mut notes) = (Vec::new(), None, None, Vec::new());
        let mut left_out = 0;
        let end: ExecutionEnd = loop {
            match self.next().await? {
                FromExecution::Text(OutputStream::Stdout, text) => stdout.push(text.as_bytes()),
                FromExecution::Text(OutputStream::Stderr, text) => stderr.push(text.as_bytes()),
                FromExecution::Output(kind, forms) => {
                    let data: BTreeMap<_, _> = forms.into_iter().collect();
                    if kind == OutputKind::Result {
                        result = data.get("text/plain").and_then(|text| text.as_str()).map(str::to_owned);
                    }
                    if outputs.len() < MAX_OUTPUTS {
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

    fn outcome(view: &CodeView) -> CallOutcome {
        CallOutcome::Code { status: view.status, execution: view.execution.clone() }
    }
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
            let (code, message) = failure_words(error);
            CodeEvent::Error { code, message }
        }
    }
}
