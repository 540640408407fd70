//! All processes that keeper knows: started, found again after its restart, remembered for a while after their end.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::limits::PROCESSES;
use sandyard_protocol::{GuestError, GuestErrorCode, OutputStream, ProcessId, ProcessInfo, StartProcess};
use tokio::sync::oneshot;

use super::attach::{EndGuard, StreamOpening, StreamTies};
use super::command::CommandBuilder;
use super::process::{ManagedProcess, ProcessDescriptors};
use super::record::ProcessRecord;
use super::supervise::{KillScope, LingerLimit, Supervision};
use crate::keeper::clock::boot_ms;
use crate::keeper::core::KeeperCore;
use crate::keeper::environment::ProcessEnvironment;
use crate::keeper::exits::Exits;
use crate::keeper::host_link::HostLink;
use crate::keeper::request_keys::{self, KeyClaim, KeyTarget, RequestKeys};
use crate::limits::{ENDED_OUTPUT_BYTES, ENDED_PROCESSES};
use crate::process_host::{Command, ProcessHost, SpawnError};

/// All processes that keeper knows, running and ended, and the way to start more.
#[derive(Debug)]
pub(in crate::keeper) struct Processes {
    pub(super) core: Arc<KeeperCore>,
    pub(super) exits: Arc<Exits>,
    commands: CommandBuilder,
    link: Arc<HostLink>,
    keys: Arc<RequestKeys>,
    /// Ordered by start, oldest first: `prune` removes from the front.
    list: Mutex<Vec<Arc<ManagedProcess>>>,
    next_number: AtomicU64,
}

/// The parts of keeper that processes use.
#[derive(Debug)]
pub(in crate::keeper) struct ProcessCollaborators {
    pub(in crate::keeper) core: Arc<KeeperCore>,
    pub(in crate::keeper) exits: Arc<Exits>,
    pub(in crate::keeper) environment: Arc<ProcessEnvironment>,
    pub(in crate::keeper) link: Arc<HostLink>,
    pub(in crate::keeper) keys: Arc<RequestKeys>,
}

impl Processes {
    pub(in crate::keeper) fn new(collaborators: ProcessCollaborators, workspace: PathBuf) -> Self {
        let ProcessCollaborators { core, exits, environment, link, keys } = collaborators;
        let commands = CommandBuilder { environment, workspace };
        Self { core, exits, commands, link, keys, list: Mutex::default(), next_number: AtomicU64::new(1) }
    }

    pub(in crate::keeper) fn host(&self) -> &dyn ProcessHost {
        self.core.host.as_ref()
    }

    /// The exits that the job's own process waits for too.
    pub(in crate::keeper) fn exits(&self) -> &Exits {
        &self.exits
    }

    pub(in crate::keeper) fn environment(&self) -> &ProcessEnvironment {
        &self.commands.environment
    }

    /// The command for the job itself.
    pub(in crate::keeper) fn job_command(&self, argv: Vec<String>) -> Result<Command, GuestError> {
        self.commands.for_job(argv)
    }

    pub(in crate::keeper) fn find(&self, id: &ProcessId) -> Option<Arc<ManagedProcess>> {
        self.processes().iter().find(|process| process.id == *id).cloned()
    }

    /// A process by its id, if it still runs.
    pub(in crate::keeper) fn find_running(&self, id: &ProcessId) -> Option<Arc<ManagedProcess>> {
        self.find(id).filter(|process| process.exit().is_none())
    }

    /// The newest process that runs or ran this program.
    pub(in crate::keeper) fn newest(&self, program: &str) -> Option<Arc<ManagedProcess>> {
        self.processes().iter().rev().find(|process| process.runs(program)).cloned()
    }

    /// All processes, newest first.
    pub(super) fn list(&self) -> Vec<ProcessInfo> {
        self.processes().iter().rev().map(|process| process.info()).collect()
    }

    pub(in crate::keeper) fn insert(&self, process: Arc<ManagedProcess>) {
        self.processes().push(process);
    }

    /// Starts a process for a service of keeper's own. It belongs to no stream.
    pub(in crate::keeper) async fn start(
        self: &Arc<Self>,
        start: StartProcess,
    ) -> Result<Arc<ManagedProcess>, GuestError> {
        self.start_guarded(start, None).await.map(|(process, _)| process)
    }

