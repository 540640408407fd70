//! Commands and terminals outlive the server: attached to again by name and offset, detached, signalled, never started twice.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use reqwest::{RequestBuilder, Response, StatusCode};
use sandyard_api::{SseFrame, SseParser};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_tungstenite::tungstenite::Message;

use crate::yard::{PATIENCE, Yard};

/// How far the commands of these tests count.
const LAST: usize = 400;

/// The lines `1` to `LAST`, with a letter before each.
fn numbers(letter: &str) -> String {
    (1..=LAST).map(|number| format!("{letter}{number}\n")).collect()
}

/// What one client has seen of a command, across all its connections.
#[derive(Debug, Default)]
struct SeenCommand {
    process: Option<String>,
    stdout: String,
    stderr: String,
    exit: Option<i64>,
}

impl SeenCommand {
    fn take(&mut self, frame: &SseFrame) {
        let data: Value = serde_json::from_str(&frame.data).unwrap();
        match frame.event.as_str() {
            "started" => {
                let process = data["process"].as_str().unwrap().to_owned();
                assert!(self.process.as_ref().is_none_or(|known| *known == process), "another process");
                self.process = Some(process);
            }
            "exit" => self.exit = Some(data["exit_code"].as_i64().unwrap()),
            name @ ("stdout" | "stderr") => {
                let seen = if name == "stdout" { &mut self.stdout } else { &mut self.stderr };
                assert_eq!(data["offset"], seen.len(), "a gap or a repeat: {data}");
                seen.push_str(data["text"].as_str().unwrap());
            }
            other => panic!("{other}: {data}"),
        }
    }

    /// Reads a stream until the condition holds, or to its end.
    async fn follow(&mut self, mut response: Response, enough: impl Fn(&Self) -> bool) {
        assert_eq!(response.status(), StatusCode::OK);
        let mut parser = SseParser::new(1 << 20);
        let deadline = Instant::now() + PATIENCE;
        while !enough(self) {
            assert!(Instant::now() < deadline, "{self:?}");
            let Ok(Some(bytes)) = response.chunk().await else { return };
            parser.feed(&bytes).unwrap();
            while let Some(frame) = parser.take() {
                self.take(&frame);
            }
        }
    }

    /// Connects again behind everything that was seen.
    async fn attach(&mut self, yard: &Yard, id: &str, enough: impl Fn(&Self) -> bool) {
        let (process, stdout, stderr) =
            (self.process.as_ref().unwrap(), self.stdout.len(), self.stderr.len());
        let path = format!("{}/jobs/{id}/processes/{process}?offset={stdout},{stderr}", yard.url);
        let response = streamed(yard.client.get(path)).await;
        self.follow(response, enough).await;
    }
}

async fn streamed(request: RequestBuilder) -> Response {
    request.header("Accept", "text/event-stream").send().await.unwrap()
}

fn counting(letter: &str) -> String {
    format!("for i in $(seq 1 {LAST}); do echo {letter}$i; echo e$i >&2; sleep 0.02; done")
}

#[tokio::test]
async fn a_command_goes_on_while_the_server_is_killed_twice() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let mut seen = SeenCommand::default();
    let request = yard.client.post(format!("{}/jobs/{id}/shell", yard.url));
    let response = streamed(request.json(&json!({"command": counting("")}))).await;
    seen.follow(response, |seen| seen.stdout.len() > 100).await;
    yard.crash_and_serve().await;
    seen.attach(&yard, &id, |seen| seen.stdout.len() > 700).await;
    assert_eq!(seen.exit, None, "it must run while the server is killed again: {seen:?}");
    yard.crash_and_serve().await;
    seen.attach(&yard, &id, |_| false).await;
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), (numbers("").as_str(), numbers("e").as_str()));
    assert_eq!(seen.exit, Some(0));
    // After the end its output is still there, whole and from any offset.
    let process = seen.process.clone().unwrap();
    let again = yard.get_json(&format!("/jobs/{id}/processes/{process}")).await;
    assert_eq!((&again["stdout"], &again["exit_code"]), (&json!(numbers("")), &json!(0)));
    let tail = yard.get_json(&format!("/jobs/{id}/processes/{process}?offset=3")).await;
    assert_eq!(tail["stdout"], numbers("")[3..]);
    yard.delete(&id).await;
    yard.expect_no_leftovers().await;
}

/// A polite stop ends connections, not commands.
#[tokio::test]
async fn a_command_goes_on_while_the_server_is_stopped() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let mut seen = SeenCommand::default();
    let request = yard.client.post(format!("{}/jobs/{id}/shell", yard.url));
    let response = streamed(request.json(&json!({"command": counting("")}))).await;
    seen.follow(response, |seen| seen.stdout.len() > 100).await;
    yard.stop().await;
    yard.serve().await;
    seen.attach(&yard, &id, |_| false).await;
    assert_eq!((seen.stdout, seen.exit), (numbers(""), Some(0)));
}

