//! The hello: who is there, in which generation, under which epoch, proven both ways.
//!
//! Flow: guest sends a nonce and the generations it speaks; host answers with its identity for the guest, epoch, time and
//! entropy, and proves that it knows the secret; the guest refuses an epoch lower than one it has served, or proves
//! itself in turn; then the byte stream belongs to yamux. All of it under one deadline.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::preamble::{PREAMBLE, skip_to_preamble};
use crate::streams::{Duplex, Link};

/// The newest protocol generation this build speaks. A link uses the lower of both sides' newest.
pub const GENERATION: u32 = 1;
/// The oldest generation this build still speaks.
const OLDEST_GENERATION: u32 = 1;
/// A hello of ours is about 300 bytes.
const MESSAGE_BYTES: usize = 4096;
/// Long enough for a busy machine's first dial, short enough that a silent peer holds nothing.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the host says of itself and of the guest.
#[derive(Debug, Clone)]
pub struct HostOffer {
    /// The sandbox's name; the guest has no other.
    pub sandbox: String,
    /// Shared secret of this sandbox.
    pub secret: [u8; 32],
    /// The lease under which the host speaks.
    pub epoch: u64,
    /// The host's time.
    pub unix_ms: i64,
}

/// What the guest learns from a proven host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The sandbox's name.
    pub sandbox: String,
    /// Generation spoken on this link.
    pub generation: u32,
    /// Serve no lower epoch from now on.
    pub epoch: u64,
    /// The host's time.
    pub unix_ms: i64,
    /// Fresh random bytes, for a machine restored from a snapshot.
    pub entropy: [u8; 32],
}

