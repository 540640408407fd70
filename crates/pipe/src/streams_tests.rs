use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;
use crate::GENERATION;

fn pair() -> (Link, Link) {
    let (host, guest) = duplex(64 * 1024);
    (Link::over(host, yamux::Mode::Server, GENERATION), Link::over(guest, yamux::Mode::Client, GENERATION))
}

async fn echo_one(link: &Link) {
    let mut stream = link.accept().await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream.shutdown().await.unwrap();
}

async fn call(link: &Link, payload: &[u8]) -> Vec<u8> {
    let mut stream = link.open().await.unwrap();
    stream.write_all(payload).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn streams_open_from_both_sides() {
    let (host, guest) = pair();
    let (_, answer) = tokio::join!(echo_one(&guest), call(&host, b"to guest"));
    assert_eq!(answer, b"to guest");
    let (_, answer) = tokio::join!(echo_one(&host), call(&guest, b"to host"));
    assert_eq!(answer, b"to host");
}

#[tokio::test]
async fn more_than_a_window_flows() {
    let (host, guest) = pair();
    let payload = vec![5_u8; 3 * 1024 * 1024];
    let reader = async {
        let mut stream = guest.accept().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        bytes.len()
    };
    let writer = async {
        let mut stream = host.open().await.unwrap();
        stream.write_all(&payload).await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    };
    let (length, _stream) = tokio::join!(reader, writer);
    assert_eq!(length, payload.len());
}

#[tokio::test]
async fn closing_one_side_ends_the_other() {
    let (host, guest) = pair();
    host.close();
    guest.closed().await;
    assert!(guest.accept().await.is_none());
    assert_eq!(guest.open().await.err(), Some(LinkClosed));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_link() {
    let (host, guest) = pair();
    let second = host.clone();
    drop(host);
    assert!(!guest.is_closed());
    drop(second);
    guest.closed().await;
}

#[tokio::test]
async fn garbage_instead_of_frames_ends_the_link_only() {
    let (host, mut hostile) = duplex(1024);
    let link = Link::over(host, yamux::Mode::Server, GENERATION);
    hostile.write_all(&[0xff; 64]).await.unwrap();
    link.closed().await;
}
