use tokio::io::duplex;

use super::*;

const SECRET: [u8; 32] = [7; 32];

fn offer(epoch: u64) -> HostOffer {
    HostOffer { sandbox: "s-1".into(), secret: SECRET, epoch, unix_ms: 42 }
}

#[tokio::test]
async fn both_sides_agree() {
    let (host, guest) = duplex(1024);
    let (host, guest) = tokio::join!(welcome(host, offer(3)), join(guest, &SECRET, 2));
    host.unwrap();
    let (_, welcome) = guest.unwrap();
    assert_eq!((welcome.sandbox.as_str(), welcome.epoch, welcome.unix_ms), ("s-1", 3, 42));
}

#[tokio::test]
async fn leftovers_of_an_earlier_link_do_not_matter() {
    let (mut host, mut guest) = duplex(1024);
    host.write_all(b"\x00\x00\x00\x08leftover").await.unwrap();
    guest.write_all(&PREAMBLE[..9]).await.unwrap();
    let (host, guest) = tokio::join!(welcome(host, offer(1)), join(guest, &SECRET, 0));
    host.unwrap();
    guest.unwrap();
}

#[tokio::test]
async fn a_wrong_secret_is_refused_by_the_guest() {
    let (host, guest) = duplex(1024);
    let (host, guest) = tokio::join!(welcome(host, offer(1)), join(guest, &[8; 32], 0));
    assert!(host.is_err());
    assert!(matches!(guest, Err(HelloError::Unproven)));
}

#[tokio::test]
async fn a_guest_that_can_not_prove_itself_is_refused() {
    let (host, mut guest) = duplex(4096);
    let imposter = async {
        guest.write_all(&PREAMBLE).await.unwrap();
        let hello = GuestHello { oldest: 1, newest: 1, nonce: [0; 32] };
        send(&mut guest, &serde_json::to_vec(&hello).unwrap()).await.unwrap();
        let answer = GuestAnswer::Proof(Proof { mac: [0; 32] });
        send(&mut guest, &serde_json::to_vec(&answer).unwrap()).await.unwrap();
        guest
    };
    let (host, _guest) = tokio::join!(welcome(host, offer(1)), imposter);
    assert!(matches!(host, Err(HelloError::Unproven)));
}

#[tokio::test]
async fn the_hosts_own_proof_sent_back_is_refused() {
    let (host, mut guest) = duplex(4096);
    let mirror = async {
        guest.write_all(&PREAMBLE).await.unwrap();
        let hello = GuestHello { oldest: 1, newest: 1, nonce: [0; 32] };
        send(&mut guest, &serde_json::to_vec(&hello).unwrap()).await.unwrap();
        skip_to_preamble(&mut guest).await.unwrap();
        receive(&mut guest).await.unwrap();
        let proof: Proof = parse(&receive(&mut guest).await.unwrap()).unwrap();
        send(&mut guest, &serde_json::to_vec(&GuestAnswer::Proof(proof)).unwrap()).await.unwrap();
        guest
    };
    let (host, _guest) = tokio::join!(welcome(host, offer(1)), mirror);
    assert!(matches!(host, Err(HelloError::Unproven)));
}

#[tokio::test]
async fn a_stale_epoch_is_told_to_both() {
    let (host, guest) = duplex(1024);
    let (host, guest) = tokio::join!(welcome(host, offer(4)), join(guest, &SECRET, 5));
    assert!(matches!(host, Err(HelloError::StaleEpoch { offered: 4, served: 5 })));
    assert!(matches!(guest, Err(HelloError::StaleEpoch { offered: 4, served: 5 })));
}

#[tokio::test]
async fn an_unknown_generation_is_named() {
    let (host, mut guest) = duplex(4096);
    let newer = async {
        guest.write_all(&PREAMBLE).await.unwrap();
        let hello = GuestHello { oldest: 90, newest: 91, nonce: [0; 32] };
        send(&mut guest, &serde_json::to_vec(&hello).unwrap()).await.unwrap();
        guest
    };
    let (host, _guest) = tokio::join!(welcome(host, offer(1)), newer);
    assert!(matches!(host, Err(HelloError::Generation { oldest: 90, newest: 91 })));
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    let (host, _silent) = duplex(4096);
    assert!(matches!(welcome(host, offer(1)).await, Err(HelloError::Deadline)));
}

#[tokio::test]
async fn a_huge_length_is_refused_before_memory_is_taken() {
    let (host, mut guest) = duplex(4096);
    let hostile = async {
        guest.write_all(&PREAMBLE).await.unwrap();
        guest.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        guest
    };
    let (host, _guest) = tokio::join!(welcome(host, offer(1)), hostile);
    assert!(matches!(host, Err(HelloError::Malformed)));
}

/// Nobody gets a link without the secret, whatever they send, and neither side hangs on an end.
#[test]
fn fuzz_hello() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "hello").run(|bytes| {
        runtime.block_on(async {
            for side in [0, 1] {
                let (own, mut stranger) = duplex(128 * 1024);
                stranger.write_all(bytes).await.unwrap();
                stranger.shutdown().await.unwrap();
                let refused = if side == 0 {
                    welcome(own, offer(1)).await.is_err()
                } else {
                    join(own, &SECRET, 0).await.is_err()
                };
                assert!(refused);
            }
        });
    });
}
