//! Links, files through a worker, ports, and streams that are not what they should be.

use std::time::Instant;

use sandyard_protocol::{EntryHeader, GuestErrorCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::keeper::UnixDial;

fn write(path: &str, size: usize) -> Request {
    Request::Write { path: path.into(), size: size as u64, mode: None }
}

/// Sends a write and its bytes; the answer.
async fn upload(host: &TestHost, path: &str, bytes: &[u8]) -> Reply {
    within(async {
        let mut stream = Framed::new(host.link.open().await.unwrap(), limits());
        stream.send_message(&write(path, bytes.len())).await.unwrap();
        for chunk in bytes.chunks(DATA_BYTES) {
            stream.send_data(chunk).await.unwrap();
        }
        stream.finish().await.unwrap();
        stream.receive_message().await.unwrap()
    })
    .await
}

#[tokio::test]
async fn files_go_in_and_out_through_a_worker() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    assert!(matches!(upload(&host, "a/b.bin", &content).await, Reply::Stat(stat) if stat.size == 3_000_000));
    let (reply, mut stream) = host.ask(&Request::Read { path: "a/b.bin".into(), range: None }).await;
    assert!(matches!(reply, Reply::Content { length: 3_000_000, .. }));
    assert_eq!(data(rest(&mut stream).await), content);
    let (reply, mut stream) = host.ask(&Request::Export { path: String::new() }).await;
    assert_eq!(reply, Reply::Done);
    let frames = rest(&mut stream).await;
    let Some(Frame::Message(end)) = frames.last() else { panic!("no end") };
    assert_eq!(
        serde_json::from_slice::<EntryHeader>(end).unwrap(),
        EntryHeader::End { entries: 2, skipped: vec![] }
    );
    assert_eq!(data(frames), content);
}

#[tokio::test]
async fn a_broken_upload_leaves_the_old_file_and_the_service_working() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    assert!(matches!(upload(&host, "file", b"old").await, Reply::Stat(_)));
    for _ in 0..20 {
        let mut stream = Framed::new(host.link.open().await.unwrap(), limits());
        stream.send_message(&write("file", 100_000)).await.unwrap();
        stream.send_data(&[1; 50_000]).await.unwrap();
        drop(stream);
    }
    assert!(
        matches!(host.ask(&Request::Stat { path: "file".into() }).await.0, Reply::Stat(stat) if stat.size == 3)
    );
    let names: Vec<_> =
        std::fs::read_dir(machine.workspace()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
}

#[tokio::test]
async fn a_refused_upload_is_answered_while_it_is_still_sending() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let reply = upload(&host, "../out", &vec![0; 2_000_000]).await;
    assert!(matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::InvalidPath), "{reply:?}");
}

#[tokio::test]
async fn many_operations_at_once_are_served_by_few_workers() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    std::fs::write(machine.workspace().join("file"), "x").unwrap();
    let stat = Request::Stat { path: "file".into() };
    let asked = (0..100).map(|_| host.ask(&stat));
    for (reply, _) in futures_util::future::join_all(asked).await {
        assert!(matches!(reply, Reply::Stat(_)), "{reply:?}");
    }
    let began = Instant::now();
    for _ in 0..200 {
        host.ask(&stat).await;
    }
    println!("{:?} for each operation on a warm worker", began.elapsed() / 200);
}

#[tokio::test]
async fn a_port_of_the_machine_is_reached_through_the_link() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        connection.read_to_end(&mut all).await.unwrap();
        connection.write_all(&all).await.unwrap();
    });
    let (reply, stream) = host.ask(&Request::ConnectPort { port }).await;
    assert_eq!(reply, Reply::Done);
    let (mut stream, early) = stream.into_inner();
    assert!(early.is_empty());
    let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = Vec::new();
    within(stream.read_to_end(&mut received)).await.unwrap();
    assert_eq!(received, sent);
    server.await.unwrap();
    let (reply, _) = host.ask(&Request::ConnectPort { port }).await;
    assert!(matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::ConnectionRefused));
}

#[tokio::test]
async fn a_malformed_stream_ends_alone() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    let mut bad = Framed::new(host.link.open().await.unwrap(), limits());
    bad.send_message(&"not a request").await.unwrap();
    let reply: Reply = within(bad.receive_message()).await.unwrap();
    assert!(matches!(&reply, Reply::Failed(error) if error.code == GuestErrorCode::BadRequest));
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[1, 255, 255, 255, 255], &[2, 0, 0, 0, 1, 9], &[0; 64], &[1]]
    {
        let mut stream = host.link.open().await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
    }
    assert_eq!(host.ask(&Request::Ping).await.0, Reply::Done);
    assert!(!host.link.is_closed());
}

#[tokio::test]
async fn a_lower_epoch_is_refused_even_by_the_next_keeper() {
    let mut machine = TestMachine::start();
    machine.epoch = 5;
    drop(machine.link().await);
    machine.kill_keeper().await;
    machine.start_keeper();
    let stream = within(machine.dialled.recv()).await.unwrap();
    let offer = HostOffer { sandbox: "test".into(), secret: SECRET, epoch: 4, unix_ms: 0 };
    assert!(welcome(stream, offer).await.is_err());
    let host = machine.host().await;
    assert_eq!(host.ask(&Request::Ping).await.0, Reply::Done);
}

#[tokio::test]
async fn a_server_that_took_over_is_served_while_the_one_before_holds_its_end_open() {
    let mut machine = TestMachine::start();
    let stopped = machine.host().await;
    machine.epoch = 2;
    machine.replaced.notify_one();
    let host = machine.host().await;
    assert_eq!(host.ask(&Request::Ping).await.0, Reply::Done);
    within(stopped.link.closed()).await;
}

#[tokio::test]
async fn a_replaced_socket_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let first = tokio::net::UnixListener::bind(&path).unwrap();
    let mut dial = UnixDial::new(path.clone());
    dial.dial().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1500), dial.replaced()).await.is_err());
    let second = tokio::net::UnixListener::bind(folder.path().join("new")).unwrap();
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    within(dial.replaced()).await;
    dial.dial().await.unwrap();
    within(second.accept()).await.unwrap();
    drop(first);
}

#[tokio::test]
async fn a_host_that_drops_the_event_stream_is_dialled_again() {
    let mut machine = TestMachine::start();
    let host = machine.host().await;
    drop(host.events);
    within(host.link.closed()).await;
    let host = machine.host().await;
    assert_eq!(host.ask(&Request::Ping).await.0, Reply::Done);
}

/// A task that wakes itself would keep a core busy in each of two hundred sandboxes.
#[tokio::test]
async fn an_idle_keeper_sleeps() {
    use rustix::time::{ClockId, clock_gettime};
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut machine = TestMachine::start();
    let mut host = machine.host().await;
    host.begin(shell("sleep 60")).await;
    host.resume(&HostRecord::default()).await;
    host.follow_one(&mut HostRecord::default()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = used();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let spent = used() - before;
    assert!(spent < Duration::from_millis(50), "{spent:?} of processor time in two idle seconds");
}
