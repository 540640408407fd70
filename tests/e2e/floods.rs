//! Floods of one client against a whole server: what each took of its memory, and that the memory is bounded.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::yard::{PATIENCE, Yard};

/// Memory that a flood may take beside what the server had: the budgets of bodies and answers, 192 MiB together, the buffers of
/// connections, and what the allocator keeps. Each flood here took 1.5 to 4 GB of a server without budgets.
const FLOOD_KIB: u64 = 512 * 1024;

/// Memory of a server before a flood.
struct Watched<'a> {
    yard: &'a Yard,
    before_kib: u64,
}

impl<'a> Watched<'a> {
    async fn begin(yard: &'a Yard) -> Self {
        // The first requests fill caches that stay.
        yard.run_shell("true").await;
        Self { yard, before_kib: resident(yard, "VmRSS") }
    }

    /// Asserts that neither the present memory nor the most that there ever was is beyond the bound.
    fn assert_bounded(&self) {
        for line in ["VmRSS", "VmHWM"] {
            let now = resident(self.yard, line);
            let before = self.before_kib;
            eprintln!("{line} {before} KiB before, {now} KiB after");
            assert!(now < before + FLOOD_KIB, "{line} rose from {before} to {now} KiB");
        }
    }
}

/// A line of `/proc/PID/status` of the server, in KiB.
fn resident(yard: &Yard, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", yard.server_pid())).unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    found.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

async fn connect(yard: &Yard) -> TcpStream {
    TcpStream::connect(yard.url.trim_start_matches("http://")).await.unwrap()
}

async fn assert_healthy(yard: &Yard) {
    let health = tokio::time::timeout(Duration::from_secs(10), yard.get("/healthz")).await;
    assert_eq!(health.expect("no answer within 10 s").status(), StatusCode::OK);
}

#[tokio::test]
async fn f5_crowds_of_json_values_take_little_memory() {
    let yard = Yard::start().await;
    let watched = Watched::begin(&yard).await;
    let crowd = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":[{}0]}}"#,
        "0,".repeat(10 * 1024 * 1024 - 100)
    );
    for path in ["/mcp", "/schedule", "/mcp", "/schedule"] {
        // The largest body of `/schedule` is 16 MiB.
        let body = if path == "/mcp" { crowd.clone() } else { crowd[..15 * 1024 * 1024].to_owned() };
        let request = yard.client.post(format!("{}{path}", yard.url)).body(body);
        let request = request.header("content-type", "application/json");
        let refused = request.header("accept", "application/json, text/event-stream").send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
    assert_healthy(&yard).await;
    watched.assert_bounded();
}

/// Two hundred bodies of eight megabytes, each without its last byte: 1.6 GB if all were held.
#[tokio::test]
async fn f5_d4_unfinished_bodies_take_little_memory() {
    const BODY_BYTES: usize = 8 * 1024 * 1024;
    let yard = Yard::start().await;
    let watched = Watched::begin(&yard).await;
    let head = format!(
        "POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    );
    let body = bytes_of(head.as_bytes(), BODY_BYTES - 1);
    let mut senders = JoinSet::new();
    for _ in 0..200 {
        let (mut stream, body) = (connect(&yard).await, body.clone());
        senders.spawn(async move {
            // A refused client can't send everything.
            let _ = stream.write_all(&body).await;
            stream
        });
    }
    let mut open = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while let Ok(Some(stream)) = tokio::time::timeout_at(deadline.into(), senders.join_next()).await {
        open.push(stream.unwrap());
        assert_healthy(&yard).await;
    }
    assert_eq!(open.len(), 200, "some bodies are neither taken nor refused");
    watched.assert_bounded();
    drop(open);
    let status = yard.run_shell("echo others notice nothing").await;
    assert_eq!(status["stdout"], "others notice nothing\n");
}

fn bytes_of(head: &[u8], spaces: usize) -> std::sync::Arc<[u8]> {
    [head, &vec![b' '; spaces]].concat().into()
}

#[tokio::test]
async fn f6_half_sent_heads_take_little_memory() {
    let yard = Yard::start().await;
    let watched = Watched::begin(&yard).await;
    let mut half = Vec::new();
    for _ in 0..4200 {
        let mut stream = connect(&yard).await;
        // The server may close it while it is written.
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Padding: 0123456789").await;
        half.push(stream);
    }
    assert_healthy(&yard).await;
    watched.assert_bounded();
}

/// Three hundred clients ask for eight megabytes of output each, and take the first bytes: 2.4 GB if all were held.
#[tokio::test]
async fn d4_stalled_readers_of_output_take_little_memory() {
    let yard = Yard::start_with(&["--output-mib-s", "512"]).await;
    let watched = Watched::begin(&yard).await;
    let made = yard.run(&json!({"kind": "shell", "code": "yes | head -c 8000000"})).await;
    let id = made["job_id"].as_str().unwrap();
    let mut readers = Vec::new();
    for _ in 0..300 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let address = yard.url.trim_start_matches("http://").parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let head = format!("GET /jobs/{id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        readers.push(stream);
    }
    // One that reads gets everything meanwhile.
    assert_eq!(yard.logs(id, "stdout").await.len(), 8_000_000);
    assert_healthy(&yard).await;
    watched.assert_bounded();
}
