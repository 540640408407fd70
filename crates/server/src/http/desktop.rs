//! `/jobs/{id}/desktop/`: our own page around noVNC, and the WebSocket through which pixels reach it.
//!
//! The page says the same to everybody and knows nothing of the job; what it shows it asks for with a key or a ticket. The
//! socket carries the remote framebuffer protocol in binary frames. Towards the sandbox every message passes a filter, so a
//! viewer looks on whatever its page does; from the sandbox bytes are moved as they are, no faster than they are taken.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN};
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

use super::HttpState;
use super::failure::Answer;
use super::parts::{Job, query};

/// A client's frame: keys, pointer, clipboard text.
const FRAME_BYTES: usize = 2 * 1024 * 1024;
/// Pixels in one frame: a browser is woken for each.
const BUFFER: usize = 256 * 1024;
const PING: Duration = Duration::from_secs(20);
/// Three pings without any sign of life.
const SILENCE: Duration = Duration::from_secs(60);
/// What a client sends, on its way to the desktop. Few: the socket is not read on while they wait.
const INPUTS: usize = 4;
/// Close codes of our own: somebody else has control; the desktop can't be had.
const REFUSED: u16 = 4409;
const UNAVAILABLE: u16 = 4503;
/// The longest reason a close frame can hold.
const REASON_BYTES: usize = 120;

/// Scripts, styles, requests and pictures of this origin only; pictures also from memory, which is how pixels are decoded.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

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
pub(super) async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, sandyard_web::DESKTOP_HTML).into_response()
}

/// Leads to the page.
pub(super) async fn with_slash(uri: Uri) -> Response {
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
pub(super) async fn socket(
    State(state): State<HttpState>,
    Job(id): Job,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    check_origin(&headers)?;
    let query = query(&uri, &["control", "ticket"])?;
    let rights =
        if query.whole("control", 0..=1)? == Some(1) { ClientRights::Control } else { ClientRights::View };
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(ErrorCode::BadRequest, "this route is a WebSocket")
            .with_hint("open …/desktop/ in a browser")
    })?;
    let machine = state.machine(&id).await?;
    let stop = state.shutdown().clone();
    let mode = match rights {
        ClientRights::View => DesktopMode::View,
        ClientRights::Control => DesktopMode::Control { who: who(&headers) },
    };
    Ok(upgrade.protocols(["binary"]).max_message_size(FRAME_BYTES).max_frame_size(FRAME_BYTES).on_upgrade(
        move |mut socket| async move {
            // A page can't read a refused upgrade, so the refusal comes after it.
            let connected = tokio::select! {
                connected = machine.connect_desktop(mode) => connected,
                () = left(&mut socket) => return,
            };
            match connected {
                Ok(desktop) => Viewer::new(socket, desktop, rights).serve(stop).await,
                Err(error) => farewell(&mut socket, refusal(&error)).await,
            }
        },
    ))
}

/// Returns when the client leaves, or speaks before it was greeted.
async fn left(socket: &mut WebSocket) {
    while let Some(Ok(Message::Ping(_) | Message::Pong(_))) = socket.recv().await {}
}

/// Exactly this origin, port and all: a page of another server on this machine is a foreign one. Programs send none.
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

/// For others to be told: whether a page or a program, and since when.
fn who(headers: &HeaderMap) -> String {
    let what =
        if headers.contains_key(ORIGIN) { "a person in a browser" } else { "a person with a VNC client" };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (hour, minute) = (now / 3600 % 24, now / 60 % 60);
    format!("{what} (since {hour:02}:{minute:02} UTC)")
}

fn refusal(error: &MachineError) -> End {
    match error {
        MachineError::Guest(error) if error.code == GuestErrorCode::Controlled => {
            End::Close(REFUSED, error.message.clone())
        }
        MachineError::Guest(error) => End::Close(UNAVAILABLE, error.message.clone()),
        other => End::Close(UNAVAILABLE, other.to_string()),
    }
}

/// Why a view ends.
enum End {
    /// The client left, or broke the rules of WebSockets.
    Left,
    /// To be told with this close frame.
    Close(u16, String),
}

async fn farewell(socket: &mut WebSocket, end: End) {
    let End::Close(code, reason) = end else { return };
    let mut length = reason.len().min(REASON_BYTES);
    while !reason.is_char_boundary(length) {
        length -= 1;
    }
    let frame = CloseFrame { code, reason: reason[..length].to_owned().into() };
    // A client that is gone already needs no farewell.
    let _ = tokio::time::timeout(PING, socket.send(Message::Close(Some(frame)))).await;
}

struct Viewer {
    socket: WebSocket,
    desktop: ReadHalf<PortStream>,
    filter: ClientFilter,
    inputs: mpsc::Sender<Vec<u8>>,
    /// Writes to the desktop beside the reading of it, or a desktop that does not read would block both.
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
        let (inputs, receiver) = mpsc::channel(INPUTS);
        let writer = AbortOnDropHandle::new(tokio::spawn(write_inputs(writer, receiver)));
        Self { socket, desktop: reader, filter: ClientFilter::new(rights), inputs, _writer: writer }
    }

    async fn serve(mut self, stop: CancellationToken) {
        let end = tokio::select! {
            end = self.exchange() => end,
            () = stop.cancelled() => End::Close(close_code::AWAY, "the server stops; the desktop goes on".to_owned()),
        };
        farewell(&mut self.socket, end).await;
    }

    async fn exchange(&mut self) -> End {
        let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
        let mut heard = Instant::now();
        let mut buffer = vec![0; BUFFER];
        let inputs = self.inputs.clone();
        let mut room = None;
        loop {
            let step = tokio::select! {
                count = self.desktop.read(&mut buffer) => match count {
                    Ok(count @ 1..) => self.send(Message::Binary(Bytes::copy_from_slice(&buffer[..count]))).await,
                    _ => Err(End::Close(close_code::AWAY, "the desktop ended".to_owned())),
                },
                permit = inputs.reserve(), if room.is_none() => {
                    heard = Instant::now();
                    room = permit.ok();
                    if room.is_some() { Ok(()) } else { Err(End::Close(UNAVAILABLE, "the desktop is gone".to_owned())) }
                }
                message = self.socket.recv(), if room.is_some() => {
                    heard = Instant::now();
                    take(&mut self.filter, message, &mut room)
                }
                _ = ping.tick() => self.ping(heard).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn ping(&mut self, heard: Instant) -> Result<(), End> {
        if heard.elapsed() > SILENCE {
            return Err(End::Left);
        }
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        // A client that takes nothing for so long is gone, and may hold control.
        match tokio::time::timeout(SILENCE, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Left),
        }
    }
}

/// Passes on what the filter lets through, using the room that was reserved for it.
fn take(
    filter: &mut ClientFilter,
    message: Option<Result<Message, axum::Error>>,
    room: &mut Option<mpsc::Permit<'_, Vec<u8>>>,
) -> Result<(), End> {
    let bytes = match message {
        Some(Ok(Message::Binary(bytes))) => bytes,
        Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
        Some(Ok(Message::Text(_))) => {
            return Err(End::Close(close_code::UNSUPPORTED, "only binary frames are taken".to_owned()));
        }
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Left),
    };
    let mut passed = Vec::new();
    filter.take(&bytes, &mut passed).map_err(|error| End::Close(close_code::POLICY, error.to_string()))?;
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

    #[test]
    fn w7_the_page_is_strict_and_says_nothing_of_a_job() {
        assert!(POLICY.contains("default-src 'none'") && POLICY.contains("frame-ancestors 'none'"));
        assert!(!POLICY.contains("unsafe"));
    }
}
