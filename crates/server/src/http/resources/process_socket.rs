//! A WebSocket on a process of a sandbox.
//!
//! The server begins with `{"process": "p1-2", "offset": 0}`. Binary frames are bytes, both ways: standard output, which is everything on
//! a terminal, and standard input. Text frames are JSON: the client sends `{"resize": {"columns": 120, "rows": 40}}`; the server sends
//! `{"stderr": {"offset", "text"}}`, `{"lost": 12}` for bytes that are no longer kept, and ends with `{"exit": {"code": 0}}`. A client
//! that comes back counts the binary bytes and the lost ones, and asks for what follows. Every frame is bounded, the client is
//! pinged, and neither side is read faster than the other takes it.

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use sandyard_api::{ApiError, ErrorCode, OutputText, Query};
use sandyard_protocol::{OutputChunk, OutputStream, TerminalSize};
use sandyard_sandbox::machine::{FromProcess, MachineError, ProcessControl, ProcessReader, ProcessStream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::http::response::socket::{self, INPUT_QUEUE, PING_INTERVAL, SocketEnd};

/// Longest frame of a client: pasted text fits, a flood does not.
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// Longest text frame: a size. Parsed JSON takes many times the memory of its text.
const MAX_RESIZE_BYTES: usize = 256;

/// The upgrade of a request, or the refusal of one that asks for none.
pub(super) fn upgrade(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, ApiError> {
    upgrade.map_err(|_| bad("this route is a WebSocket").with_hint("POST runs a single command"))
}

/// The size of a terminal in a query, if it names one. The usual value stands for the member that is not there.
pub(super) fn size_of(query: &Query) -> Result<Option<TerminalSize>, ApiError> {
    let (columns, rows) = (query.whole("columns", 1..=1000)?, query.whole("rows", 1..=1000)?);
    if columns.is_none() && rows.is_none() {
        return Ok(None);
    }
    let size = size(columns.unwrap_or(80), rows.unwrap_or(24));
    size.map(Some).ok_or_else(|| bad("a terminal has 1 to 1000 columns and rows"))
}

/// Serves a process on a socket until one of them ends. `offset` is where its output begins.
pub(super) fn serve(
    upgrade: WebSocketUpgrade,
    process: ProcessStream,
    offset: u64,
    stop: CancellationToken,
) -> Response {
    upgrade
        .max_message_size(MAX_FRAME_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .on_upgrade(move |socket| ProcessSocket::new(socket, process, offset).serve(stop))
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

struct ProcessSocket {
    socket: WebSocket,
    reader: ProcessReader,
    offset: u64,
    inputs: mpsc::Sender<TerminalFrame>,
    /// Writes to the process while it is read, or a long paste into a program that prints would block both directions.
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

impl ProcessSocket {
    fn new(socket: WebSocket, process: ProcessStream, offset: u64) -> Self {
        let (reader, control) = process.split();
        let (inputs, receiver) = mpsc::channel(INPUT_QUEUE);
        let writer = AbortOnDropHandle::new(tokio::spawn(write_inputs(control, receiver)));
        Self { socket, reader, offset, inputs, _writer: writer }
    }

    async fn serve(mut self, stop: CancellationToken) {
        // The server's stop must not wait for a terminal. Cancelling the exchange loses at most the output that is being sent, which
        // the client asks for when it comes back.
        let end = tokio::select! {
            end = self.exchange() => end,
            () = stop.cancelled() => SocketEnd::Close(close_code::AWAY, "the server stops; the process goes on".to_owned()),
        };
        socket::close(&mut self.socket, end).await;
    }

    async fn exchange(&mut self) -> SocketEnd {
        let began = json!({"process": self.reader.info().id.0, "offset": self.offset});
        if let Err(end) = self.tell(&began).await {
            return end;
        }
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        let mut heard = Instant::now();
        let inputs = self.inputs.clone();
        let mut room = None;
        loop {
            // A client's frame is only read once there is room to pass it on, so a process that does not read slows its client
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
            Ok(FromProcess::Output(OutputChunk { stream: OutputStream::Stdout, bytes, .. })) => {
                socket::send(&mut self.socket, Message::Binary(bytes)).await
            }
            Ok(FromProcess::Output(OutputChunk { stream: OutputStream::Stderr, offset, bytes })) => {
                self.tell(&json!({"stderr": OutputText::new(offset, &bytes)})).await
            }
            Ok(FromProcess::Lost(bytes)) => self.tell(&json!({"lost": bytes})).await,
            Ok(FromProcess::Exited(exit)) => {
                self.tell(&json!({"exit": {"code": exit.code}})).await?;
                Err(SocketEnd::Close(close_code::NORMAL, "the process ended".to_owned()))
            }
            Err(error @ MachineError::Finishing) => {
                Err(SocketEnd::Close(close_code::AWAY, error.to_string()))
            }
            Err(_) => Err(unreachable_sandbox()),
        }
    }

    async fn tell(&mut self, notice: &Value) -> Result<(), SocketEnd> {
        socket::send(&mut self.socket, Message::Text(notice.to_string().into())).await
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
