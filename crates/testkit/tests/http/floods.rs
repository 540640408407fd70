//! Slow and greedy clients: each costs its own connection only.

use std::time::Duration;

use sandyard_server::app::WithOutput;
use sandyard_server::http::ServeLimits;
use sandyard_server::job::JobId;
use sandyard_testkit::TestYard;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{PATIENCE, Served, open};

fn impatient() -> ServeLimits {
    let short = Duration::from_millis(200);
    ServeLimits {
        connections: 8,
        connections_per_peer: 8,
        head: short,
        body_idle: short,
        write_idle: short,
        grace: short,
        ..ServeLimits::default()
    }
}

async fn impatient_yard() -> Served {
    Served::serve(TestYard::new().await.unwrap(), open(), impatient()).await
}

/// Reads the server's answer until it closes.
async fn last_words(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn w20_slow_heads_are_cut_off_and_make_room() {
    let served = impatient_yard().await;
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(served.get("/healthz").await.status, 200);
    for stream in slow {
        let words = last_words(stream).await;
        assert!(words.is_empty() || words.starts_with("HTTP/1.1 408"), "{words}");
    }
}

#[tokio::test]
async fn w20_a_slow_body_is_told_so() {
    let served = impatient_yard().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = "POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let words = last_words(stream).await;
    assert!(words.starts_with("HTTP/1.1 408") && words.contains("request_timeout"), "{words}");
    served.expect_nothing().await;
}

#[tokio::test]
async fn w20_f16_a_reader_that_stops_reading_is_let_go() {
    let served = impatient_yard().await;
    let id = served.session().await;
    let made = served.shell(&id, "head -c 30000000 /dev/zero > big").await;
    assert_eq!(made["exit_code"], 0, "{made}");
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET /jobs/{id}/files/big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 1024];
    stream.read_exact(&mut first).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut rest = Vec::new();
    // The kernel's buffers still drain; the file is not whole, or the connection is reset.
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("still open");
    assert!(read.is_err() || rest.len() < 30_000_000);
}

/// JSON with as many values as its bytes allow.
fn crowded(bytes: usize) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":[{}0]}}"#, "0,".repeat(bytes / 2)).into_bytes()
}

#[tokio::test]
async fn f5_json_with_too_many_values_is_refused_unread() {
    let served = Served::start().await;
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    for (path, bytes) in [("/mcp", 20_000_000), ("/schedule", 16_000_000)] {
        let reply = served.request("POST", path, &headers, &crowded(bytes)).await;
        assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"), "{path}");
        assert!(reply.json()["error"]["hint"].is_string(), "{path}");
    }
    served.expect_nothing().await;
}

/// Each lacks its last byte. Together they would take ten times the budget.
#[tokio::test]
async fn f5_d4_unfinished_bodies_share_one_budget_and_others_notice_nothing() {
    const BODY_BYTES: usize = 1024 * 1024;
    let limits = ServeLimits { body_bytes: 4 * BODY_BYTES, ..ServeLimits::default() };
    let served = Served::serve(TestYard::new().await.unwrap(), open(), limits).await;
    let mut unfinished = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let address = served.address;
        unfinished.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!(
                "POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
            );
            // A refused client may not be able to send everything.
            let _ = stream.write_all(&[head.as_bytes(), &vec![b' '; BODY_BYTES - 1]].concat()).await;
            last_words(stream).await
        });
    }
    let text = serde_json::json!({"kind": "shell", "code": "true", "files": {"large": "x".repeat(500_000)}});
    let id = served.schedule(&serde_json::json!({"kind": "shell", "code": "true"})).await;
    served.wait_end(&id).await;
    // A large request is taken, because bodies that stall give their room up.
    let mut reply = served.post("/schedule", &text).await;
    for _ in 0..10 {
        if reply.status == 202 {
            break;
        }
        assert_eq!(reply.code(), "overloaded");
        reply = served.post("/schedule", &text).await;
    }
    assert_eq!(reply.status, 202, "{reply:?}");
    while let Some(words) = unfinished.join_next().await {
        let words = words.unwrap();
        let refused = words.contains("overloaded") || words.contains("request_timeout");
        assert!(words.is_empty() || refused, "{words}");
    }
}

