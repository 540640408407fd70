//! A program on a port of a sandbox, for tests: takes connections, keeps what came, answers what it is told.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Listens as long as it lives.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Answers every request with these bytes.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::with(move |stream, seen| {
            let answer = answer.clone();
            async move { answer_one(stream, &answer, &seen).await }
        })
        .await
    }

    /// Serves an ordinary page.
    pub(crate) async fn page() -> Self {
        Self::answering(plain("hello", "")).await
    }

    pub(crate) async fn with<F, T>(serve: F) -> Self
    where
        F: Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Self { port, seen, task }
    }

    /// Returns everything that arrived, one text for each connection.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Returns a whole HTTP answer.
pub(crate) fn plain(body: &str, headers: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// Reads a head and a body by its length or chunks, then answers and closes.
async fn answer_one(mut stream: TcpStream, answer: &[u8], seen: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&bytes) {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    if !bytes.is_empty() {
        seen.lock().unwrap().push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (field("content-length:"), field("transfer-encoding:")) {
        (Some(length), _) => body.len() >= length.parse().unwrap_or(0),
        (None, Some(_)) => body.ends_with("0\r\n\r\n"),
        (None, None) => true,
    }
}
