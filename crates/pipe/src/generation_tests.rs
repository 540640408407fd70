//! Peers of generation 1 as commit 86bf26f wrote them, in bytes: today's hello and those of later builds must get along with
//! them. Nothing here uses the types of the hello, so a change of those can't change the peers.

use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{DuplexStream, duplex};

use super::*;

const SECRET: [u8; 32] = [7; 32];
/// The build that will follow this one, as far as the hello is concerned.
const NEXT: Generations = Generations { oldest: GENERATION, newest: GENERATION + 1 };
/// The mark at the start of a link, frozen.
const FROZEN_PREAMBLE: [u8; 32] = [
    0x9e, 0x41, 0xd7, 0x0b, 0xc5, 0x68, 0xf2, 0x13, 0x7a, 0xb6, 0x2c, 0xe9, 0x54, 0x8f, 0x01, 0xdb, 0x36,
    0xa8, 0x77, 0xfc, 0x19, 0x60, 0xbe, 0x45, 0xe3, 0x0d, 0x92, 0x5a, 0xc7, 0x28, 0x84, 0xf1,
];
const GUEST_HELLO: &str = r#"{"oldest":1,"newest":1,"nonce":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]}"#;
const HOST_HELLO: &str = r#"{"generation":1,"sandbox":"s-1","epoch":3,"unix_ms":42,"entropy":[32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63],"nonce":[64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95]}"#;
/// Proofs over the two hellos above under `SECRET`, made by another implementation of HMAC-SHA-256.
const HOST_PROOF: &str = "aeff0cc448714d1f2fb05ac7d40c57aaf4a24014a1a0e485ce01fffe4a99bb02";
const GUEST_PROOF: &str = "d37dd8893bf22360957bdf5b0eb2bd69b67805a7cbab43396637f695f0485a21";

fn offer() -> HostOffer {
    HostOffer { sandbox: "s-1".into(), secret: SECRET, epoch: 3, unix_ms: 42 }
}

async fn write(stream: &mut DuplexStream, message: &str) {
    stream.write_all(&u32::try_from(message.len()).unwrap().to_be_bytes()).await.unwrap();
    stream.write_all(message.as_bytes()).await.unwrap();
}

async fn read(stream: &mut DuplexStream) -> String {
    let mut message = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut message).await.unwrap();
    String::from_utf8(message).unwrap()
}

async fn read_preamble(stream: &mut DuplexStream) {
    let mut preamble = [0; 32];
    stream.read_exact(&mut preamble).await.unwrap();
    assert_eq!(preamble, FROZEN_PREAMBLE);
}

fn frozen_proof(label: &str, guest: &str, host: &str) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&SECRET).unwrap();
    mac.update(label.as_bytes());
    for hello in [guest, host] {
        mac.update(&(hello.len() as u64).to_be_bytes());
        mac.update(hello.as_bytes());
    }
    mac.finalize().into_bytes().to_vec()
}

/// A guest of generation 1. Returns its end of the link and the host's hello.
async fn guest_of_generation_1(mut stream: DuplexStream, hello: &str) -> (Link, Value) {
    stream.write_all(&FROZEN_PREAMBLE).await.unwrap();
    write(&mut stream, hello).await;
    read_preamble(&mut stream).await;
    let host = read(&mut stream).await;
    let proof: Value = serde_json::from_str(&read(&mut stream).await).unwrap();
    assert_eq!(proof, json!({ "mac": frozen_proof("sandyard hello: host ", hello, &host) }));
    let own = json!({ "proof": { "mac": frozen_proof("sandyard hello: guest", hello, &host) } });
    write(&mut stream, &own.to_string()).await;
    (Link::over(stream, yamux::Mode::Client, 1), serde_json::from_str(&host).unwrap())
}

/// A host of generation 1, which answers every guest that still speaks it.
async fn host_of_generation_1(mut stream: DuplexStream) -> (Link, Value) {
    stream.write_all(&FROZEN_PREAMBLE).await.unwrap();
    read_preamble(&mut stream).await;
    let guest = read(&mut stream).await;
    write(&mut stream, HOST_HELLO).await;
    let proof = json!({ "mac": frozen_proof("sandyard hello: host ", &guest, HOST_HELLO) });
    write(&mut stream, &proof.to_string()).await;
    let answer: Value = serde_json::from_str(&read(&mut stream).await).unwrap();
    let expected = frozen_proof("sandyard hello: guest", &guest, HOST_HELLO);
    assert_eq!(answer, json!({ "proof": { "mac": expected } }));
    (Link::over(stream, yamux::Mode::Server, 1), serde_json::from_str(&guest).unwrap())
}

