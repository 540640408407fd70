//! The page inside the machine: a page around noVNC on loopback, and its WebSocket to the X server.
//!
//! A listener costs nothing until a client connects. A client is the job's or was let in by it: each request is bounded,
//! and control is taken through the same lock as from outside.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use sandyard_protocol::DesktopMode;
use sandyard_protocol::rfb::{ClientFilter, ClientRights};
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::display::DesktopPlaces;
use super::viewers::Viewers;
use crate::keeper::core::KeeperCore;

/// Connections at once; more wait.
const CONNECTIONS: usize = 16;
/// A request's head: a few lines.
const HEAD_BYTES: usize = 8 * 1024;
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// A page's frame to the desktop: keys, pointer, clipboard text.
const FRAME_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of pixels in one frame.
const BUFFER: usize = 64 * 1024;
/// The server's own code for "somebody else has control".
const REFUSED: u16 = 4409;
/// The GUID of the WebSocket handshake, from RFC 6455.
const HANDSHAKE: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Serves for as long as keeper lives.
pub(super) async fn serve(core: Arc<KeeperCore>, viewers: Arc<Viewers>, places: DesktopPlaces) {
    // If the job has taken the port, there is no page; the desktop can still be reached from outside.
    let Ok(listener) = TcpListener::bind(("127.0.0.1", places.port)).await else { return };
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let viewers = viewers.clone();
        core.tasks.spawn(async move {
            let _turn = turn;
            let _ = answer(&viewers, stream).await;
        });
    }
}

async fn answer(viewers: &Arc<Viewers>, mut stream: TcpStream) -> std::io::Result<()> {
    let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let (kind, body) = match path {
        "/" => ("text/html; charset=utf-8", sandyard_web::DESKTOP_HTML),
        "/assets/desktop.css" => ("text/css; charset=utf-8", sandyard_web::DESKTOP_CSS),
        "/assets/desktop.js" => ("text/javascript; charset=utf-8", sandyard_web::DESKTOP_JS),
        "/socket" | "/websockify" => return upgrade(viewers, stream, &head, query).await,
        _ => return refuse(&mut stream, "404 Not Found").await,
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncontent-security-policy: {POLICY}\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn refuse(stream: &mut TcpStream, status: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}

/// The target and the WebSocket key of a request.
#[derive(Debug, PartialEq, Eq)]
struct PageRequestHead {
    target: String,
    key: Option<String>,
}

/// Reads up to the empty line, byte by byte: bytes after it belong to the WebSocket and must stay in the stream.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<Option<PageRequestHead>> {
    let mut bytes = Vec::new();
    let reading = async {
        while !bytes.ends_with(b"\r\n\r\n") && bytes.len() < HEAD_BYTES {
            bytes.push(stream.read_u8().await?);
        }
        Ok::<_, std::io::Error>(())
    };
    match tokio::time::timeout(HEAD_DEADLINE, reading).await {
        Ok(read) => read?,
        Err(_) => return Ok(None),
    }
    let head = parse(&String::from_utf8_lossy(&bytes));
    if head.is_none() {
        refuse(stream, "400 Bad Request").await?;
    }
    Ok(head)
}

fn parse(text: &str) -> Option<PageRequestHead> {
    let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (Some("GET"), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
    };
    Some(PageRequestHead { target: target.to_owned(), key: lines.find_map(field) })
}

async fn upgrade(
    viewers: &Arc<Viewers>,
    mut stream: TcpStream,
    head: &PageRequestHead,
    query: &str,
) -> std::io::Result<()> {
    let Some(key) = &head.key else { return refuse(&mut stream, "400 Bad Request").await };
    let accept = STANDARD.encode(Sha1::digest(format!("{key}{HANDSHAKE}").as_bytes()));
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    let bounds =
        WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES));
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(bounds)).await;
    let controls = query.split('&').any(|pair| pair == "control=1");
    let mode = match controls {
        true => DesktopMode::Control { who: "a viewer inside the sandbox".to_owned() },
        false => DesktopMode::View,
    };
    let rights = if controls { ClientRights::Control } else { ClientRights::View };
    match viewers.enter(&mode).await {
        Ok((server, _seat)) => exchange(&mut socket, server, ClientFilter::new(rights)).await,
        Err(error) => {
            let reason: String = error.to_string().chars().take(40).collect();
            let farewell = CloseFrame { code: CloseCode::from(REFUSED), reason: reason.into() };
            let _ = socket.close(Some(farewell)).await;
        }
    }
    Ok(())
}

/// Both directions until either side leaves or breaks the rules.
async fn exchange(
    socket: &mut WebSocketStream<TcpStream>,
    server: tokio::net::UnixStream,
    mut filter: ClientFilter,
) {
    let (mut sink, mut source) = socket.split();
    let (mut reader, mut writer) = server.into_split();
    let downward = async {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            let pixels = Message::binary(buffer[..count].to_vec());
            if sink.send(pixels).await.is_err() {
                return;
            }
        }
    };
    let upward = async {
        let mut passed = Vec::new();
        while let Some(Ok(message)) = source.next().await {
            let Message::Binary(bytes) = message else { continue };
            passed.clear();
            // Filtered in keeper: a page that may only look must not be trusted to send no input.
            if filter.take(&bytes, &mut passed).is_err() || writer.write_all(&passed).await.is_err() {
                return;
            }
        }
    };
    // The first direction to end closes both. Cancelling the other may cut a message, but both sockets close then. Each has a buffer
    // of its own, so pixels do not hold back input.
    tokio::select! {
        () = downward => {}
        () = upward => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_one_plain_get() {
        let head = parse("GET /socket?control=1 HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key:  k \r\n\r\n");
        assert_eq!(head, Some(PageRequestHead { target: "/socket?control=1".into(), key: Some("k".into()) }));
        for text in
            ["", "GET /", "POST / HTTP/1.1\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
