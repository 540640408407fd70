//! A served yard, and a client that sends exactly what it is told.

use std::net::SocketAddr;
use std::time::Duration;

use sandyard_server::auth::{AccessRules, KeyStore};
use sandyard_server::http::{HttpConfig, ServeLimits, serve_tcp};
use sandyard_testkit::TestYard;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Every exchange of a test ends by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Served {
    pub(crate) yard: TestYard,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::serve(TestYard::new().await.unwrap(), open(), ServeLimits::default()).await
    }

    pub(crate) async fn serve(yard: TestYard, access: AccessRules, limits: ServeLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let config = HttpConfig {
            yard: yard.yard.clone(),
            access,
            limits,
            version: "0.0.0".to_owned(),
            settings: Vec::new(),
            shutdown: shutdown.clone(),
        };
        let server = tokio::spawn(serve_tcp(listener, config));
        Self { yard, address, shutdown, server }
    }

    /// Stops serving and waits until all connections are let go.
    pub(crate) async fn stop(self) -> TestYard {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.server).await.expect("the server does not stop").unwrap();
        self.yard
    }

    /// Sends bytes and reads until the server closes.
    pub(crate) async fn send(&self, request: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may answer and close before it has taken everything.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
        assert!(read.is_ok(), "no end after: {}", String::from_utf8_lossy(&bytes));
        Reply::parse(&bytes)
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes()).await
    }

    pub(crate) async fn schedule(&self, body: &Value) -> String {
        let reply = self.post("/schedule", body).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// A session whose sandbox is live.
    pub(crate) async fn session(&self) -> String {
        let id = self.schedule(&serde_json::json!({"kind": "session"})).await;
        self.wait(&id, |status| status["sandbox"] == "live" && status["state"] == "running").await;
        id
    }

    pub(crate) async fn wait(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let status = self.get(&format!("/status/{id}?wait=1")).await.json();
            if wanted(&status) {
                return status;
            }
            assert!(tokio::time::Instant::now() < deadline, "job {id} is stuck: {status}");
        }
    }

    pub(crate) async fn wait_end(&self, id: &str) -> Value {
        self.wait(id, |status| status["finished_at"].is_string()).await
    }

    pub(crate) async fn shell(&self, id: &str, command: &str) -> Value {
        let reply = self.post(&format!("/jobs/{id}/shell"), &serde_json::json!({ "command": command })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Asserts that nothing was made: no job, no folder, no sandbox.
    pub(crate) async fn expect_nothing(&self) {
        assert_eq!(self.get("/jobs").await.json()["jobs"], serde_json::json!([]));
        let folders = std::fs::read_dir(self.yard.data().join("jobs")).unwrap().count();
        assert_eq!(folders, 0, "folders are left");
        assert!(self.yard.world.markers().is_empty(), "sandboxes are left");
    }
}

/// The rules of a loopback address without keys.
pub(crate) fn open() -> AccessRules {
    AccessRules::new("127.0.0.1", KeyStore::default())
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let rest = &bytes[end + 4..];
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { unchunk(rest) } else { rest.to_vec() };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a header.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {} {}", self.status, self.text()))
    }

    /// The code of an error, which must have the contract's shape.
    pub(crate) fn code(&self) -> String {
        let error = &self.json()["error"];
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        assert_eq!(error["request_id"].as_str(), self.header("x-request-id"), "{error}");
        let members = ["code", "message", "hint", "request_id"];
        assert!(error.as_object().unwrap().keys().all(|name| members.contains(&name.as_str())), "{error}");
        error["code"].as_str().unwrap().to_owned()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap().trim(), 16).unwrap();
        let start = end + 2;
        body.extend_from_slice(&bytes[start..(start + size).min(bytes.len())]);
        if size == 0 {
            break;
        }
        bytes = bytes.get(start + size + 2..).unwrap_or_default();
    }
    body
}
