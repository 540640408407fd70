//! The egress gateway of a job: checks and makes the connections that programs in the sandbox ask for.
//!
//! A connection is denied unless the job's policy names the host (`policy`). The host resolves the name once (`resolver`) and
//! connects only to the checked addresses; private addresses and those of this machine are refused unless the operator excepted
//! them (`addresses`). `http` and `socks` speak with the sandbox's proxy, `connection` carries the bytes and holds them to the
//! allowed name (`greeting`, `http_tunnel`). Every attempt is recorded before it is made, and reported with its bytes when it is over; so is
//! every refused one.

mod addresses;
mod connection;
mod greeting;
mod http;
mod http_messages;
mod http_tunnel;
mod pace;
mod policy;
mod presets;
mod resolver;
mod serving;
mod socks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

pub use addresses::PrivateException;
pub(crate) use policy::EgressPolicy;
pub use presets::egress_preset_names;

use crate::audit::{AuditActor, AuditEntry, AuditFacts, EgressFacts, cut};
use crate::gateways::owner_audit::OwnerAudit;
use addresses::EgressConnectError;
use connection::EgressConnection;
use pace::Pace;
use policy::{BadHost, EgressTarget};
use resolver::NameResolver;

/// Longest host and port in a record; a DNS name has at most 255 bytes.
pub(crate) const MAX_TARGET_BYTES: usize = 300;

/// Limits of one job's network use.
#[derive(Debug, Clone)]
pub struct EgressLimits {
    /// Largest number of connections at once. Further attempts are refused, not queued.
    pub connections: usize,
    /// Bytes in both directions together, over the life of the job.
    pub bytes: u64,
}

impl Default for EgressLimits {
    /// npm opens a few dozen connections. 20 GiB is the default size of a yard's storage.
    fn default() -> Self {
        Self { connections: 64, bytes: 20 << 30 }
    }
}

/// A report about one attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EgressAttempt {
    /// Host and port as the sandbox named them.
    pub(crate) target: String,
    pub(crate) outcome: AttemptOutcome,
}

/// Progress of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// The connection is about to be made.
    Allowed,
    /// The connection was not made, or was ended for its content.
    Refused(EgressRefusal),
    /// The connection is over.
    Closed {
        /// Bytes from the sandbox.
        sent: u64,
        /// Bytes to the sandbox.
        received: u64,
    },
}

