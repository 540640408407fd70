//! The terminal: a WebSocket with bytes both ways.

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::client::{PATIENCE, Served};

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn open(served: &Served, id: &str) -> Socket {
    let url = format!("ws://{}/jobs/{id}/shell?columns=90&rows=30", served.address);
    tokio_tungstenite::connect_async(url).await.unwrap().0
}

/// Reads until the server closes: the screen's text, and the text frames.
async fn follow(socket: &mut Socket) -> (String, Vec<String>) {
    let mut screen = Vec::new();
    let mut texts = Vec::new();
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Binary(bytes) => screen.extend_from_slice(&bytes),
                Message::Text(text) => texts.push(text.to_string()),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the terminal does not end");
    (String::from_utf8_lossy(&screen).into_owned(), texts)
}

#[tokio::test]
async fn a_terminal_takes_input_and_a_new_size() {
    let served = Served::start().await;
    let id = served.session().await;
    let mut socket = open(&served, &id).await;
    socket.send(Message::binary("stty size\n".as_bytes().to_vec())).await.unwrap();
    socket.send(Message::text(json!({"resize": {"columns": 123, "rows": 45}}).to_string())).await.unwrap();
    socket.send(Message::binary("sleep 0.2; stty size; exit 5\n".as_bytes().to_vec())).await.unwrap();
    let (screen, texts) = follow(&mut socket).await;
    assert!(screen.contains("45 123"), "{screen}");
    let process: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!((process["process"].is_string(), &process["offset"]), (true, &json!(0)), "{process}");
    assert_eq!(texts[1..], [json!({"exit": {"code": 5}}).to_string()]);
}

#[tokio::test]
async fn w22_what_is_too_large_or_senseless_ends_the_terminal() {
    let served = Served::start().await;
    let id = served.session().await;
    for message in
        [Message::binary(vec![b'x'; 2_000_000]), Message::text("not json"), Message::text("{\"signal\": 9}")]
    {
        let mut socket = open(&served, &id).await;
        // The server may close while a large frame is still being sent.
        let _ = socket.send(message).await;
        follow(&mut socket).await;
    }
    assert_eq!(served.shell(&id, "echo alive").await["stdout"], "alive\n");
}

#[tokio::test]
async fn a_paste_into_a_program_that_prints_does_not_block() {
    let served = Served::start().await;
    let id = served.session().await;
    let mut socket = open(&served, &id).await;
    socket.send(Message::binary("stty -echo; cat | tail -n 1\n".as_bytes().to_vec())).await.unwrap();
    for number in 0..3000 {
        let line = format!("{number} {}\n", "y".repeat(200));
        socket.send(Message::binary(line.into_bytes())).await.unwrap();
    }
    socket.send(Message::binary(b"\x04exit\n".to_vec())).await.unwrap();
    let (screen, _) = follow(&mut socket).await;
    assert!(screen.contains("2999 yyy"), "{}", &screen[screen.len().saturating_sub(400)..]);
}

#[tokio::test]
async fn a_plain_get_says_what_the_route_is() {
    let served = Served::start().await;
    let id = served.session().await;
    let reply = served.get(&format!("/jobs/{id}/shell")).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"));
}
