//! The hello: both sides prove that they know the sandbox's secret and agree on a protocol generation and an epoch.
//!
//! Flow: the guest sends a nonce and the range of generations it speaks. The host answers with the generation it chose, the
//! sandbox's name, epoch, time and entropy, and proves that it knows the secret. The guest rejects an epoch lower than one it
//! has served, or proves itself in turn. Then the byte stream belongs to yamux. One deadline covers the whole exchange.
//!
//! The JSON of these messages is frozen (`docs/protocol.md`): it is exchanged before either side knows the other's generation.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::preamble::{PREAMBLE, skip_to_preamble};
use crate::streams::{Duplex, Link};

/// The newest protocol generation this build speaks. A link uses the lower of both sides' newest.
pub const GENERATION: u32 = 2;
/// The oldest generation this build speaks: the one before its own, so that sandboxes outlive an upgrade of the server.
pub const OLDEST_GENERATION: u32 = if GENERATION > 1 { GENERATION - 1 } else { 1 };
/// The generations of this build.
const SUPPORTED: Generations = Generations { oldest: OLDEST_GENERATION, newest: GENERATION };
/// A hello of ours is about 300 bytes.
const MAX_HELLO_BYTES: usize = 4096;
/// Long enough for a busy machine's first dial, short enough that a silent peer holds nothing.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// A range of protocol generations, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Generations {
    oldest: u32,
    newest: u32,
}

impl Generations {
    /// The newest generation that both sides speak.
    fn common(self, other: Self) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

/// The values that the host sends to a guest in its hello, and the secret that proves them.
#[derive(Debug, Clone)]
pub struct HostOffer {
    /// The sandbox's name; the guest knows no other.
    pub sandbox: String,
    /// The secret that this sandbox shares with the host.
    pub secret: [u8; 32],
    /// The lease under which the host acts. A guest rejects a host whose lease is older than one it has served.
    pub epoch: u64,
    /// The host's clock, in milliseconds since the Unix epoch.
    pub unix_ms: i64,
}

/// The values from the hello of a host that has proven itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The sandbox's name, as the host calls it.
    pub sandbox: String,
    /// The generation that both sides speak on this link.
    pub generation: u32,
    /// The host's lease: the guest rejects lower ones from now on.
    pub epoch: u64,
    /// The host's clock, in milliseconds since the Unix epoch.
    pub unix_ms: i64,
    /// Fresh random bytes, for a machine restored from a snapshot.
    pub entropy: [u8; 32],
}