/// Why a connection was refused. The sandbox gets this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressRefusal {
    #[error("this is a proxy: it takes CONNECT and requests with a whole http:// address")]
    NotAProxyRequest,
    #[error("{0}")]
    Host(#[from] BadHost),
    #[error("{0} is not among the hosts this job may reach; add it to the job's `egress` list")]
    Denied(String),
    #[error("the tunnel was opened for {allowed} and used for {asked}")]
    OtherName { allowed: String, asked: String },
    #[error("it can't be told for which host this is: port 80 takes HTTP/1 and TLS, sent whole")]
    UnknownHost,
    #[error("the name leads to a private address or to the host itself, which only the operator can allow")]
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

impl EgressRefusal {
    fn upstream(_: hyper::Error) -> Self {
        Self::Upstream
    }
}

impl From<EgressConnectError> for EgressRefusal {
    fn from(error: EgressConnectError) -> Self {
        match error {
            EgressConnectError::Unresolved => Self::Unresolved,
            EgressConnectError::Private => Self::Private,
            EgressConnectError::Unreachable(_) => Self::Unreachable,
        }
    }
}

/// Reports what becomes of one connection.
#[derive(Debug, Clone)]
struct EgressReporter {
    target: EgressTarget,
    attempts: mpsc::Sender<EgressAttempt>,
}

impl EgressReporter {
    async fn refused(&self, refusal: EgressRefusal) {
        // The receiver is gone once the job is over.
        let _ = self.attempts.send(self.attempt(AttemptOutcome::Refused(refusal))).await;
    }

    fn attempt(&self, outcome: AttemptOutcome) -> EgressAttempt {
        EgressAttempt { target: self.target.to_string(), outcome }
    }
}

/// The egress gateway of one job. Dropping it ends all connections.
#[derive(Debug)]
pub(crate) struct EgressGateway {
    policy: EgressPolicy,
    exceptions: Arc<[PrivateException]>,
    resolver: NameResolver,
    pace: Pace,
    connections: Arc<Semaphore>,
    bytes_left: Arc<AtomicU64>,
    attempts: mpsc::Sender<EgressAttempt>,
    /// Records an attempt before it is made.
    audit: Option<OwnerAudit>,
    tunnels: Tunnels,
}

/// Connections that outlive the request that opened them. They end with the gateway, or when its owner stops following the job.
#[derive(Debug, Default)]
struct Tunnels(Mutex<JoinSet<()>>);

impl Tunnels {
    fn spawn(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock();
        // Removes finished tunnels, so that the set does not grow over the life of a job.
        while running.try_join_next().is_some() {}
        running.spawn(tunnel);
    }

    fn end(&self) {
        self.0.lock().abort_all();
    }
}

impl EgressGateway {
    /// Ends every open tunnel.
    pub(crate) fn end_tunnels(&self) {
        self.tunnels.end();
    }

    /// Makes a gateway that reports attempts to `attempts`, and records allowed attempts in `audit` before it makes them.
    pub(crate) fn new(
        policy: EgressPolicy,
        exceptions: Arc<[PrivateException]>,
        limits: &EgressLimits,
        used_bytes: u64,
        attempts: mpsc::Sender<EgressAttempt>,
        audit: Option<OwnerAudit>,
    ) -> Arc<Self> {
        Arc::new(Self {
            policy,
            exceptions,
            resolver: NameResolver::new(),
            pace: Pace::new(),
            connections: Arc::new(Semaphore::new(limits.connections)),
            bytes_left: Arc::new(AtomicU64::new(limits.bytes.saturating_sub(used_bytes))),
            attempts,
            audit,
            tunnels: Tunnels::default(),
        })
    }

    /// Connects if the job may, and reports the attempt either way.
    async fn reach(&self, target: &EgressTarget) -> Result<EgressConnection, EgressRefusal> {
        self.pace.turn().await;
        let reached = self.try_reach(target).await;
        if let Err(refusal) = &reached {
            self.report(target.to_string(), AttemptOutcome::Refused(refusal.clone())).await;
        }
        reached
    }

    /// Reports an attempt that names no target which a policy could allow, such as a literal address, and returns the refusal.
    async fn refuse(&self, named: &str, refusal: EgressRefusal) -> EgressRefusal {
        // These are recorded too, so they take their turn.
        self.pace.turn().await;
        self.report(cut(named, MAX_TARGET_BYTES), AttemptOutcome::Refused(refusal.clone())).await;
        refusal
    }

    async fn try_reach(&self, target: &EgressTarget) -> Result<EgressConnection, EgressRefusal> {
        // The policy comes before the lookup: a denied name must not leave the host as a DNS query, which can carry data out.
        if !self.policy.allows(target) {
            return Err(EgressRefusal::Denied(target.to_string()));
        }
        if self.bytes_left.load(Ordering::Relaxed) == 0 {
            return Err(EgressRefusal::Bytes);
        }
        // Before the record: an attempt beyond the bound is refused without an entry that says it was allowed.
        let permit =
            Arc::clone(&self.connections).try_acquire_owned().map_err(|_| EgressRefusal::Connections)?;
        // Recorded before it is made. A crash after the connection would otherwise leave traffic that no audit shows.
        self.record(target).await?;
        self.report(target.to_string(), AttemptOutcome::Allowed).await;
        let stream = addresses::connect(target, &self.resolver, &self.exceptions).await?;
        let reporter = EgressReporter { target: target.clone(), attempts: self.attempts.clone() };
        Ok(EgressConnection::new(stream, reporter, permit, Arc::clone(&self.bytes_left)))
    }

    /// Records an allowed attempt. An attempt that can't be recorded is refused.
    async fn record(&self, target: &EgressTarget) -> Result<(), EgressRefusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let facts = EgressFacts::allowed(cut(&target.to_string(), MAX_TARGET_BYTES));
        let entry = AuditEntry::new(AuditActor::Job, AuditFacts::Egress(facts));
        audit.record(vec![entry]).await.map_err(|_| EgressRefusal::Unrecorded)
    }

    async fn report(&self, target: String, outcome: AttemptOutcome) {
        // The receiver is gone once the job is over.
        let _ = self.attempts.send(EgressAttempt { target, outcome }).await;
    }
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
