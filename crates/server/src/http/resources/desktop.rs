//! `/jobs/{id}/desktop/`: our own page around noVNC, and the WebSocket through which pixels reach it.
//!
//! The page is the same for everybody and knows nothing of the job; it asks for pixels with a key or a ticket. The socket
//! carries the remote framebuffer protocol in binary frames. Towards the sandbox every message passes a filter, so a viewer
//! can only look, whatever its page does; bytes of the sandbox are passed on unchanged, no faster than the client takes them.

use std::time::SystemTime;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use sandyard_api::{ApiError, ErrorBody, ErrorCode};
use sandyard_protocol::rfb::{ClientFilter, ClientRights};
use sandyard_protocol::{DesktopMode, GuestErrorCode};
use sandyard_sandbox::machine::{MachineError, PortStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;
use crate::http::response::socket::{self, INPUT_QUEUE, PING_INTERVAL, SocketEnd};
use crate::http::{HttpState, pages};

/// Longest frame of a client: keys, pointer, clipboard text.
const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of pixels in one frame. A browser wakes up for each frame.
const BUFFER_BYTES: usize = 256 * 1024;
/// Close codes of our own: somebody else has control; the desktop is not available.
const CONTROLLED_CLOSE_CODE: u16 = 4409;
const UNAVAILABLE_CLOSE_CODE: u16 = 4503;

/// The desktop in a browser: waits for it, shows it, or shows the last picture of it. `?control=1` takes control.
#[utoipa::path(
    get, path = "/jobs/{id}/desktop/", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("control" = Option<u8>, Query, description = "1 takes control"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"))
)]
pub(in crate::http) async fn page(headers: HeaderMap) -> HttpAnswer {
    pages::desktop(&headers)
}

/// Redirects to the page.
pub(in crate::http) async fn with_slash(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Redirect::permanent(&format!("{}/{query}", uri.path())).into_response()
}

/// The desktop as the remote framebuffer protocol (VNC) in binary frames. Without `control=1` keys, pointer and clipboard of
/// the client are dropped; with it the client has control until it leaves. Closes with 4409 while somebody else has it.
#[utoipa::path(
    get, path = "/jobs/{id}/desktop/socket", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("control" = Option<u8>, Query, description = "1 takes control"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 101, description = "A WebSocket"),
        (status = 400, description = "Not a WebSocket request", body = ErrorBody),
        (status = 403, description = "From a page of another origin", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn socket(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HttpAnswer {
    check_origin(&headers)?;
    let query = query(&uri, &["control", "ticket", "wait"])?;
    let rights =
        if query.whole("control", 0..=1)? == Some(1) { ClientRights::Control } else { ClientRights::View };
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(ErrorCode::BadRequest, "this route is a WebSocket")
            .with_hint("open …/desktop/ in a browser")
    })?;
    let machine = state.machine(&job).await?;
    let stop = state.shutdown().clone();
    let mode = match rights {
        ClientRights::View => DesktopMode::View,
        ClientRights::Control => DesktopMode::Control { who: who(&headers) },
    };
    Ok(upgrade
        .protocols(["binary"])
        .max_message_size(MAX_FRAME_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .on_upgrade(move |mut socket| async move {
            // A page can't read a refused upgrade, so the refusal comes after it.
            // A client that leaves must not hold a connection attempt. Cancelling it drops the half-open desktop stream.
            let connected = tokio::select! {
                connected = machine.connect_desktop(mode) => connected,
                () = left(&mut socket) => return,
            };
            match connected {
                Ok(desktop) => Viewer::new(socket, desktop, rights).serve(stop).await,
                Err(error) => socket::close(&mut socket, refusal(&error)).await,
            }
        }))
}

/// Returns when the client leaves, or sends data before the desktop is connected.
async fn left(socket: &mut WebSocket) {
    while let Some(Ok(Message::Ping(_) | Message::Pong(_))) = socket.recv().await {}
}

/// Accepts exactly this origin with its port: a page of another server on this machine is foreign. Programs send none.
fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own = |origin: &str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
    };
    if headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(own)) {
        Ok(())
    } else {
        Err(ApiError::new(ErrorCode::ForeignOrigin, "pages of other origins may not open a desktop"))
    }
}

/// The holder of control, as others see it: a page or a program, and since when.
fn who(headers: &HeaderMap) -> String {
    let what =
        if headers.contains_key(ORIGIN) { "a person in a browser" } else { "a person with a VNC client" };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (hour, minute) = (now / 3600 % 24, now / 60 % 60);
    format!("{what} (since {hour:02}:{minute:02} UTC)")
}

