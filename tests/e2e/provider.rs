//! A provider on loopback that speaks as OpenAI does, wants a key, and repeats it wherever it can.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What to answer a request with.
pub(crate) enum Answer {
    /// The key in words, a pause, and these calls.
    Calls(Vec<Value>, Duration),
    /// These words and no call.
    Words(String),
    /// A refusal with this status that repeats the request's headers.
    Refusal(u16),
}

pub(crate) struct Provider {
    port: u16,
    key: &'static str,
    answers: Mutex<VecDeque<Answer>>,
    /// Bytes of a request for each token that is reported; `None` reports the same for every request.
    bytes_of_token: Option<u64>,
    largest: AtomicU64,
}

impl Provider {
    pub(crate) fn start(key: &'static str, answers: Vec<Answer>) -> Arc<Self> {
        Self::open(key, answers, None)
    }

    /// One that counts tokens as large models do, roughly.
    pub(crate) fn counting(key: &'static str, answers: Vec<Answer>) -> Arc<Self> {
        Self::open(key, answers, Some(4))
    }

    fn open(key: &'static str, answers: Vec<Answer>, bytes_of_token: Option<u64>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let provider = Arc::new(Self {
            port,
            key,
            answers: Mutex::new(answers.into()),
            bytes_of_token,
            largest: AtomicU64::new(0),
        });
        let serving = Arc::clone(&provider);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let provider = Arc::clone(&serving);
                // A client that goes away in the middle is no failure of the provider.
                std::thread::spawn(move || provider.serve(stream));
            }
        });
        provider
    }

    /// The model, as an operator names it.
    pub(crate) fn spec(&self) -> String {
        format!("openai-compatible@http://127.0.0.1:{}/v1/canary", self.port)
    }

    /// How many answers nobody asked for.
    pub(crate) fn left(&self) -> usize {
        self.answers.lock().unwrap().len()
    }

    /// Tokens of the largest request.
    pub(crate) fn largest_tokens(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (headers, length) = read_request(&stream)?;
        let tokens = self.bytes_of_token.map_or(1000, |bytes| length / bytes);
        self.largest.fetch_max(tokens, Ordering::Relaxed);
        let authorization = format!("authorization: bearer {}", self.key);
        if !headers.to_lowercase().contains(&authorization) {
            return refuse(&mut stream, 401, "no key");
        }
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::Calls(calls, pause)) => self.stream(&mut stream, &calls, pause, tokens),
            Some(Answer::Words(words)) => self.speak(&mut stream, &words),
            Some(Answer::Refusal(status)) => refuse(&mut stream, status, &headers),
            None => refuse(&mut stream, 418, "nothing left to say"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a model that takes its time, on a thread of its own")]
    fn stream(
        &self,
        stream: &mut TcpStream,
        calls: &[Value],
        pause: Duration,
        tokens: u64,
    ) -> std::io::Result<()> {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
        let words = format!("You sent me {}, thank you.", self.key);
        for piece in words.as_bytes().chunks(5) {
            say(stream, &json!({ "content": String::from_utf8_lossy(piece) }), &Value::Null)?;
        }
        std::thread::sleep(pause);
        for (index, call) in calls.iter().enumerate() {
            let id = format!("call_{}_{index}", self.left());
            let call = json!({ "index": index, "id": id, "type": "function", "function": call });
            say(stream, &json!({ "tool_calls": [call] }), &Value::Null)?;
        }
        say(stream, &json!({}), &json!("tool_calls"))?;
        let usage = json!({ "prompt_tokens": tokens, "completion_tokens": 50, "total_tokens": tokens + 50 });
        write!(stream, "data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [], "usage": usage }))
    }
}

impl Provider {
    fn speak(&self, stream: &mut TcpStream, words: &str) -> std::io::Result<()> {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
        say(stream, &json!({ "content": words }), &Value::Null)?;
        say(stream, &json!({}), &json!("stop"))?;
        let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050 });
        write!(stream, "data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [], "usage": usage }))
    }
}

fn say(stream: &mut TcpStream, delta: &Value, reason: &Value) -> std::io::Result<()> {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    write!(stream, "data: {}\n\n", json!({ "object": "chat.completion.chunk", "choices": [choice] }))
}

fn refuse(stream: &mut TcpStream, status: u16, words: &str) -> std::io::Result<()> {
    let error = json!({ "error": { "type": "invalid_request_error", "message": words } }).to_string();
    let length = error.len();
    write!(
        stream,
        "HTTP/1.1 {status} No\r\nX-Echo: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{error}",
        words.replace("\r\n", " ")
    )
}

/// The head of a request and the length of its body, which was read.
fn read_request(stream: &TcpStream) -> std::io::Result<(String, u64)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    Ok((head, length))
}
