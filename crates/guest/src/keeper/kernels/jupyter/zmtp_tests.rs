//! Peers that speak the protocol, and peers that do anything else.

use std::time::Duration;

use proptest::prelude::*;
use tokio::net::TcpListener;

use super::*;

/// A peer that shakes hands and then sends these bytes; it holds the connection open unless told otherwise.
async fn peer(bytes: Vec<u8>, close: bool) -> (u16, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut theirs = [0; GREETING_BYTES];
        stream.read_exact(&mut theirs).await.unwrap();
        stream.write_all(&greeting()).await.unwrap();
        stream.write_all(&ready(SocketRole::Subscriber)).await.unwrap();
        let _ = stream.write_all(&bytes).await;
        if close {
            return Vec::new();
        }
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut heard)).await;
        heard
    });
    (port, task)
}

async fn opened(bytes: Vec<u8>, close: bool) -> Connection {
    let (port, _) = peer(bytes, close).await;
    Connection::open(port, SocketRole::Dealer { identity: b"me" }, MemoryBudget::default()).await.unwrap()
}

fn frames(parts: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for (flags, body) in parts {
        put_frame(&mut bytes, *flags, body);
    }
    bytes.to_vec()
}

fn long_header(flags: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![flags | LONG];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

#[tokio::test]
async fn messages_of_several_frames_arrive_whole() {
    let large = vec![7; 300];
    let mut bytes = frames(&[(MORE, b"topic"), (MORE, b""), (0, &large)]);
    bytes.extend(frames(&[(0, b"second")]));
    let mut connection = opened(bytes, false).await;
    let message = connection.receive().await.unwrap();
    assert_eq!(message.frames, [Bytes::from_static(b"topic"), Bytes::new(), Bytes::from(large)]);
    assert_eq!(connection.receive().await.unwrap().frames, [Bytes::from_static(b"second")]);
}

#[tokio::test]
async fn a_ping_is_answered() {
    let (port, task) = peer(frames(&[(COMMAND, b"\x04PING\0\x0ahello"), (0, b"x")]), false).await;
    let mut connection =
        Connection::open(port, SocketRole::Subscriber, MemoryBudget::default()).await.unwrap();
    connection.receive().await.unwrap();
    drop(connection);
    let heard = task.await.unwrap();
    assert!(heard.windows(10).any(|window| window == b"\x04PONGhello"), "{heard:?}");
}

#[tokio::test]
async fn l17_an_absurd_length_ends_the_connection_and_takes_no_memory() {
    for length in [u64::MAX, i64::MAX.unsigned_abs(), SKIPPED_BYTES + 1] {
        let mut connection = opened(long_header(0, length), false).await;
        assert!(matches!(connection.receive().await, Err(ZmtpError::Malformed(_))), "{length}");
        assert!(connection.buffer.capacity() < 2 * READ_BYTES);
    }
    let mut connection = opened(long_header(COMMAND, 1_000_000), false).await;
    assert!(matches!(connection.receive().await, Err(ZmtpError::Malformed(_))));
}

#[tokio::test]
async fn l17_an_announced_length_without_bytes_takes_no_memory() {
    let mut bytes = frames(&[(MORE, b"topic")]);
    bytes.extend(long_header(0, SKIPPED_BYTES));
    bytes.extend(vec![b'x'; 1000]);
    let mut connection = opened(bytes, false).await;
    assert!(tokio::time::timeout(Duration::from_millis(300), connection.receive()).await.is_err());
    assert!(connection.buffer.capacity() < 2 * READ_BYTES, "{}", connection.buffer.capacity());
}

#[tokio::test]
async fn l17_of_a_message_that_is_too_long_the_head_is_kept_and_the_next_is_whole() {
    let long = vec![b'x'; MESSAGE_BYTES + 5_000_000];
    let bytes = frames(&[(MORE, b"topic"), (0, &long), (0, b"next")]);
    let mut connection = opened(bytes, false).await;
    let message = connection.receive().await.unwrap();
    assert_eq!(message.frames[1].len(), OVERSIZE_HEAD_BYTES);
    assert_eq!(message.left_out, (long.len() - OVERSIZE_HEAD_BYTES) as u64);
    assert_eq!(connection.receive().await.unwrap().frames, [Bytes::from_static(b"next")]);
    drop(message);
    assert_eq!(connection.budget.0.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn l17_a_message_of_a_million_frames_is_one_of_a_few() {
    let mut bytes = Vec::new();
    for _ in 0..1_000_000 {
        bytes.extend_from_slice(&[MORE, 1, b'x']);
    }
    bytes.extend(frames(&[(0, b"last")]));
    let mut connection = opened(bytes, false).await;
    let message = connection.receive().await.unwrap();
    assert!(message.frames.len() <= MESSAGE_FRAMES + 1, "{}", message.frames.len());
    assert!(message.left_out > 900_000);
}

#[tokio::test]
async fn l17_all_connections_together_have_a_bound() {
    let budget = MemoryBudget::default();
    let shares: Vec<_> = (0..100).filter_map(|_| budget.take(1024 * 1024)).collect();
    assert_eq!(shares.len(), MESSAGES_BYTES / (1024 * 1024));
    drop(shares);
    assert_eq!(budget.0.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn l17_garbage_instead_of_a_greeting_is_refused() {
    for garbage in [vec![0; 64], b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(4), vec![0xff; 64]] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(&garbage).await;
            std::future::pending::<()>().await;
        });
        let opened = Connection::open(port, SocketRole::Subscriber, MemoryBudget::default()).await;
        assert!(matches!(opened, Err(ZmtpError::Malformed(_))), "{opened:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn l17_a_silent_peer_is_given_up() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let opened = Connection::open(port, SocketRole::Subscriber, MemoryBudget::default()).await;
    assert!(matches!(opened, Err(ZmtpError::Stalled)), "{opened:?}");
}

#[tokio::test]
async fn a_peer_that_leaves_is_noticed() {
    let mut connection = opened(frames(&[(0, b"bye")]), true).await;
    assert_eq!(connection.receive().await.unwrap().frames, [Bytes::from_static(b"bye")]);
    assert!(connection.receive().await.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn l17_any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = opened(bytes, true).await;
            while connection.receive().await.is_ok() {}
        });
    }
}

/// What is held never grows beyond the bounds, whatever the peer announces.
#[test]
fn fuzz_zmtp() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // One connection for all inputs, whose peer has sent everything: an input lies in the buffer, and its end is the end.
    let mut stream = Some(runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        theirs.shutdown().await.unwrap();
        // Reads the answers to its checks.
        tokio::spawn(async move { tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await });
        stream
    }));
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "zmtp").run(|bytes| {
        runtime.block_on(async {
            for in_handshake in [false, true] {
                let mut connection = Connection {
                    stream: stream.take().unwrap(),
                    buffer: BytesMut::from(bytes),
                    message: Multipart::default(),
                    frame: None,
                    budget: MemoryBudget::default(),
                };
                if in_handshake {
                    let _ = connection.receive_ready().await;
                }
                while let Ok(message) = connection.receive().await {
                    let kept: usize = message.frames.iter().map(Bytes::len).sum();
                    assert!(kept <= bytes.len().min(MESSAGE_BYTES), "{kept}");
                    assert!(message.frames.len() <= MESSAGE_FRAMES + bytes.len());
                }
                stream = Some(connection.stream);
            }
        });
    });
}
