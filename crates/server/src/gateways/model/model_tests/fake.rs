//! Strict fakes of the providers, made from their published specifications: they refuse a request that those do not allow, and
//! play what they are told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::strict;

/// The key that providers want, and that nobody else may see.
pub(super) const KEY: &str = "sk-test-0123456789abcdefghijklmnop";

/// Which provider is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FakeWire {
    OpenAi,
    Anthropic,
}

/// What to answer a request with.
#[derive(Debug, Clone)]
pub(super) enum FakeAnswer {
    /// These events, and the end.
    Events(Vec<String>),
    /// These events, and the connection breaks.
    Cut(Vec<String>),
    /// These events, and then nothing more.
    Stall(Vec<String>),
    /// This event again and again.
    Endless(String),
    /// No head of an answer.
    Silence,
    /// Refuses with this status, headers and body.
    Refuse(u16, Vec<(&'static str, String)>, String),
    /// A refusal that repeats what was sent.
    EchoRefusal(u16),
    /// An answer that repeats what was sent, in small pieces.
    Echo,
}

#[derive(Debug)]
pub(super) struct FakeProvider {
    kind: FakeWire,
    pub(super) base_url: String,
    plays: Mutex<VecDeque<FakeAnswer>>,
    pub(super) requests: Mutex<Vec<Value>>,
    /// Answers that are being heard now, and the most there ever were.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) most_open: AtomicUsize,
}

/// Counts an answer as open until it is dropped.
struct OpenCalls(Arc<AtomicUsize>);

impl Drop for OpenCalls {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeProvider {
    pub(super) async fn start(kind: FakeWire, plays: Vec<FakeAnswer>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Arc::new(Self {
            kind,
            base_url: format!("http://{}/v1", listener.local_addr().unwrap()),
            plays: Mutex::new(plays.into()),
            requests: Mutex::default(),
            open: Arc::default(),
            most_open: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    /// Adds something to play.
    pub(super) fn play(&self, play: FakeAnswer) {
        self.plays.lock().unwrap().push_back(play);
    }

    pub(super) fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn open(&self) -> OpenCalls {
        let now = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_open.fetch_max(now, Ordering::SeqCst);
        OpenCalls(Arc::clone(&self.open))
    }

    /// An event with words in it.
    pub(super) fn words(&self, text: &str) -> String {
        match self.kind {
            FakeWire::OpenAi => json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }),
            FakeWire::Anthropic => {
                json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } })
            }
        }
        .to_string()
    }
}

async fn answer(
    State(fake): State<Arc<FakeProvider>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    fake.requests.lock().unwrap().push(request.clone());
    let checked = match fake.kind {
        FakeWire::OpenAi => strict::openai(&uri, &headers, &request),
        FakeWire::Anthropic => strict::anthropic(&uri, &headers, &request),
    };
    if let Err(fault) = checked {
        let error =
            json!({ "error": { "type": "invalid_request_error", "message": format!("fake: {fault}") } });
        return refusal(400, &[], error.to_string());
    }
    let play = fake.plays.lock().unwrap().pop_front();
    let sent = format!("{headers:?} authorization: Bearer {KEY}");
    match play.unwrap_or_else(|| FakeAnswer::Refuse(418, Vec::new(), "nothing left to play".into())) {
        FakeAnswer::Events(events) => stream(&fake, events, FakeEnd::Clean),
        FakeAnswer::Cut(events) => stream(&fake, events, FakeEnd::Broken),
        FakeAnswer::Stall(events) => stream(&fake, events, FakeEnd::Never),
        FakeAnswer::Endless(event) => {
            let open = fake.open();
            let events = futures_util::stream::repeat(event).map(move |event| {
                let _ = &open;
                Ok::<_, Infallible>(format!("data: {event}\n\n"))
            });
            events_response(Body::from_stream(events))
        }
        FakeAnswer::Silence => std::future::pending().await,
        FakeAnswer::Refuse(status, headers, body) => refusal(status, &headers, body),
        FakeAnswer::EchoRefusal(status) => {
            refusal(status, &[], json!({ "error": { "message": sent } }).to_string())
        }
        FakeAnswer::Echo => {
            let pieces: Vec<String> =
                sent.as_bytes().chunks(5).map(|piece| String::from_utf8_lossy(piece).into()).collect();
            let mut events: Vec<String> = pieces.iter().map(|piece| fake.words(piece)).collect();
            let whole = full(
                fake.kind,
                &[],
                &[("call_1", "shell", &json!({ "command": sent }).to_string())],
                "tool_calls",
            );
            events.extend(whole);
            stream(&fake, events, FakeEnd::Clean)
        }
    }
}

enum FakeEnd {
    Clean,
    Broken,
    Never,
}

fn stream(fake: &FakeProvider, events: Vec<String>, end: FakeEnd) -> Response<Body> {
    let open = fake.open();
    let lines = events.into_iter().map(|event| Ok::<_, io::Error>(format!("data: {event}\n\n")));
    let lines = futures_util::stream::iter(lines);
    let tail = futures_util::stream::once(async move {
        let _open = open;
        match end {
            FakeEnd::Clean => Ok(String::new()),
            FakeEnd::Broken => {
                // What was written before goes out first.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            FakeEnd::Never => std::future::pending().await,
        }
    });
    events_response(Body::from_stream(lines.chain(tail)))
}

fn events_response(body: Body) -> Response<Body> {
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

fn refusal(status: u16, headers: &[(&'static str, String)], body: String) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body)).unwrap()
}

/// A whole answer: words, calls, and the reason as OpenAI names it. It read 1,000 tokens, 600 of them cached, and wrote 50.
pub(super) fn full(
    kind: FakeWire,
    words: &[&str],
    calls: &[(&str, &str, &str)],
    reason: &str,
) -> Vec<String> {
    match kind {
        FakeWire::OpenAi => openai(words, calls, reason),
        FakeWire::Anthropic => anthropic(words, calls, reason),
    }
}

fn openai(words: &[&str], calls: &[(&str, &str, &str)], reason: &str) -> Vec<String> {
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
        json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], "usage": null })
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "", "refusal": null }), None)];
    let member = if reason == "refusal" { "refusal" } else { "content" };
    events.extend(words.iter().map(|text| chunk(json!({ member: text }), None)));
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let function = json!({ "name": name, "arguments": "" });
        let start = json!({ "index": index, "id": id, "type": "function", "function": function });
        events.push(chunk(json!({ "tool_calls": [start] }), None));
        for piece in arguments.as_bytes().chunks(7) {
            let arguments = String::from_utf8_lossy(piece);
            let part = json!({ "index": index, "function": { "arguments": arguments } });
            events.push(chunk(json!({ "tool_calls": [part] }), None));
        }
    }
    events.push(chunk(json!({}), Some(if reason == "refusal" { "stop" } else { reason })));
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, "prompt_tokens_details": { "cached_tokens": 600 } });
    events.push(json!({ "object": "chat.completion.chunk", "choices": [], "usage": usage }));
    let mut events: Vec<String> = events.iter().map(Value::to_string).collect();
    events.push("[DONE]".into());
    events
}

fn anthropic(words: &[&str], calls: &[(&str, &str, &str)], reason: &str) -> Vec<String> {
    let usage = json!({ "input_tokens": 400, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 600, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": null, "usage": usage });
    let mut events = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "ping" }),
    ];
    for text in words {
        events.push(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }));
    }
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        events.push(json!({ "type": "content_block_start", "index": index + 1, "content_block": block }));
        for piece in arguments.as_bytes().chunks(7) {
            let delta = json!({ "type": "input_json_delta", "partial_json": String::from_utf8_lossy(piece) });
            events.push(json!({ "type": "content_block_delta", "index": index + 1, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index + 1 }));
    }
    let reason = match reason {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    };
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 50 } }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Value::to_string).collect()
}