    /// Starts a process that finds a descriptor of keeper's at its standard input.
    pub(in crate::keeper) async fn start_with_input(
        self: &Arc<Self>,
        start: StartProcess,
        input: OwnedFd,
    ) -> Result<Arc<ManagedProcess>, GuestError> {
        self.start_guarded(start, Some(input)).await.map(|(process, _)| process)
    }

    /// Starts a process, or finds the one that an earlier request with the same key started. The ties of the new one end it when they
    /// are dropped, as far as the request says so.
    pub(super) async fn start_guarded(
        self: &Arc<Self>,
        start: StartProcess,
        input: Option<OwnedFd>,
    ) -> Result<(Arc<ManagedProcess>, StreamOpening), GuestError> {
        let (answer, answered) = oneshot::channel();
        let owner = self.clone();
        // In a task of keeper's own: a caller that is lost meanwhile must not leave a half-made process.
        self.core.tasks.spawn(async move {
            // If the caller is gone, the ties are dropped here and end the process.
            drop(answer.send(owner.start_once(&start, input).await));
        });
        answered
            .await
            .unwrap_or_else(|_| Err(GuestError::new(GuestErrorCode::Internal, "keeper is stopping")))
    }

    async fn start_once(
        self: &Arc<Self>,
        start: &StartProcess,
        input: Option<OwnedFd>,
    ) -> Result<(Arc<ManagedProcess>, StreamOpening), GuestError> {
        let number = self.next_number();
        let Some(key) = &start.key else {
            let process = self.start_now(start, input, number).await?;
            let ties = ties(&process, start);
            return Ok((process, StreamOpening { ties, repeated: false }));
        };
        let _turn = self.keys.turn().await;
        match self.keys.claim(key, KeyTarget::Process(name(number)))? {
            KeyClaim::First => {
                let started = self.start_now(start, input, number).await;
                let process = started.inspect_err(|_| self.keys.release(key))?;
                let ties = ties(&process, start);
                Ok((process, StreamOpening { ties, repeated: false }))
            }
            KeyClaim::Repeat(KeyTarget::Process(id)) => {
                let process = self.find(&id).ok_or_else(request_keys::forgotten)?;
                Ok((process, StreamOpening { repeated: true, ..StreamOpening::default() }))
            }
            KeyClaim::Repeat(KeyTarget::Execution(_)) => Err(request_keys::other_request()),
        }
    }

    async fn start_now(
        self: &Arc<Self>,
        start: &StartProcess,
        input: Option<OwnedFd>,
        number: (u64, u64),
    ) -> Result<Arc<ManagedProcess>, GuestError> {
        // Not atomic with the insert: starts at the same moment may exceed this bound a little. The spawner has a hard one.
        if !self.has_room() {
            return Err(GuestError::new(GuestErrorCode::LimitReached, "too many processes run at once"));
        }
        let id = name(number);
        let command = self.commands.for_caller(id.clone(), start)?;
        let record = ProcessRecord {
            number,
            argv: command.argv.clone(),
            pid: 0,
            deadline_ms: start.timeout_ms.map(|timeout| boot_ms().saturating_add(timeout)),
            idle_timeout_ms: start.idle_timeout_ms,
            ends_with_stream: start.ends_with_stream,
            linger_ms: start.linger_ms,
            needs_whole_input: start.needs_whole_input,
            exit: None,
        };
        let started = self.spawn(&command, input, record).await;
        if started.is_err() {
            self.exits.unexpect(&id);
            let _ = fs::remove_dir_all(self.core.spool.process(&id));
        }
        started
    }

    /// Prepares the record, the output and the exit before the process exists: a keeper that is killed in between leaves a record
    /// that the next keeper finds, never an unknown process.
    async fn spawn(
        self: &Arc<Self>,
        command: &Command,
        input: Option<OwnedFd>,
        mut record: ProcessRecord,
    ) -> Result<Arc<ManagedProcess>, GuestError> {
        let directory = self.core.spool.process(&command.id);
        let output = ManagedProcess::open_output(&directory).map_err(internal)?;
        record.store(&directory).map_err(internal)?;
        let raw_exit = self.exits.expect(&command.id);
        // From here on a process may exist. Its exit is expected already, so one that ends at once is not missed.
        let spawned = match input {
            Some(input) => self.host().spawn_with_input(command.clone(), input).await,
            None => self.host().spawn(command.clone()).await,
        }
        .map_err(refused)?;
        record.pid = spawned.pid;
        let descriptors = ProcessDescriptors::new(spawned, command.terminal.is_some()).map_err(internal)?;
        let (process, sources) = ManagedProcess::running(command, descriptors, output);
        let limits = record.limits().fixed();
        let supervision = Supervision {
            process: process.clone(),
            sources,
            raw_exit,
            limits,
            scope: KillScope::Group,
            observer: None,
            linger: self.linger(&record),
        };
        self.follow(supervision, record);
        Ok(process)
    }

