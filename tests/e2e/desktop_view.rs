//! Viewers of a desktop: who sees, who acts, who is refused, and what a hostile server inside can do to us.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::desktop::{gui, keeper_pid, until, window};
use crate::origins::{browse, finish, full_yard, modules, root};
use crate::yard::{PATIENCE, Yard};

/// A VNC client, as small as can be.
pub(crate) struct Viewer {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    buffer: Vec<u8>,
}

/// How a connection ended before the desktop was there.
#[derive(Debug)]
pub(crate) struct Closed {
    code: u16,
    reason: String,
}

impl Viewer {
    pub(crate) async fn open(yard: &Yard, id: &str, query: &str) -> Self {
        let url = format!("{}/jobs/{id}/desktop/socket{query}", yard.url.replace("http://", "ws://"));
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        Self { socket, buffer: Vec::new() }
    }

    pub(crate) async fn connect(yard: &Yard, id: &str, query: &str) -> Result<Self, Closed> {
        let mut viewer = Self::open(yard, id, query).await;
        viewer.take(12).await?;
        viewer.send(b"RFB 003.008\n").await;
        assert_eq!(viewer.take(2).await?, [1, 1], "no password, nothing else");
        viewer.send(&[1]).await;
        assert_eq!(viewer.take(4).await?, [0; 4]);
        viewer.send(&[0]).await;
        let init = viewer.take(24).await?;
        let name = u32::from_be_bytes(init[20..24].try_into().unwrap()) as usize;
        viewer.take(name).await?;
        Ok(viewer)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).await.unwrap();
    }

    pub(crate) async fn take(&mut self, count: usize) -> Result<Vec<u8>, Closed> {
        while self.buffer.len() < count {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("silence");
            match message {
                Some(Ok(Message::Binary(bytes))) => self.buffer.extend_from_slice(&bytes),
                Some(Ok(Message::Close(frame))) => {
                    let (code, reason) = frame
                        .map_or((0, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                    return Err(Closed { code, reason });
                }
                Some(Ok(_)) => {}
                _ => return Err(Closed { code: 0, reason: "the connection broke".into() }),
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// The whole screen once; returns how many bytes of pixels came.
    pub(crate) async fn look(&mut self) -> usize {
        self.send(&[2, 0, 0, 1, 0, 0, 0, 0]).await;
        self.send(&[3, 0, 0, 0, 0, 0, 0x05, 0x00, 0x03, 0x20]).await;
        let mut bytes = 0;
        let head = self.take(4).await.unwrap();
        for _ in 0..u16::from_be_bytes([head[2], head[3]]) {
            let rectangle = self.take(12).await.unwrap();
            let side = |at: usize| usize::from(u16::from_be_bytes([rectangle[at], rectangle[at + 1]]));
            bytes += self.take(side(4) * side(6) * 4).await.unwrap().len();
        }
        bytes
    }

    async fn type_text(&mut self, text: &str) {
        for letter in text.bytes() {
            let key = if letter == b'\n' { 0xff0d } else { u32::from(letter) };
            for down in [1, 0] {
                let mut message = vec![4, down, 0, 0];
                message.extend_from_slice(&key.to_be_bytes());
                self.send(&message).await;
            }
        }
    }

    async fn click(&mut self, x: u16, y: u16) {
        for buttons in [0, 1, 0] {
            let mut message = vec![5, buttons];
            message.extend_from_slice(&x.to_be_bytes());
            message.extend_from_slice(&y.to_be_bytes());
            self.send(&message).await;
        }
    }
}

#[tokio::test]
async fn viewers_look_on_and_one_person_controls() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    yard.shell(&id, "xterm -geometry 80x24+100+100 >/dev/null 2>&1 & disown").await;
    window(&yard, &id, "xterm").await;
    let mut viewer = Viewer::connect(&yard, &id, "").await.unwrap();
    assert!(viewer.look().await >= 1280 * 800 * 4);
    viewer.click(200, 200).await;
    viewer.type_text("touch by-viewer\n").await;
    assert!(viewer.look().await > 0, "what was dropped did not confuse the stream");

    let mut person = Viewer::connect(&yard, &id, "?control=1").await.unwrap();
    person.click(200, 200).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    person.type_text("touch by-person\n").await;
    until(&yard, &id, "test -e by-person").await;
    assert_eq!(yard.shell(&id, "test -e by-viewer").await["exit_code"], 1, "a viewer typed");

    // Nobody takes it from them: neither a second person nor the agent. Looking goes on.
    let refused = Viewer::connect(&yard, &id, "?control=1").await.err().unwrap();
    assert_eq!(refused.code, 4409, "{refused:?}");
    assert!(refused.reason.starts_with("a person with a VNC client (since "), "{refused:?}");
    let act = json!({"actions": [{"type": "key", "keys": "a"}]});
    let response = yard.post(&format!("/jobs/{id}/gui"), &act).await;
    assert_eq!(response.status(), 409);
    let body: serde_json::Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "desktop_controlled", "{body}");
    gui(&yard, &id, json!([{"type": "windows"}, {"type": "screenshot"}])).await;

    // Given back when they leave, and those who wait go on.
    let waiting = json!({"actions": [{"type": "key", "keys": "Return"}], "wait_s": 60});
    let waiter = yard.client.post(format!("{}/jobs/{id}/gui", yard.url)).json(&waiting).send();
    let waiter = tokio::spawn(waiter);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiter.is_finished());
    drop(person);
    assert_eq!(tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap().status(), 200);
    assert!(viewer.look().await > 0, "the first viewer was sent away");
}

#[tokio::test]
async fn w7_w8_w16_a_socket_is_opened_as_its_page_would_be() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    let address = format!("{}/jobs/{id}/desktop/socket", yard.url.replace("http://", "ws://"));
    let try_open = async |query: &str, origin: Option<&str>| {
        let mut request = format!("{address}{query}").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok(_) => 101,
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => response.status().as_u16(),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(try_open("", None).await, 101);
    assert_eq!(try_open("", Some(&yard.url)).await, 101);
    for origin in ["http://evil.example", "null", "http://localhost:1", "http://6080-abc.localhost:8000"] {
        assert_eq!(try_open("", Some(origin)).await, 403, "{origin}");
    }
    let ticket = yard.post_json(&format!("/jobs/{id}/tickets"), &json!({"for": "desktop"})).await;
    let url = ticket["url"].as_str().unwrap();
    let query = url.split_once('?').unwrap().1;
    assert!(url.starts_with(&format!("/jobs/{id}/desktop/?ticket=")), "{url}");
    // The page does not use it up; the socket does, once.
    assert_eq!(yard.get(url).await.status(), 200);
    assert_eq!(try_open(&format!("?{query}"), None).await, 101);
    assert_eq!(try_open(&format!("?{query}"), None).await, 401);
    assert_eq!(try_open("?ticket=made-up", None).await, 401);
    assert_eq!(yard.get(&format!("/jobs/{id}/desktop/socket")).await.status(), 400);
    let page = yard.get(&format!("/jobs/{id}/desktop/")).await;
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let hidden = query.split_once('=').unwrap().1;
    assert!(!yard.log().contains(hidden), "the ticket is in the log");
}

/// What answers in the X server's place: garbage, claims of huge lengths, silence, a flood.
const HOSTILE: &str = r#"
import os, socket, sys, threading, time
path = "/tmp/.sandyard/rfb"
try: os.unlink(path)
except FileNotFoundError: pass
server = socket.socket(socket.AF_UNIX); server.bind(path); os.chmod(path, 0o666); server.listen(64)
open("/tmp/ready-" + sys.argv[1], "w").close()
def serve(peer):
    kind = sys.argv[1]
    try:
        if kind == "garbage": peer.sendall(os.urandom(1 << 20))
        elif kind == "silence": time.sleep(600)
        elif kind == "huge":
            peer.sendall(b"RFB 003.008\n\x01\x01" + b"\0" * 4)
            peer.sendall(b"\xff\xff\xff\xff" + b"\0" * 16 + b"\xff\xff\xff\xff" + b"name")
            peer.sendall(b"\x03\0\0\0\x7f\xff\xff\xff" + b"x" * (1 << 20)); time.sleep(600)
        elif kind == "flood":
            while True: peer.sendall(b"\0" * (1 << 20))
    except OSError: pass
while True:
    peer, _ = server.accept()
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
"#;

fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default().to_owned();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_hostile_server_inside_costs_its_viewers_alone() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    gui(&yard, &id, json!([{"type": "windows"}])).await;
    let put = yard
        .client
        .put(format!("{}/jobs/{id}/files/hostile.py", yard.url))
        .body(HOSTILE)
        .send()
        .await
        .unwrap();
    assert!(put.status().is_success());
    let (keeper, server) = (keeper_pid(&yard), i32::try_from(yard.server_pid()).unwrap());
    let (keeper_before, server_before) = (resident_kib(keeper), resident_kib(server));
    for kind in ["garbage", "huge", "flood", "silence"] {
        yard.shell(
            &id,
            &format!(
                "kill $(cat /tmp/pid); python3 hostile.py {kind} >/dev/null 2>&1 & echo $! > /tmp/pid; disown"
            ),
        )
        .await;
        until(&yard, &id, &format!("test -e /tmp/ready-{kind}")).await;
        let mut viewers = Vec::new();
        for number in 0..8 {
            let mut viewer = Viewer::open(&yard, &id, if number == 0 { "?control=1" } else { "" }).await;
            if kind != "silence" {
                let _ = viewer.take(64).await;
            }
            viewers.push(viewer);
        }
        // Nobody reads on: what the server sends stays with it.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(keeper_pid(&yard), keeper, "{kind}: keeper died");
        let (keeper_now, server_now) = (resident_kib(keeper), resident_kib(server));
        assert!(
            keeper_now < keeper_before + 24 * 1024,
            "{kind}: keeper grew from {keeper_before} to {keeper_now} KiB"
        );
        assert!(
            server_now < server_before + 96 * 1024,
            "{kind}: the server grew from {server_before} to {server_now} KiB"
        );
        drop(viewers);
        assert_eq!(yard.shell(&id, "echo alive").await["stdout"], "alive\n", "{kind}");
        gui(&yard, &id, json!([{"type": "screenshot"}])).await;
    }
    // A link to keeper's own socket leads nowhere.
    yard.shell(&id, "kill $(cat /tmp/pid); ln -sf /run/sandyard/pipe.sock /tmp/.sandyard/rfb").await;
    let refused = Viewer::connect(&yard, &id, "").await.err().unwrap();
    assert_eq!(refused.code, 4503, "{refused:?}");
    // Control came back with those who held it.
    gui(&yard, &id, json!([{"type": "move", "x": 1, "y": 1}])).await;
}