/// Why a link could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The stream failed or ended.
    #[error("exchange hellos")]
    Io(#[from] std::io::Error),
    /// The other side did not finish its hello in time.
    #[error("no hello within {} s", HELLO_TIMEOUT.as_secs())]
    Deadline,
    /// The other side sent something that is no hello.
    #[error("malformed hello")]
    Malformed,
    /// The guest and this build have no generation in common.
    #[error(
        "the guest speaks generations {oldest} to {newest}, this build {OLDEST_GENERATION} to {GENERATION}"
    )]
    Generation {
        /// The oldest generation of the guest.
        oldest: u32,
        /// The newest generation of the guest.
        newest: u32,
    },
    /// The other side does not know the secret.
    #[error("the other side could not prove itself")]
    Unproven,
    /// The guest has served a newer epoch.
    #[error("epoch {offered} is stale: the guest has served {served}")]
    StaleEpoch {
        /// The epoch of the host.
        offered: u64,
        /// The highest epoch that the guest has served.
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

/// Makes a link of a byte stream that a sandbox opened (host side).
pub async fn welcome(stream: impl Duplex, offer: HostOffer) -> Result<Link, HelloError> {
    within_timeout(welcome_guest(stream, offer, SUPPORTED)).await
}

/// Makes a link of a byte stream that reaches the host (guest side).
pub async fn join(
    stream: impl Duplex,
    secret: &[u8; 32],
    lowest_epoch: u64,
) -> Result<(Link, Welcome), HelloError> {
    within_timeout(join_host(stream, secret, lowest_epoch, SUPPORTED)).await
}

async fn within_timeout<T>(hello: impl Future<Output = Result<T, HelloError>>) -> Result<T, HelloError> {
    tokio::time::timeout(HELLO_TIMEOUT, hello).await.unwrap_or(Err(HelloError::Deadline))
}

async fn welcome_guest(
    mut stream: impl Duplex,
    offer: HostOffer,
    supported: Generations,
) -> Result<Link, HelloError> {
    stream.write_all(&PREAMBLE).await?;
    skip_to_preamble(&mut stream).await?;
    let guest_bytes = receive(&mut stream).await?;
    let guest: GuestHello = parse(&guest_bytes)?;
    let spoken = Generations { oldest: guest.oldest, newest: guest.newest };
    let Some(generation) = supported.common(spoken) else {
        return Err(HelloError::Generation { oldest: guest.oldest, newest: guest.newest });
    };
    let hello = HostHello {
        generation,
        sandbox: offer.sandbox,
        epoch: offer.epoch,
        unix_ms: offer.unix_ms,
        entropy: random()?,
        nonce: random()?,
    };
    let host_bytes = serde_json::to_vec(&hello).map_err(|_| HelloError::Malformed)?;
    // The proofs are over the bytes as sent, not over parsed values: both sides sign the same transcript.
    send(&mut stream, &host_bytes).await?;
    let proof = Proof { mac: prove(&offer.secret, HelloSide::Host, &guest_bytes, &host_bytes) };
    send(&mut stream, &serde_json::to_vec(&proof).map_err(|_| HelloError::Malformed)?).await?;
    match parse(&receive(&mut stream).await?)? {
        GuestAnswer::StaleEpoch { served } => Err(HelloError::StaleEpoch { offered: offer.epoch, served }),
        GuestAnswer::Proof(proof) => {
            check(&offer.secret, HelloSide::Guest, &guest_bytes, &host_bytes, &proof.mac)?;
            Ok(Link::over(stream, yamux::Mode::Server, generation))
        }
    }
}

async fn join_host(
    mut stream: impl Duplex,
    secret: &[u8; 32],
    lowest_epoch: u64,
    supported: Generations,
) -> Result<(Link, Welcome), HelloError> {
    // A fresh nonce for each link: a recorded proof of the host is of no use on another one.
    let hello = GuestHello { oldest: supported.oldest, newest: supported.newest, nonce: random()? };
    let guest_bytes = serde_json::to_vec(&hello).map_err(|_| HelloError::Malformed)?;
    stream.write_all(&PREAMBLE).await?;
    send(&mut stream, &guest_bytes).await?;
    skip_to_preamble(&mut stream).await?;
    let host_bytes = receive(&mut stream).await?;
    let host: HostHello = parse(&host_bytes)?;
    let proof: Proof = parse(&receive(&mut stream).await?)?;
    // Before anything that the host said is used: only then is it known to come from the host.
    check(secret, HelloSide::Host, &guest_bytes, &host_bytes, &proof.mac)?;
    if !(supported.oldest..=supported.newest).contains(&host.generation) {
        return Err(HelloError::Malformed);
    }
    // Fence: a host with an older lease has lost the sandbox to another server and must not give orders any more. The answer
    // tells it so.
    if host.epoch < lowest_epoch {
        let answer = GuestAnswer::StaleEpoch { served: lowest_epoch };
        send(&mut stream, &serde_json::to_vec(&answer).map_err(|_| HelloError::Malformed)?).await?;
        return Err(HelloError::StaleEpoch { offered: host.epoch, served: lowest_epoch });
    }
    let answer =
        GuestAnswer::Proof(Proof { mac: prove(secret, HelloSide::Guest, &guest_bytes, &host_bytes) });
    send(&mut stream, &serde_json::to_vec(&answer).map_err(|_| HelloError::Malformed)?).await?;
    let welcome = Welcome {
        sandbox: host.sandbox,
        generation: host.generation,
        epoch: host.epoch,
        unix_ms: host.unix_ms,
        entropy: host.entropy,
    };
    Ok((Link::over(stream, yamux::Mode::Client, welcome.generation), welcome))
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
    // The peer has not proven itself: its length must not decide how much memory is allocated.
    if length > MAX_HELLO_BYTES {
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

/// The side that proves itself. It is part of the signed bytes, so that a proof can't be sent back to its author.
#[derive(Clone, Copy)]
enum HelloSide {
    Host,
    Guest,
}

fn transcript(secret: &[u8; 32], side: HelloSide, guest: &[u8], host: &[u8]) -> Hmac<Sha256> {
    // HMAC pads a short key with zeros to one block, so this is the same key without a fallible call.
    let mut key = [0; 64];
    key[..secret.len()].copy_from_slice(secret);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
    mac.update(match side {
        HelloSide::Host => b"sandyard hello: host ",
        HelloSide::Guest => b"sandyard hello: guest",
    });
    for part in [guest, host] {
        // The length keeps the border between the two hellos fixed: no other pair of hellos gives the same bytes.
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

fn prove(secret: &[u8; 32], side: HelloSide, guest: &[u8], host: &[u8]) -> [u8; 32] {
    transcript(secret, side, guest, host).finalize().into_bytes().into()
}

fn check(
    secret: &[u8; 32],
    side: HelloSide,
    guest: &[u8],
    host: &[u8],
    mac: &[u8; 32],
) -> Result<(), HelloError> {
    transcript(secret, side, guest, host).verify_slice(mac).map_err(|_| HelloError::Unproven)
}

#[cfg(test)]
#[path = "generation_tests.rs"]
mod generation_tests;
#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