    /// Puts a process into the table and follows it to its end.
    pub(super) fn follow(self: &Arc<Self>, supervision: Supervision, mut record: ProcessRecord) {
        let process = supervision.process.clone();
        self.insert(process.clone());
        let owner = self.clone();
        self.core.tasks.spawn(async move {
            let (exit, held) = supervision.run(owner.host()).await;
            record.exit = Some(exit);
            // The record comes first: once the spawner has forgotten the exit, only the record has it. If the record can't be
            // written, the next keeper reports the process as lost; this one knows better.
            let _ = record.store(&owner.core.spool.process(&process.id));
            owner.exits.unexpect(&process.id);
            // Callers get the exit before the round trip to the spawner and the removal of old output, which they need not wait
            // for. A keeper that is killed in between leaves the record, by which the next keeper forgets the process.
            process.set_exit(exit);
            let _ = owner.host().forget(&process.id).await;
            drop(process);
            owner.prune();
            for source in held {
                owner.core.tasks.spawn(async move { source.discard().await });
            }
        });
    }

    /// How long a process runs when nobody follows it.
    pub(super) fn linger(&self, record: &ProcessRecord) -> Option<LingerLimit> {
        record.linger_ms.map(|linger_ms| LingerLimit { linger_ms, link: self.link.clone() })
    }

    fn next_number(&self) -> (u64, u64) {
        (self.core.number, self.next_number.fetch_add(1, Ordering::Relaxed))
    }

    fn has_room(&self) -> bool {
        self.processes().iter().filter(|process| process.exit().is_none()).count() < PROCESSES
    }

    /// Forgets the oldest ended processes beyond `ENDED_PROCESSES` and `ENDED_OUTPUT_BYTES`, but never the job's own.
    pub(super) fn prune(&self) {
        let mut list = self.processes();
        let may_go =
            |process: &Arc<ManagedProcess>| process.exit().is_some() && process.id != ProcessId::main();
        // The lock is held throughout: two prunes at once would count the same processes and remove too many.
        let mut count = list.iter().filter(|process| may_go(process)).count();
        let mut bytes: u64 =
            list.iter().filter(|process| may_go(process)).map(|process| process.bytes()).sum();
        list.retain(|process| {
            // A process that a stream still reads stays until the stream ends.
            let unused = Arc::strong_count(process) == 1;
            let goes = (count > ENDED_PROCESSES || bytes > ENDED_OUTPUT_BYTES) && may_go(process) && unused;
            if goes {
                count -= 1;
                bytes -= process.bytes();
                let _ = fs::remove_dir_all(self.core.spool.process(&process.id));
            }
            !goes
        });
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Arc<ManagedProcess>>> {
        self.list.lock()
    }
}

impl ManagedProcess {
    /// Bytes of its output on disk.
    fn bytes(&self) -> u64 {
        self.output(OutputStream::Stdout).bytes() + self.output(OutputStream::Stderr).bytes()
    }
}

/// The name of a process: the number of the keeper that starts it, and its number among that keeper's processes.
fn name(number: (u64, u64)) -> ProcessId {
    ProcessId(format!("p{}-{}", number.0, number.1))
}

fn ties(process: &Arc<ManagedProcess>, start: &StartProcess) -> StreamTies {
    let guard = |wanted: bool| wanted.then(|| EndGuard::new(process.clone()));
    StreamTies { _life: guard(start.ends_with_stream), input: guard(start.needs_whole_input && start.stdin) }
}

fn internal(error: impl std::error::Error) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, error.to_string())
}

fn refused(error: SpawnError) -> GuestError {
    match error {
        SpawnError::Refused { what, source } => {
            GuestError::new(GuestErrorCode::SpawnFailed, format!("{what}: {source}"))
        }
        SpawnError::Gone => GuestError::new(GuestErrorCode::Internal, error.to_string()),
    }
}