#[tokio::test]
async fn f6_half_sent_heads_do_not_block_health() {
    let limits = ServeLimits { connections: 64, connections_per_peer: 48, ..ServeLimits::default() };
    let served = Served::serve(TestYard::new().await.unwrap(), open(), limits).await;
    let mut half = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        // The server may close it while it is written.
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await;
        half.push(stream);
    }
    // Long before the heads run out of time.
    let health = tokio::time::timeout(Duration::from_secs(10), served.get("/healthz")).await;
    assert_eq!(health.unwrap().status, 200);
}

#[tokio::test]
async fn f6_where_everybody_works_health_answers_and_others_are_told() {
    let limits = ServeLimits { connections: 8, connections_per_peer: 8, ..ServeLimits::default() };
    let served = Served::serve(TestYard::new().await.unwrap(), open(), limits).await;
    let id = served.session().await;
    let mut followers = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!("GET /jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        followers.push(stream);
    }
    assert_eq!(served.get("/healthz").await.status, 200);
    let refused = served.get("/version").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert!(refused.header("retry-after").is_some());
    followers.clear();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while served.get("/version").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "places are not given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A socket keeps its place: it is a connection like any other.
#[tokio::test]
async fn f6_sockets_count_as_connections() {
    let limits = ServeLimits { connections: 4, connections_per_peer: 4, ..ServeLimits::default() };
    let served = Served::serve(TestYard::new().await.unwrap(), open(), limits).await;
    let id = served.session().await;
    let mut terminals = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!(
            "GET /jobs/{id}/shell HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 101");
        terminals.push(stream);
    }
    assert_eq!(served.get("/version").await.code(), "overloaded");
    assert_eq!(served.get("/healthz").await.status, 200);
}

/// Thirty clients ask for eight megabytes each and take nothing.
#[tokio::test]
async fn d4_answers_that_stall_beyond_the_budget_are_closed() {
    // A stalled answer holds as little as one piece of the log, eight kilobytes, because the kernel takes the rest.
    let limits = ServeLimits { unwritten_bytes: 64 * 1024, ..ServeLimits::default() };
    let served = Served::serve(TestYard::new().await.unwrap(), open(), limits).await;
    let id = served.schedule(&serde_json::json!({"kind": "shell", "code": "yes | head -c 8000000"})).await;
    served.wait_end(&id).await;
    let mut readers = Vec::new();
    for _ in 0..30 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(served.address).await.unwrap();
        let head = format!("GET /jobs/{id}/logs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    // Those who read get everything meanwhile.
    assert_eq!(served.get(&format!("/jobs/{id}/logs")).await.body.len(), 8_000_000);
    let closed = |text: String| text.contains("sandyard_http_connections_closed_total 0");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while closed(served.get("/metrics").await.text()) {
        assert!(tokio::time::Instant::now() < deadline, "stalled readers keep their memory");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn f20_the_document_is_the_same_each_time() {
    let served = Served::start().await;
    let (first, second) = (served.get("/openapi.json").await, served.get("/openapi.json").await);
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.body, second.body);
    assert_eq!(first.json()["info"]["version"], "0.0.0");
}

#[tokio::test]
async fn malformed_requests_close_the_connection() {
    let served = Served::start().await;
    for request in [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nxyz",
        "NONSENSE\r\n\r\n",
    ] {
        let reply = served.send(request.as_bytes()).await;
        assert_eq!(reply.status, 400, "{request}: {reply:?}");
    }
    let many: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    let reply =
        served.send(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes()).await;
    assert_eq!(reply.status, 431);
    let reply = served.get(&format!("/{}", "x".repeat(70_000))).await;
    assert!([414, 431].contains(&reply.status), "{}", reply.status);
    served.expect_nothing().await;
}

#[tokio::test]
async fn a_server_that_stops_lets_go_of_streams_and_waits() {
    let served = Served::start().await;
    let id = served.session().await;
    let address = served.address;
    let open_request = |path: String| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let mut events = open_request(format!("/jobs/{id}/events")).await;
    let waiting = open_request(format!("/status/{id}?wait=300")).await;
    let mut first = [0; 16];
    events.read_exact(&mut first).await.unwrap();
    // The waiting request and the one that asks.
    while !served.get("/metrics").await.text().contains("sandyard_http_requests_in_flight 2") {}
    let yard = served.stop().await;
    assert!(last_words(waiting).await.contains("\"state\":\"running\""));
    last_words(events).await;
    let id = JobId::parse(&id).unwrap();
    let status = yard.status(&id, WithOutput::Without).await.unwrap();
    assert!(!status.state.is_terminal(), "the job goes on");
}
