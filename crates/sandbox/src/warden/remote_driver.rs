//! A driver of the warden, as the server sees it: every call goes over the socket.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sandyard_protocol::drivers::NAMES;
use tokio::net::UnixStream;

use super::connection::{CallAnswer, WardenConnection};
use super::faults::CallFault;
use super::messages::{CallReply, DriverCall, DriverFacts, StartOrder, WardenCall};
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, DiskState, Driver, FoundSandbox,
    ImageDigest, Isolation, Limits, LinkError, ListError, Liveness, PrepareImageError, ReportProgress,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
use crate::drivers;

/// A driver that another process runs.
pub(super) struct RemoteDriver {
    connection: Arc<WardenConnection>,
    /// Position in the warden's list.
    index: usize,
    name: &'static str,
    /// Facts that a report may change: some drivers are opened, and find their runtime, only when they are tried.
    tried: Mutex<TriedFacts>,
    binds: BindSupport,
}

/// Facts of a driver as of its last report.
struct TriedFacts {
    isolation: Isolation,
    boot_time: Duration,
}

impl TriedFacts {
    fn new(isolation: Isolation, boot_time_ms: u64) -> Self {
        Self { isolation, boot_time: Duration::from_millis(boot_time_ms) }
    }
}

impl RemoteDriver {
    pub(super) fn new(
        connection: Arc<WardenConnection>,
        index: usize,
        facts: DriverFacts,
    ) -> io::Result<Self> {
        let name = NAMES.into_iter().find(|name| *name == facts.name);
        Ok(Self {
            connection,
            index,
            name: name.ok_or(io::ErrorKind::InvalidData)?,
            tried: Mutex::new(TriedFacts::new(facts.isolation, facts.boot_time_ms)),
            binds: facts.binds,
        })
    }

    fn call(&self, call: DriverCall) -> WardenCall {
        WardenCall::Driver { driver: self.index, call }
    }

    /// Makes a call. An answer of another kind than the call's is a fault of the program.
    async fn ask<T>(
        &self,
        call: DriverCall,
        read: impl FnOnce(CallAnswer) -> Option<T>,
    ) -> Result<T, CallFault> {
        let answer = self.connection.call(self.call(call)).await;
        read_answer(answer, read)
    }
}

fn read_answer<T>(answer: CallAnswer, read: impl FnOnce(CallAnswer) -> Option<T>) -> Result<T, CallFault> {
    match answer.reply {
        CallReply::Failed(fault) => Err(fault),
        _ => read(answer).ok_or_else(|| {
            CallFault::step("read the answer of the privileged process", &io::ErrorKind::InvalidData.into())
        }),
    }
}

fn done(answer: CallAnswer) -> Option<()> {
    matches!(answer.reply, CallReply::Done).then_some(())
}

/// Takes the link out of an answer. The descriptor is missing if this process has as many as it may have.
fn link(answer: CallAnswer) -> Option<Result<UnixStream, io::Error>> {
    let missing = || io::Error::from_raw_os_error(libc::EMFILE);
    let stream = answer.fd.ok_or_else(missing).and_then(|fd| UnixStream::from_std(fd.into()));
    matches!(answer.reply, CallReply::Link).then_some(stream)
}

#[async_trait]
impl Driver for RemoteDriver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn isolation(&self) -> Isolation {
        self.tried.lock().isolation.clone()
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        drivers::host_memory_mib(self.name, limits)
    }

    fn boot_time(&self) -> Duration {
        self.tried.lock().boot_time
    }

    async fn availability(&self) -> Availability {
        let read = |answer: CallAnswer| match answer.reply {
            CallReply::Availability { report, isolation, boot_time_ms } => {
                Some((report, TriedFacts::new(isolation, boot_time_ms)))
            }
            _ => None,
        };
        match self.ask(DriverCall::Availability, read).await {
            Ok((report, tried)) => {
                *self.tried.lock() = tried;
                report
            }
            Err(fault) => {
                let reason = fault.into_io_error().to_string();
                Availability::missing(reason, "look at the log of the server")
            }
        }
    }

    async fn prepare_image(
        &self,
        image: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        let call = self.call(DriverCall::PrepareImage { image: image.clone() });
        let answer = self.connection.call_telling(call, report).await;
        read_answer(answer, done).map_err(CallFault::into_prepare_error)
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let outside = || StartError::Step {
            step: format!("use the workspace {}", spec.workspace.display()),
            source: io::ErrorKind::InvalidInput.into(),
        };
        let order = StartOrder {
            id: spec.id.clone(),
            image: spec.image.clone(),
            workspace: self.connection.places.name_of(&spec.workspace).ok_or_else(outside)?,
            limits: spec.limits,
            lifetime_s: spec.lifetime_s,
            secret: spec.secret.clone(),
        };
        let started = self.ask(DriverCall::Start(Box::new(order)), done).await;
        started.map_err(|fault| fault.into_start_error(self.name))
    }

    fn binds(&self) -> BindSupport {
        self.binds
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if binding.workspace.is_some() && !self.binds.workspace {
            return Err(BindError::Unsupported { driver: self.name, part: BindingPart::Workspace });
        }
        let outside = |path: &Path| BindError::Step {
            id: id.clone(),
            step: format!("use the workspace {}", path.display()),
            source: io::ErrorKind::InvalidInput.into(),
        };
        let name = |path| self.connection.places.name_of(path).ok_or_else(|| outside(path));
        let workspace = binding.workspace.as_deref().map(name).transpose()?;
        let call = DriverCall::Bind { id: id.clone(), limits: binding.limits, workspace };
        self.ask(call, done).await.map_err(|fault| fault.into_bind_error(self.name, id))
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        if let Some(link) = self.connection.unclaimed(self.index, id) {
            return Ok(Box::new(link));
        }
        let asked = self.ask(DriverCall::NextLink { id: id.clone() }, link).await;
        match asked.map_err(|fault| fault.into_link_error(id))? {
            Ok(link) => Ok(Box::new(link)),
            Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        // A fault is not the death of the machine, and the caller would take any return for it.
        if self.ask(DriverCall::WaitDead { id: id.clone() }, done).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        drop(self.connection.unclaimed(self.index, id));
        let stopped = self.ask(DriverCall::Stop { id: id.clone() }, done).await;
        stopped.map_err(|fault| fault.into_stop_error(id))
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        let read = |answer: CallAnswer| match answer.reply {
            CallReply::Sandboxes { found, .. } => Some(found),
            _ => None,
        };
        self.ask(DriverCall::List, read).await.map_err(|fault| ListError(fault.into_io_error()))
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        let read = |answer: CallAnswer| match answer.reply {
            CallReply::Found(liveness) => Some(liveness),
            _ => None,
        };
        let found = self.ask(DriverCall::Find { id: id.clone() }, read).await;
        found.map_err(|fault| ListError(fault.into_io_error()))
    }

    async fn disk_state(&self, id: &SandboxId) -> DiskState {
        let read = |answer: CallAnswer| match answer.reply {
            CallReply::DiskState(state) => Some(state),
            _ => None,
        };
        let asked = self.ask(DriverCall::DiskState { id: id.clone() }, read).await;
        // Without an answer nothing is known about the disk; the job must not end for it.
        asked.unwrap_or(DiskState::Unknown)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let read = |answer: CallAnswer| match answer.reply {
            CallReply::Usage(usage) => Some(usage),
            _ => None,
        };
        let used = self.ask(DriverCall::Usage { id: id.clone() }, read).await;
        used.map_err(|fault| UsageError { id: id.clone(), source: fault.into_io_error() })
    }
}