/// A terminal as a client has seen it, across all its connections.
#[derive(Debug, Default)]
struct SeenTerminal {
    process: Option<String>,
    screen: Vec<u8>,
    exit: Option<i64>,
}

impl SeenTerminal {
    async fn connect(&self, yard: &Yard, id: &str) -> TerminalSocket {
        let base = yard.url.replace("http://", "ws://");
        let url = match &self.process {
            None => format!("{base}/jobs/{id}/shell"),
            Some(process) => format!("{base}/jobs/{id}/processes/{process}?offset={}", self.screen.len()),
        };
        tokio_tungstenite::connect_async(url).await.unwrap().0
    }

    async fn follow(&mut self, socket: &mut TerminalSocket, enough: impl Fn(&Self) -> bool) {
        let reading = async {
            while !enough(self) {
                match socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => self.screen.extend_from_slice(&bytes),
                    Some(Ok(Message::Text(text))) => self.notice(&serde_json::from_str(&text).unwrap()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the terminal does not answer");
    }

    fn notice(&mut self, notice: &Value) {
        if let Some(process) = notice["process"].as_str() {
            assert!(self.process.as_ref().is_none_or(|known| known == process), "another process");
            assert_eq!(notice["offset"], self.screen.len(), "{notice}");
            self.process = Some(process.to_owned());
        }
        if let Some(code) = notice["exit"]["code"].as_i64() {
            self.exit = Some(code);
        }
        assert!(notice["lost"].is_null(), "{notice}");
    }
}

type TerminalSocket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

#[tokio::test]
async fn a_terminal_goes_on_while_the_server_is_killed_twice() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let mut seen = SeenTerminal::default();
    let mut socket = seen.connect(&yard, &id).await;
    let line =
        format!("for i in $(seq 1 {LAST}); do echo n$i; sleep 0.02; done; read x; echo got $x; exit 7\n");
    socket.send(Message::binary(line.into_bytes())).await.unwrap();
    let contains = |seen: &SeenTerminal, text: &str| String::from_utf8_lossy(&seen.screen).contains(text);
    seen.follow(&mut socket, |seen| contains(seen, "\nn30\r")).await;
    yard.crash_and_serve().await;
    let mut socket = seen.connect(&yard, &id).await;
    seen.follow(&mut socket, |seen| contains(seen, "\nn150\r")).await;
    assert_eq!(seen.exit, None);
    yard.crash_and_serve().await;
    let mut socket = seen.connect(&yard, &id).await;
    seen.follow(&mut socket, |seen| contains(seen, &format!("\nn{LAST}\r"))).await;
    // Typed into the shell that the first server started.
    socket.send(Message::binary(b"typed\n".to_vec())).await.unwrap();
    seen.follow(&mut socket, |_| false).await;
    let screen = String::from_utf8_lossy(&seen.screen);
    // The shell switches modes of the terminal before the first line.
    let lines = screen.split("\r\n").map(|line| line.rsplit('\r').next().unwrap_or_default());
    let shown: String = lines.filter(|line| line.starts_with('n')).map(|line| format!("{line}\n")).collect();
    assert_eq!(shown, numbers("n"));
    assert!(screen.contains("got typed"), "{screen}");
    assert_eq!(seen.exit, Some(7));
}

#[tokio::test]
async fn a_detached_command_is_listed_signalled_and_read_by_any_server() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let command = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let body = json!({"command": command, "detach": true});
    let response = yard.post(&format!("/jobs/{id}/shell"), &body).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    let started: Value = response.json().await.unwrap();
    let process = started["process"].as_str().unwrap().to_owned();
    assert_eq!(started["running"], true, "{started}");
    yard.crash_and_serve().await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = yard.get_json(&format!("/jobs/{id}/processes")).await;
        let listed = list["processes"].as_array().unwrap().iter().find(|row| row["process"] == *process);
        let listed = listed.unwrap_or_else(|| panic!("{list}"));
        assert_eq!((&listed["running"], &listed["exit_code"]), (&json!(true), &Value::Null), "{listed}");
        assert_eq!(listed["command"][2], command);
        if listed["stdout_bytes"] == 6 {
            break;
        }
        assert!(Instant::now() < deadline, "{listed}");
    }
    let signal = |process: &str| format!("/jobs/{id}/processes/{process}/signal");
    let response = yard.post(&signal(&process), &json!({"signal": "TERM"})).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let end = yard.get_json(&format!("/jobs/{id}/processes/{process}")).await;
    assert_eq!((&end["stdout"], &end["exit_code"]), (&json!("ready\ngot\n"), &json!(9)), "{end}");
    assert_eq!(end["process"], *process);
    for (path, body, status, code) in [
        (signal("p99-99"), json!({"signal": "TERM"}), 404, "unknown_process"),
        (signal(&process), json!({"signal": "NONSENSE"}), 422, "invalid_value"),
        (signal(&process), json!({"signal": 65}), 422, "invalid_value"),
    ] {
        let response = yard.post(&path, &body).await;
        assert_eq!(response.status().as_u16(), status, "{path} {body}");
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], code);
    }
    let unknown = yard.get(&format!("/jobs/{id}/processes/p99-99")).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