#[tokio::test]
async fn a_hostile_display_can_not_hold_or_bloat_keeper() {
    let Some(yard) = full_yard(&[]).await else { return };
    let id = yard.session().await;
    gui(&yard, &id, json!([{"type": "windows"}])).await;
    let display = HOSTILE.replace("/tmp/.sandyard/rfb", "/tmp/.X11-unix/X1");
    yard.client.put(format!("{}/jobs/{id}/files/hostile.py", yard.url)).body(display).send().await.unwrap();
    let keeper = keeper_pid(&yard);
    let before = resident_kib(keeper);
    for kind in ["garbage", "flood"] {
        // The worker that is connected already would not notice: it rests, or dies with its display.
        yard.shell(&id, &format!("kill $(cat /tmp/pid); pkill -9 -f '^sandyard-guest desktop'; python3 hostile.py {kind} >/dev/null 2>&1 & echo $! > /tmp/pid; disown")).await;
        until(&yard, &id, &format!("test -e /tmp/ready-{kind}")).await;
        let began = Instant::now();
        let answer =
            yard.post(&format!("/jobs/{id}/gui"), &json!({"actions": [{"type": "screenshot"}]})).await;
        let text = answer.text().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "{kind}: {:?}", began.elapsed());
        assert!(
            text.contains("error") || text.contains("base64"),
            "{kind}: {}",
            &text[..text.len().min(300)]
        );
        assert_eq!(keeper_pid(&yard), keeper);
        assert!(
            resident_kib(keeper) < before + 16 * 1024,
            "{kind}: {before} to {} KiB",
            resident_kib(keeper)
        );
    }
}