/// A link could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The stream failed or ended.
    #[error("exchange hellos")]
    Io(#[from] std::io::Error),
    /// The other side took too long.
    #[error("no hello within {} s", DEADLINE.as_secs())]
    Deadline,
    /// The other side said something else.
    #[error("malformed hello")]
    Malformed,
    /// No generation is spoken by both sides.
    #[error(
        "the guest speaks generations {oldest} to {newest}, this build {OLDEST_GENERATION} to {GENERATION}"
    )]
    Generation {
        /// Oldest of the guest.
        oldest: u32,
        /// Newest of the guest.
        newest: u32,
    },
    /// The other side does not know the secret.
    #[error("the other side could not prove itself")]
    Unproven,
    /// The guest has served a newer epoch.
    #[error("epoch {offered} is stale: the guest has served {served}")]
    StaleEpoch {
        /// What the host offered.
        offered: u64,
        /// What the guest has seen.
        served: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct GuestHello {
    oldest: u32,
    newest: u32,
    nonce: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct HostHello {
    generation: u32,
    sandbox: String,
    epoch: u64,
    unix_ms: i64,
    entropy: [u8; 32],
    nonce: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct Proof {
    mac: [u8; 32],
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GuestAnswer {
    Proof(Proof),
    StaleEpoch { served: u64 },
}

/// Host side: makes a link of a byte stream that a sandbox opened.
pub async fn welcome(stream: impl Duplex, offer: HostOffer) -> Result<Link, HelloError> {
    within_deadline(welcome_now(stream, offer)).await
}

/// Guest side: makes a link of a byte stream that reaches the host.
pub async fn join(
    stream: impl Duplex,
    secret: &[u8; 32],
    lowest_epoch: u64,
) -> Result<(Link, Welcome), HelloError> {
    within_deadline(join_now(stream, secret, lowest_epoch)).await
}

async fn within_deadline<T>(hello: impl Future<Output = Result<T, HelloError>>) -> Result<T, HelloError> {
    tokio::time::timeout(DEADLINE, hello).await.unwrap_or(Err(HelloError::Deadline))
}

async fn welcome_now(mut stream: impl Duplex, offer: HostOffer) -> Result<Link, HelloError> {
    stream.write_all(&PREAMBLE).await?;
    skip_to_preamble(&mut stream).await?;
    let guest_bytes = receive(&mut stream).await?;
    let guest: GuestHello = parse(&guest_bytes)?;
    if guest.newest < OLDEST_GENERATION || guest.oldest > GENERATION {
        return Err(HelloError::Generation { oldest: guest.oldest, newest: guest.newest });
    }
    let hello = HostHello {
        generation: guest.newest.min(GENERATION),
        sandbox: offer.sandbox,
        epoch: offer.epoch,
        unix_ms: offer.unix_ms,
        entropy: random()?,
        nonce: random()?,
    };
    let host_bytes = serde_json::to_vec(&hello).map_err(|_| HelloError::Malformed)?;
    send(&mut stream, &host_bytes).await?;
    let proof = Proof { mac: prove(&offer.secret, Side::Host, &guest_bytes, &host_bytes) };
    send(&mut stream, &serde_json::to_vec(&proof).map_err(|_| HelloError::Malformed)?).await?;
    match parse(&receive(&mut stream).await?)? {
        GuestAnswer::StaleEpoch { served } => Err(HelloError::StaleEpoch { offered: offer.epoch, served }),
        GuestAnswer::Proof(proof) => {
            check(&offer.secret, Side::Guest, &guest_bytes, &host_bytes, &proof.mac)?;
            Ok(Link::over(stream, yamux::Mode::Server))
        }
    }
}

async fn join_now(
    mut stream: impl Duplex,
    secret: &[u8; 32],
    lowest_epoch: u64,
) -> Result<(Link, Welcome), HelloError> {
    let hello = GuestHello { oldest: OLDEST_GENERATION, newest: GENERATION, nonce: random()? };
    let guest_bytes = serde_json::to_vec(&hello).map_err(|_| HelloError::Malformed)?;
    stream.write_all(&PREAMBLE).await?;
    send(&mut stream, &guest_bytes).await?;
    skip_to_preamble(&mut stream).await?;
    let host_bytes = receive(&mut stream).await?;
    let host: HostHello = parse(&host_bytes)?;
    let proof: Proof = parse(&receive(&mut stream).await?)?;
    check(secret, Side::Host, &guest_bytes, &host_bytes, &proof.mac)?;
    if !(OLDEST_GENERATION..=GENERATION).contains(&host.generation) {
        return Err(HelloError::Malformed);
    }
    if host.epoch < lowest_epoch {
        let answer = GuestAnswer::StaleEpoch { served: lowest_epoch };
        send(&mut stream, &serde_json::to_vec(&answer).map_err(|_| HelloError::Malformed)?).await?;
        return Err(HelloError::StaleEpoch { offered: host.epoch, served: lowest_epoch });
    }
    let answer = GuestAnswer::Proof(Proof { mac: prove(secret, Side::Guest, &guest_bytes, &host_bytes) });
    send(&mut stream, &serde_json::to_vec(&answer).map_err(|_| HelloError::Malformed)?).await?;
    let welcome = Welcome {
        sandbox: host.sandbox,
        generation: host.generation,
        epoch: host.epoch,
        unix_ms: host.unix_ms,
        entropy: host.entropy,
    };
    Ok((Link::over(stream, yamux::Mode::Client), welcome))
}

async fn send(stream: &mut impl Duplex, message: &[u8]) -> Result<(), HelloError> {
    let length = u32::try_from(message.len()).map_err(|_| HelloError::Malformed)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(message);
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(())
}

async fn receive(stream: &mut impl Duplex) -> Result<Vec<u8>, HelloError> {
    let length = stream.read_u32().await? as usize;
    if length > MESSAGE_BYTES {
        return Err(HelloError::Malformed);
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

fn parse<T: DeserializeOwned>(message: &[u8]) -> Result<T, HelloError> {
    serde_json::from_slice(message).map_err(|_| HelloError::Malformed)
}

fn random() -> Result<[u8; 32], HelloError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| HelloError::Io(std::io::Error::other(error)))?;
    Ok(bytes)
}

/// Who proves; part of what is signed, so that a proof can't be sent back.
#[derive(Clone, Copy)]
enum Side {
    Host,
    Guest,
}

fn transcript(secret: &[u8; 32], side: Side, guest: &[u8], host: &[u8]) -> Hmac<Sha256> {
    // HMAC pads a short key with zeros to one block, so this is the same key without a fallible call.
    let mut key = [0; 64];
    key[..secret.len()].copy_from_slice(secret);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
    mac.update(match side {
        Side::Host => b"sandyard hello: host ",
        Side::Guest => b"sandyard hello: guest",
    });
    for part in [guest, host] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

fn prove(secret: &[u8; 32], side: Side, guest: &[u8], host: &[u8]) -> [u8; 32] {
    transcript(secret, side, guest, host).finalize().into_bytes().into()
}

fn check(secret: &[u8; 32], side: Side, guest: &[u8], host: &[u8], mac: &[u8; 32]) -> Result<(), HelloError> {
    transcript(secret, side, guest, host).verify_slice(mac).map_err(|_| HelloError::Unproven)
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
