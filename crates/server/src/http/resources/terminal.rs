//! `GET /jobs/{id}/shell`: an interactive terminal over a WebSocket.
//!
//! Binary frames are bytes of the terminal, both ways. Text frames are JSON: the client sends
//! `{"resize": {"columns": 120, "rows": 40}}`, the server ends with `{"exit": {"code": 0}}`. The shell ends with its
//! connection. Every frame is bounded, the client is pinged, and neither side is read faster than the other takes it.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::Uri;
use bytes::Bytes;
use sandyard_api::{ApiError, ErrorBody, ErrorCode};
use sandyard_protocol::{StartProcess, TerminalSize};
use sandyard_sandbox::machine::{FromProcess, MachineError, ProcessControl, ProcessReader, ProcessStream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;
use crate::http::response::socket::{self, INPUT_QUEUE, PING_INTERVAL, SocketEnd};

/// Longest frame of a client: pasted text fits, a flood does not.
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// Longest text frame: a size. Parsed JSON takes many times the memory of its text.
const MAX_RESIZE_BYTES: usize = 256;

/// A terminal: a WebSocket that carries bytes in binary frames; the client resizes with the text frame `{"resize": {"columns", "rows"}}`, the
/// server ends with `{"exit": {"code"}}`.
#[utoipa::path(
    get, path = "/jobs/{id}/shell", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("columns" = Option<u16>, Query, description = "Width at the start, 80 if not given"),
        ("rows" = Option<u16>, Query, description = "Height at the start, 24 if not given"),
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
    let query = query(&uri, &["columns", "rows", "ticket", "wait"])?;
    let columns = query.whole("columns", 1..=1000)?.unwrap_or(80);
    let rows = query.whole("rows", 1..=1000)?.unwrap_or(24);
    let size = size(columns, rows).ok_or_else(|| bad("a terminal has 1 to 1000 columns and rows"))?;
    let upgrade =
        upgrade.map_err(|_| bad("this route is a WebSocket").with_hint("POST runs a single command"))?;
    let machine = state.machine(&job).await?;
    let process = machine.start_process(start(size)).await?;
    let stop = state.shutdown().clone();
    Ok(upgrade
        .max_message_size(MAX_FRAME_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .on_upgrade(move |socket| Terminal::new(socket, process).serve(stop)))
}

fn start(size: TerminalSize) -> StartProcess {
    StartProcess {
        argv: vec!["bash".to_owned(), "-l".to_owned()],
        env: [("TERM".to_owned(), "xterm-256color".to_owned())].into(),
        terminal: Some(size),
        stdin: true,
        ends_with_stream: true,
        ..StartProcess::default()
    }
}

fn size(columns: u64, rows: u64) -> Option<TerminalSize> {
    let fits = |number: u64| u16::try_from(number).ok().filter(|number| (1..=1000).contains(number));
    Some(TerminalSize { columns: fits(columns)?, rows: fits(rows)? })
}

fn bad(message: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

enum TerminalFrame {
    Bytes(Bytes),
    Size(TerminalSize),
}

struct Terminal {
    socket: WebSocket,
    reader: ProcessReader,
    inputs: mpsc::Sender<TerminalFrame>,
    /// Writes to the shell while it is read, or a long paste into a program that prints would block both directions.
    _writer: AbortOnDropHandle<()>,
}

async fn write_inputs(mut control: ProcessControl, mut inputs: mpsc::Receiver<TerminalFrame>) {
    while let Some(input) = inputs.recv().await {
        let written = match input {
            TerminalFrame::Bytes(bytes) => control.write(&bytes).await,
            TerminalFrame::Size(size) => control.resize(size).await,
        };
        if written.is_err() {
            return;
        }
    }
}

impl Terminal {
    fn new(socket: WebSocket, process: ProcessStream) -> Self {
        let (reader, control) = process.split();
        let (inputs, receiver) = mpsc::channel(INPUT_QUEUE);
        let writer = AbortOnDropHandle::new(tokio::spawn(write_inputs(control, receiver)));
        Self { socket, reader, inputs, _writer: writer }
    }

    async fn serve(mut self, stop: CancellationToken) {
        // The server's stop must not wait for a terminal. Cancelling the exchange loses at most the output that is being sent.
        let end = tokio::select! {
            end = self.exchange() => end,
            () = stop.cancelled() => SocketEnd::Close(close_code::AWAY, "the server stops; the job goes on".to_owned()),
        };
        socket::close(&mut self.socket, end).await;
    }

    async fn exchange(&mut self) -> SocketEnd {
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        let mut heard = Instant::now();
        let inputs = self.inputs.clone();
        let mut room = None;
        loop {
            // A client's frame is only read once there is room to pass it on, so a shell that does not read slows its client
            // down, while output and pings continue. The ping must not starve: it finds clients that are gone. Cancelling loses
            // nothing: a permit that was reserved is kept in `room`, and socket and reader keep unread bytes.
            let step = tokio::select! {
                output = self.reader.next() => self.show(output).await,
                permit = inputs.reserve(), if room.is_none() => {
                    heard = Instant::now();
                    room = permit.ok();
                    if room.is_some() { Ok(()) } else { Err(unreachable_sandbox()) }
                }
                message = self.socket.recv(), if room.is_some() => {
                    heard = Instant::now();
                    take(message, &mut room)
                }
                _ = ping.tick() => socket::ping(&mut self.socket, heard).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn show(&mut self, output: Result<FromProcess, MachineError>) -> Result<(), SocketEnd> {
        match output {
            Ok(FromProcess::Output(chunk)) => {
                socket::send(&mut self.socket, Message::Binary(chunk.bytes)).await
            }
            Ok(FromProcess::Lost(_)) => Ok(()),
            Ok(FromProcess::Exited(exit)) => {
                let text = serde_json::json!({"exit": {"code": exit.code}}).to_string();
                socket::send(&mut self.socket, Message::Text(text.into())).await?;
                Err(SocketEnd::Close(close_code::NORMAL, "the shell ended".to_owned()))
            }
            Err(error @ MachineError::Finishing) => {
                Err(SocketEnd::Close(close_code::AWAY, error.to_string()))
            }
            Err(_) => Err(unreachable_sandbox()),
        }
    }
}

/// Passes a client's frame on, using the room that was reserved for it.
fn take(
    message: Option<Result<Message, axum::Error>>,
    room: &mut Option<mpsc::Permit<'_, TerminalFrame>>,
) -> Result<(), SocketEnd> {
    let input = match message {
        Some(Ok(Message::Binary(bytes))) => TerminalFrame::Bytes(bytes),
        Some(Ok(Message::Text(text))) => match resize(text.as_str()) {
            Some(size) => TerminalFrame::Size(size),
            None => {
                let reason = "text frames must be {\"resize\": {\"columns\", \"rows\"}}".to_owned();
                return Err(SocketEnd::Close(close_code::POLICY, reason));
            }
        },
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(SocketEnd::Left),
    };
    if let Some(permit) = room.take() {
        permit.send(input);
    }
    Ok(())
}

fn unreachable_sandbox() -> SocketEnd {
    SocketEnd::Close(close_code::ERROR, "the sandbox can't be reached".to_owned())
}

fn resize(text: &str) -> Option<TerminalSize> {
    if text.len() > MAX_RESIZE_BYTES {
        return None;
    }
    let message: Value = serde_json::from_str(text).ok()?;
    let wanted = message.get("resize")?;
    size(wanted.get("columns")?.as_u64()?, wanted.get("rows")?.as_u64()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w22_only_sane_sizes_are_taken() {
        let taken = resize(r#"{"resize": {"columns": 123, "rows": 45}}"#);
        assert_eq!(taken, Some(TerminalSize { columns: 123, rows: 45 }));
        for text in [
            "",
            "x",
            "{}",
            r#"{"resize": {"columns": 0, "rows": 5}}"#,
            r#"{"resize": {"columns": 70000, "rows": 5}}"#,
        ] {
            assert_eq!(resize(text), None, "{text}");
        }
    }
}