fn refusal(error: &MachineError) -> SocketEnd {
    match error {
        MachineError::Guest(error) if error.code == GuestErrorCode::Controlled => {
            SocketEnd::Close(CONTROLLED_CLOSE_CODE, error.message.clone())
        }
        MachineError::Guest(error) => SocketEnd::Close(UNAVAILABLE_CLOSE_CODE, error.message.clone()),
        other => SocketEnd::Close(UNAVAILABLE_CLOSE_CODE, other.to_string()),
    }
}

struct Viewer {
    socket: WebSocket,
    desktop: ReadHalf<PortStream>,
    filter: ClientFilter,
    inputs: mpsc::Sender<Vec<u8>>,
    /// Writes to the desktop while it is read, or a desktop that does not read would block both directions.
    _writer: AbortOnDropHandle<()>,
}

async fn write_inputs(mut desktop: WriteHalf<PortStream>, mut inputs: mpsc::Receiver<Vec<u8>>) {
    while let Some(input) = inputs.recv().await {
        if desktop.write_all(&input).await.is_err() {
            return;
        }
    }
}

impl Viewer {
    fn new(socket: WebSocket, desktop: PortStream, rights: ClientRights) -> Self {
        let (reader, writer) = tokio::io::split(desktop);
        let (inputs, receiver) = mpsc::channel(INPUT_QUEUE);
        let writer = AbortOnDropHandle::new(tokio::spawn(write_inputs(writer, receiver)));
        Self { socket, desktop: reader, filter: ClientFilter::new(rights), inputs, _writer: writer }
    }

    async fn serve(mut self, stop: CancellationToken) {
        // The server's stop must not wait for a viewer. Cancelling the exchange loses at most a frame of pixels; the desktop
        // continues without its viewer.
        let end = tokio::select! {
            end = self.exchange() => end,
            () = stop.cancelled() => SocketEnd::Close(close_code::AWAY, "the server stops; the desktop goes on".to_owned()),
        };
        socket::close(&mut self.socket, end).await;
    }

    async fn exchange(&mut self) -> SocketEnd {
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        let mut heard = Instant::now();
        let mut buffer = vec![0; BUFFER_BYTES];
        let inputs = self.inputs.clone();
        let mut room = None;
        loop {
            // A client's frame is only read once there is room to pass it on, so a desktop that does not read slows its client
            // down, while pixels and pings continue. The ping must not starve: it finds clients that are gone. Cancelling loses
            // nothing: a permit that was reserved is kept in `room`, and socket and desktop keep unread bytes.
            let step = tokio::select! {
                count = self.desktop.read(&mut buffer) => match count {
                    Ok(count @ 1..) => socket::send(&mut self.socket, Message::Binary(Bytes::copy_from_slice(&buffer[..count]))).await,
                    _ => Err(SocketEnd::Close(close_code::AWAY, "the desktop ended".to_owned())),
                },
                permit = inputs.reserve(), if room.is_none() => {
                    heard = Instant::now();
                    room = permit.ok();
                    if room.is_some() { Ok(()) } else { Err(SocketEnd::Close(UNAVAILABLE_CLOSE_CODE, "the desktop is gone".to_owned())) }
                }
                message = self.socket.recv(), if room.is_some() => {
                    heard = Instant::now();
                    take(&mut self.filter, message, &mut room)
                }
                _ = ping.tick() => socket::ping(&mut self.socket, heard).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }
}

/// Passes on the bytes that the filter accepts, using the room that was reserved for them.
fn take(
    filter: &mut ClientFilter,
    message: Option<Result<Message, axum::Error>>,
    room: &mut Option<mpsc::Permit<'_, Vec<u8>>>,
) -> Result<(), SocketEnd> {
    let bytes = match message {
        Some(Ok(Message::Binary(bytes))) => bytes,
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
        Some(Ok(Message::Text(_))) => {
            return Err(SocketEnd::Close(close_code::UNSUPPORTED, "only binary frames are taken".to_owned()));
        }
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(SocketEnd::Left),
    };
    let mut passed = Vec::new();
    filter
        .take(&bytes, &mut passed)
        .map_err(|error| SocketEnd::Close(close_code::POLICY, error.to_string()))?;
    if !passed.is_empty()
        && let Some(permit) = room.take()
    {
        permit.send(passed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn w8_a_socket_is_opened_by_its_own_origin_only() {
        let check = |origins: &[&'static str]| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:8000"))]);
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            check_origin(&headers).is_ok()
        };
        assert!(check(&[]) && check(&["http://localhost:8000"]) && check(&["https://localhost:8000"]));
        for origin in [
            "null",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:8000",
            "http://6080-abc.localhost:8000",
            "http://evil.example",
        ] {
            assert!(!check(&[origin]), "{origin}");
        }
        assert!(!check(&["http://localhost:8000", "http://evil.example"]));
        assert!(
            check_origin(&HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://"))])).is_err()
        );
    }
}