/// One request and its reply as generation 1 frames them: kind, length, JSON.
async fn exchange(host: &Link, guest: &Link) {
    const REQUEST: &[u8] = b"\x01\x00\x00\x00\x0d{\"op\":\"ping\"}";
    const REPLY: &[u8] = b"\x01\x00\x00\x00\x06\"done\"";
    let ask = async {
        let mut stream = host.open().await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let mut reply = vec![0; REPLY.len()];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply, REPLY);
    };
    let answer = async {
        let mut stream = guest.accept().await.unwrap();
        let mut request = vec![0; REQUEST.len()];
        stream.read_exact(&mut request).await.unwrap();
        assert_eq!(request, REQUEST);
        stream.write_all(REPLY).await.unwrap();
        stream
    };
    tokio::join!(ask, answer);
}

#[test]
fn proofs_and_hellos_have_their_frozen_bytes() {
    let (guest, host) = (GUEST_HELLO.as_bytes(), HOST_HELLO.as_bytes());
    assert_eq!(hex::encode(prove(&SECRET, HelloSide::Host, guest, host)), HOST_PROOF);
    assert_eq!(hex::encode(prove(&SECRET, HelloSide::Guest, guest, host)), GUEST_PROOF);
    assert_eq!(PREAMBLE, FROZEN_PREAMBLE);
    let guest: GuestHello = parse(guest).unwrap();
    assert_eq!(serde_json::to_string(&guest).unwrap(), GUEST_HELLO);
    let host: HostHello = parse(host).unwrap();
    assert_eq!(serde_json::to_string(&host).unwrap(), HOST_HELLO);
}

#[tokio::test]
async fn a_guest_of_generation_1_is_served() {
    let (host, guest) = duplex(64 * 1024);
    let welcome = welcome_guest(host, offer(), SUPPORTED);
    let (host, (guest, hello)) = tokio::join!(welcome, guest_of_generation_1(guest, GUEST_HELLO));
    let host = host.unwrap();
    assert_eq!((host.generation(), &hello["generation"]), (1, &json!(1)));
    assert_eq!((&hello["sandbox"], &hello["epoch"]), (&json!("s-1"), &json!(3)));
    exchange(&host, &guest).await;
}

#[tokio::test]
async fn this_guest_serves_a_host_of_generation_1() {
    let (host, guest) = duplex(64 * 1024);
    let join = join_host(guest, &SECRET, 2, SUPPORTED);
    let ((host, hello), guest) = tokio::join!(host_of_generation_1(host), join);
    let (guest, welcome) = guest.unwrap();
    assert_eq!((guest.generation(), welcome.generation, welcome.epoch), (1, 1, 3));
    assert_eq!(hello["oldest"], json!(1));
    exchange(&host, &guest).await;
}

#[tokio::test]
async fn two_builds_of_the_next_generation_speak_it() {
    let (host, guest) = duplex(64 * 1024);
    let (host, guest) = tokio::join!(welcome_guest(host, offer(), NEXT), join_host(guest, &SECRET, 0, NEXT));
    assert_eq!((host.unwrap().generation(), guest.unwrap().0.generation()), (NEXT.newest, NEXT.newest));
}

#[tokio::test]
async fn a_hello_with_members_of_the_future_is_understood() {
    let hello = GUEST_HELLO.replacen('{', r#"{"future":{"a":[1]},"#, 1);
    let (host, guest) = duplex(64 * 1024);
    let welcome = welcome_guest(host, offer(), SUPPORTED);
    let (host, (guest, _)) = tokio::join!(welcome, guest_of_generation_1(guest, &hello));
    exchange(&host.unwrap(), &guest).await;
}

#[test]
fn ranges_meet_at_the_newest_generation_of_both() {
    let range = |oldest, newest| Generations { oldest, newest };
    for (one, other, common) in [
        (range(1, 1), range(1, 1), Some(1)),
        (range(1, 2), range(1, 1), Some(1)),
        (range(1, 2), range(2, 3), Some(2)),
        (range(2, 3), range(1, 1), None),
    ] {
        assert_eq!((one.common(other), other.common(one)), (common, common));
    }
}