async fn keyed(yard: &Yard, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let request = yard.client.post(format!("{}{path}", yard.url)).header("Idempotency-Key", key).json(body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_key_starts_a_command_and_a_piece_of_code_once() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let (shell, code) = (format!("/jobs/{id}/shell"), format!("/jobs/{id}/code"));
    let count = "echo run >> runs; while [ ! -e go ]; do sleep 0.05; done; wc -l < runs";
    let body = json!({"command": count, "stdin": "once\n"});
    let first = keyed(&yard, &shell, "k-1", &body);
    // The second comes while the first runs: it lets both go on.
    let second = async {
        let deadline = Instant::now() + PATIENCE;
        while yard.shell(&id, "test -e runs").await["exit_code"] != 0 {
            assert!(Instant::now() < deadline, "the first command does not begin");
        }
        let (answer, _) = tokio::join!(keyed(&yard, &shell, "k-1", &body), yard.shell(&id, "touch go"));
        answer
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.0, &first.1["stdout"]), (200, &json!("1\n")), "{first:?}");
    assert_eq!(first, second, "a repeat is the same command");
    assert_eq!(keyed(&yard, &shell, "k-1", &body).await, first, "also after its end");
    yard.crash_and_serve().await;
    assert_eq!(keyed(&yard, &shell, "k-1", &body).await, first, "also for another server");
    let (status, other) = keyed(&yard, &shell, "k-1", &json!({"command": "true"})).await;
    assert_eq!((status, &other["error"]["code"]), (409, &json!("idempotency_key_reused")), "{other}");

    let cell = json!({"language": "bash", "code": "echo run >> cells; wc -l < cells"});
    let first = keyed(&yard, &code, "k-2", &cell).await;
    assert_eq!((first.0, &first.1["stdout"]), (200, &json!("1\n")), "{first:?}");
    yard.crash_and_serve().await;
    assert_eq!(keyed(&yard, &code, "k-2", &cell).await, first);
    let other = json!({"language": "bash", "code": "true"});
    for key in ["k-1", "k-2"] {
        let (status, refusal) = keyed(&yard, &code, key, &other).await;
        assert_eq!((status, &refusal["error"]["code"]), (409, &json!("idempotency_key_reused")), "{key}");
    }
    // A command that could not be started has used no key up.
    let nowhere = json!({"command": "true", "cwd": "/no/such/place"});
    assert_eq!(keyed(&yard, &shell, "k-3", &nowhere).await.0, 422);
    assert_eq!(keyed(&yard, &shell, "k-3", &json!({"command": "true"})).await.0, 200);
}

/// An address that stays when the server behind it is replaced, as that of a service.
struct SteadyAddress {
    url: String,
    server: Arc<Mutex<String>>,
}

impl SteadyAddress {
    async fn before(yard: &Yard) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::new(Mutex::new(String::new()));
        let address = Self { url, server: Arc::clone(&server) };
        address.lead_to(yard);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let target = server.lock().unwrap().clone();
                tokio::spawn(async move {
                    // While the server is away the connection is closed at once, as by a front.
                    if let Ok(mut upstream) = TcpStream::connect(target).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                    }
                });
            }
        });
        address
    }

    fn lead_to(&self, yard: &Yard) {
        yard.url.trim_start_matches("http://").clone_into(&mut self.server.lock().unwrap());
    }
}

#[tokio::test]
async fn the_cli_shows_every_number_once_while_the_server_is_killed_twice() {
    let mut yard = Yard::start().await;
    let id = yard.session().await;
    let address = SteadyAddress::before(&yard).await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_sandyard"))
        .args(["shell", &id, "--", &counting("")])
        .env("SANDYARD_URL", &address.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdout, mut shown) = (child.stdout.take().unwrap(), String::new());
    let mut stderr = child.stderr.take().unwrap();
    let errors = tokio::spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    });
    for enough in [100, 700, usize::MAX] {
        let reading = async {
            let mut buffer = [0; 4096];
            while shown.len() < enough {
                match stdout.read(&mut buffer).await.unwrap() {
                    0 => return,
                    count => shown.push_str(std::str::from_utf8(&buffer[..count]).unwrap()),
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the command shows nothing");
        if enough < usize::MAX {
            yard.crash_and_serve().await;
            address.lead_to(&yard);
        }
    }
    let code = child.wait().await.unwrap().code();
    let errors = errors.await.unwrap();
    assert_eq!((shown, code), (numbers(""), Some(0)), "{errors}");
    let told = errors.lines().filter(|line| line.contains("the connection to the server is lost")).count();
    let own: String =
        errors.lines().filter(|line| line.starts_with('e')).map(|line| format!("{line}\n")).collect();
    assert_eq!((own, told), (numbers("e"), 2), "{errors}");
}
