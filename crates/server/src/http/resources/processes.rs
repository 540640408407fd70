//! `/jobs/{id}/processes`: commands and terminals of a live sandbox, found again by their ids.

use axum::Json;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, ProcessListView, ShellEvent, ShellView, SignalRequest, is_kernel_name,
};
use sandyard_protocol::{GuestErrorCode, OutputOffsets, ProcessId};
use sandyard_sandbox::machine::MachineError;

use super::process_socket;
use super::process_view::view;
use super::shell::RunningCommand;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::{PathName, RouteJob};
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// The processes of a live sandbox, newest first: all that run, and the last that ended.
#[utoipa::path(
    get, path = "/jobs/{id}/processes", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, body = ProcessListView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn list(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    let processes = state.machine(&job).await?.list_processes().await?;
    Ok(Json(ProcessListView { processes: processes.into_iter().map(view).collect() }).into_response())
}

/// Follows a process that runs or has ended: waits for its end, streams, or becomes a WebSocket. With `offset`, only what follows it.
#[utoipa::path(
    get, path = "/jobs/{id}/processes/{process}", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("process" = String, Path, description = "Its id"),
        ("offset" = Option<String>, Query, description = "Bytes of standard output that are known, or of both outputs with a comma between them; the `id` of the last event. 0 if not given"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same, as event sources send it"),
        ("columns" = Option<u16>, Query, description = "New width of the terminal"),
        ("rows" = Option<u16>, Query, description = "New height of the terminal"),
        ("ticket" = Option<String>, Query, description = "For a WebSocket, from POST /jobs/{id}/tickets for `pty`"),
    ),
    responses(
        (status = 101, description = "A WebSocket, as for GET /jobs/{id}/shell; standard error comes as text frames"),
        (status = 200, description = "What it did", content((ShellView = "application/json"), (ShellEvent = "text/event-stream"))),
        (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn attach(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(process): PathName,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HttpAnswer {
    let query = query(&uri, &["offset", "columns", "rows", "ticket", "wait"])?;
    let size = process_socket::size_of(&query)?;
    let known = query.text("offset").or_else(|| headers.get("last-event-id")?.to_str().ok());
    let from = known.map_or(Ok(OutputOffsets::default()), offsets)?;
    let process = named(process)?;
    let machine = state.machine(&job).await?;
    let mut stream = machine.attach_process(process, from).await.map_err(unknown_process)?;
    let Ok(upgrade) = upgrade else { return RunningCommand::following(stream, from).answer(&headers).await };
    if let Some(size) = size {
        stream.control().resize(size).await?;
    }
    // An offset beyond the end means the end.
    let offset = from.stdout.min(stream.info().output.stdout);
    Ok(process_socket::serve(upgrade, stream, offset, state.shutdown().clone()))
}

/// Sends a signal to a process and everything it started in its group; harmless if it has ended.
#[utoipa::path(
    post, path = "/jobs/{id}/processes/{process}/signal", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("process" = String, Path, description = "Its id")),
    request_body = SignalRequest,
    responses(
        (status = 204, description = "It was sent"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(in crate::http) async fn signal(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(process): PathName,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(SignalRequest::from_json).await?;
    let process = named(process)?;
    let machine = state.machine(&job).await?;
    machine.signal_process(process, request.signal.number()).await.map_err(unknown_process)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A position in both outputs: `120`, or `120,17`.
fn offsets(text: &str) -> Result<OutputOffsets, HttpFailure> {
    let (stdout, stderr) = text.split_once(',').unwrap_or((text, "0"));
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match (number(stdout), number(stderr)) {
        (Some(stdout), Some(stderr)) => Ok(OutputOffsets { stdout, stderr }),
        _ => {
            let message = "`offset` must be a number of bytes, or two with a comma between them";
            Err(ApiError::new(ErrorCode::BadRequest, message).into())
        }
    }
}

/// The id of a process. A malformed name is an unknown process.
fn named(process: String) -> Result<ProcessId, HttpFailure> {
    if is_kernel_name(&process) { Ok(ProcessId(process)) } else { Err(unknown().into()) }
}

/// A failure about a process: "not found" of the guest means the process.
fn unknown_process(error: MachineError) -> HttpFailure {
    match error {
        MachineError::Guest(refusal) if refusal.code == GuestErrorCode::NotFound => unknown().into(),
        other => other.into(),
    }
}

fn unknown() -> ApiError {
    ApiError::new(ErrorCode::UnknownProcess, "there is no such process, or it is no longer kept")
        .with_hint("GET /jobs/{id}/processes lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_one_number_or_two() {
        let read = |text| offsets(text).ok().map(|offsets| (offsets.stdout, offsets.stderr));
        assert_eq!(read("120"), Some((120, 0)));
        assert_eq!(read("120,17"), Some((120, 17)));
        for text in ["", ",", "1,", ",1", "-1", "+1", "1,2,3", "x", "99999999999999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
