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
    ServeLimits { connections: 8, head: short, body_idle: short, write_idle: short, grace: short }
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
