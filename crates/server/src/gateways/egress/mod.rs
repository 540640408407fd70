//! The way out of a sandbox: connections that its programs make through the proxy in it, judged and made here.
//!
//! Denied unless the job's policy names the host. A name is resolved once, on the host, and only the addresses that were
//! judged are connected to; private ones never, but for the operator's exceptions. Every attempt is told to the job's record
//! before it happens, and again, with its bytes, when it is over.

mod addresses;
mod http;
mod pace;
mod passage;
mod policy;
mod server_name;
mod socks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

pub use addresses::PrivateException;
pub(crate) use policy::Policy;

use crate::audit::{AuditActor, AuditEntry, AuditFacts, EgressFacts, cut};
use crate::gateways::notes::OwnerNotes;
use addresses::NoWay;
use pace::Pace;
use passage::Passage;
use policy::{BadHost, Target};
use socks::{Verdict, Wish};

/// Host and port in a record: a name has at most 255 bytes.
pub(crate) const TARGET_BYTES: usize = 300;

/// Bounds on what one job may do with the network.
#[derive(Debug, Clone)]
pub struct EgressLimits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes in both directions over the life of the job's sandbox.
    pub bytes: u64,
}

impl Default for EgressLimits {
    /// npm opens a few dozen connections; 20 GiB is as much as a yard keeps.
    fn default() -> Self {
        Self { connections: 64, bytes: 20 << 30 }
    }
}

/// What happened to one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Host and port as the sandbox named them.
    pub(crate) target: String,
    pub(crate) outcome: Outcome,
}

/// How far an attempt came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It may go on.
    Allowed,
    /// It may not.
    Refused(Refusal),
    /// It is over.
    Closed {
        /// From the sandbox.
        sent: u64,
        /// To the sandbox.
        received: u64,
    },
}

/// Why a connection was not made; the sandbox is told in these words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this is a proxy: it takes CONNECT and requests with a whole http:// address")]
    NotAProxyRequest,
    #[error("{0}")]
    Host(#[from] BadHost),
    #[error("{0} is not among the hosts this job may reach; add it to the job's `egress` list")]
    Denied(String),
    #[error("the tunnel was opened for {allowed} and used for {asked}")]
    OtherName { allowed: String, asked: String },
    #[error("the name leads to a private address, which only the operator can allow")]
    Private,
    #[error("too many connections at once")]
    Connections,
    #[error("the job has used up the bytes it may send and receive")]
    Bytes,
    #[error("the name can't be resolved")]
    Unresolved,
    #[error("the host can't be connected to")]
    Unreachable,
    #[error("the host gave no proper answer")]
    Upstream,
    #[error("the attempt can't be recorded at the moment")]
    Unrecorded,
}

impl Refusal {
    fn upstream(_: hyper::Error) -> Self {
        Self::Upstream
    }
}

impl From<NoWay> for Refusal {
    fn from(error: NoWay) -> Self {
        match error {
            NoWay::Unresolved => Self::Unresolved,
            NoWay::Private => Self::Private,
            NoWay::Unreachable(_) => Self::Unreachable,
        }
    }
}

/// One job's way out. Dropping it ends every connection.
#[derive(Debug)]
pub(crate) struct Gateway {
    policy: Policy,
    exceptions: Arc<[PrivateException]>,
    pace: Pace,
    connections: Arc<Semaphore>,
    bytes_left: Arc<AtomicU64>,
    attempts: mpsc::Sender<Attempt>,
    /// Where an attempt is recorded before it is made.
    notes: Option<OwnerNotes>,
    tunnels: Tunnels,
}

/// Connections that outlive the request that opened them. They end with the gateway, or when the job is no longer followed.
#[derive(Debug, Default)]
struct Tunnels(Mutex<JoinSet<()>>);

impl Tunnels {
    fn spawn(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(tunnel);
    }

    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Gateway {
    /// Ends every open tunnel.
    pub(crate) fn end_tunnels(&self) {
        self.tunnels.end();
    }

    /// A gateway that tells its attempts to `attempts`, and notes those that it allows before it makes them.
    pub(crate) fn new(
        policy: Policy,
        exceptions: Arc<[PrivateException]>,
        limits: &EgressLimits,
        used_bytes: u64,
        attempts: mpsc::Sender<Attempt>,
        notes: Option<OwnerNotes>,
    ) -> Arc<Self> {
        Arc::new(Self {
            policy,
            exceptions,
            pace: Pace::new(),
            connections: Arc::new(Semaphore::new(limits.connections)),
            bytes_left: Arc::new(AtomicU64::new(limits.bytes.saturating_sub(used_bytes))),
            attempts,
            notes,
            tunnels: Tunnels::default(),
        })
    }

    /// Serves one connection that a program in the sandbox made to the proxy.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        mut read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let Ok(first) = read.read_u8().await else { return };
        let whole = Box::pin(tokio::io::join(std::io::Cursor::new([first]).chain(read), write));
        if first == socks::VERSION {
            // A client that breaks the protocol has lost its connection; that is all.
            let _ = self.serve_socks(whole).await;
        } else {
            http::serve(self, whole).await;
        }
    }

    async fn serve_socks(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    ) -> std::io::Result<()> {
        let target = match socks::wish(&mut stream).await? {
            Wish::Connect(target) => target.map_err(Refusal::from),
            Wish::Unsupported(verdict) => return socks::answer(&mut stream, verdict).await,
        };
        let passage = match target {
            Ok(target) => self.reach(&target).await,
            Err(refusal) => Err(refusal),
        };
        match passage {
            Ok(passage) => {
                socks::answer(&mut stream, Verdict::Connected).await?;
                passage.carry(stream).await;
                Ok(())
            }
            Err(Refusal::Unresolved | Refusal::Unreachable) => {
                socks::answer(&mut stream, Verdict::Unreachable).await
            }
            Err(_) => socks::answer(&mut stream, Verdict::NotAllowed).await,
        }
    }

    /// Connects, if the job may; told either way.
    async fn reach(&self, target: &Target) -> Result<Passage, Refusal> {
        self.pace.turn().await;
        let reached = self.try_reach(target).await;
        if let Err(refusal) = &reached {
            self.tell(target, Outcome::Refused(refusal.clone())).await;
        }
        reached
    }

    async fn try_reach(&self, target: &Target) -> Result<Passage, Refusal> {
        if !self.policy.allows(target) {
            return Err(Refusal::Denied(target.to_string()));
        }
        if self.bytes_left.load(Ordering::Relaxed) == 0 {
            return Err(Refusal::Bytes);
        }
        let permit = Arc::clone(&self.connections).try_acquire_owned().map_err(|_| Refusal::Connections)?;
        self.note(target).await?;
        self.tell(target, Outcome::Allowed).await;
        let stream = addresses::connect(target, &self.exceptions).await?;
        Ok(Passage::new(stream, target.clone(), permit, Arc::clone(&self.bytes_left), self.attempts.clone()))
    }

    /// What can't be recorded does not happen.
    async fn note(&self, target: &Target) -> Result<(), Refusal> {
        let Some(notes) = &self.notes else { return Ok(()) };
        let facts = EgressFacts::allowed(cut(&target.to_string(), TARGET_BYTES));
        let entry = AuditEntry::new(AuditActor::Job, AuditFacts::Egress(facts));
        notes.note(vec![entry]).await.map_err(|_| Refusal::Unrecorded)
    }

    async fn tell(&self, target: &Target, outcome: Outcome) {
        // Nobody listens once the job is over.
        let _ = self.attempts.send(Attempt { target: target.to_string(), outcome }).await;
    }
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