#[tokio::test]
async fn a_real_vnc_client_sees_and_acts_through_open_vnc() {
    let Some(yard) = full_yard(&["clients"]).await else { return };
    let id = yard.session().await;
    yard.shell(&id, "xterm -geometry 80x24+100+100 >/dev/null 2>&1 & disown").await;
    window(&yard, &id, "xterm").await;
    let mut forward = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["--url", &yard.url, "open", "vnc", &id, "--control"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let port = line.strip_prefix("vnc://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
    let python = modules("clients").await.unwrap().join("bin/python");
    let mut client = Command::new(python);
    client.arg(root().join("tests/clients/vnc.py")).arg(port);
    finish(client).await;
    assert_eq!(until(&yard, &id, "cat by-vnc").await, "vnc\n");
    let shot = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["--url", &yard.url, "screenshot", &id, "-"])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(crate::desktop::decode(&shot.stdout).0, 1280);
    let link = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["--url", &yard.url, "open", "desktop", &id, "--control", "--no-browser"])
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&link.stdout), format!("{}/jobs/{id}/desktop/?control=1\n", yard.url));
}

#[tokio::test]
async fn the_page_waits_shows_the_desktop_and_its_last_picture() {
    let Some(yard) = full_yard(&["browser"]).await else { return };
    let id = yard.session().await;
    browse(&yard, "desktop.mjs", &[&id]).await;
}
