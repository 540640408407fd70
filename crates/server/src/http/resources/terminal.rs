//! `GET /jobs/{id}/shell`: an interactive terminal over a WebSocket.
//!
//! The shell outlives its connection for a while: the client comes back with `GET /jobs/{id}/processes/{process}`.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::Uri;
use sandyard_api::ErrorBody;
use sandyard_protocol::{StartProcess, TerminalSize};

use super::process_socket;
use super::shell::LINGER_MS;
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;

/// The size of a terminal whose client names none.
const USUAL_SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// A terminal: a WebSocket that carries bytes in binary frames. It begins with the text frame `{"process", "offset"}`; the client resizes
/// with `{"resize": {"columns", "rows"}}`; the server ends with `{"exit": {"code"}}`. A client whose connection is lost finds the terminal
/// again under `/jobs/{id}/processes/{process}`, for 90 seconds while a server runs.
#[utoipa::path(
    get, path = "/jobs/{id}/shell", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("columns" = Option<u16>, Query, description = "Width at the start, 80 if not given"),
        ("rows" = Option<u16>, Query, description = "Height at the start, 24 if not given"),
        ("command" = Option<String>, Query, description = "A command line for bash; an interactive shell if not given"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 400, description = "Not a WebSocket request", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn open(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HttpAnswer {
    let query = query(&uri, &["columns", "rows", "command", "ticket", "wait"])?;
    let size = process_socket::size_of(&query)?.unwrap_or(USUAL_SIZE);
    let command = query.text("command").map(str::to_owned);
    let upgrade = process_socket::upgrade(upgrade)?;
    let machine = state.machine(&job).await?;
    let process = machine.start_process(start(size, command)).await?;
    Ok(process_socket::serve(upgrade, process, 0, state.shutdown().clone()))
}

/// A login shell, or a command line in one.
fn start(size: TerminalSize, command: Option<String>) -> StartProcess {
    let line = command.map(|command| ["-c".to_owned(), command]);
    StartProcess {
        argv: ["bash", "-l"].into_iter().map(str::to_owned).chain(line.into_iter().flatten()).collect(),
        env: [("TERM".to_owned(), "xterm-256color".to_owned())].into(),
        terminal: Some(size),
        stdin: true,
        linger_ms: Some(LINGER_MS),
        ..StartProcess::default()
    }
}
