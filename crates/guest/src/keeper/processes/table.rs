//! All processes keeper knows: started, found again after its restart, remembered for a while after their end.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::limits::PROCESSES;
use sandyard_protocol::{
    EndReason, Exit, GuestError, GuestErrorCode, OutputStream, ProcessId, ProcessInfo, StartProcess,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::attach::EndGuard;
use super::command::command;
use super::process::{Descriptors, Process};
use super::supervise::{Limits, Scope, Supervision};
use crate::keeper::Keeper;
use crate::keeper::clock::boot_ms;
use crate::keeper::spool::{self, SpoolError};
use crate::limits::{ENDED_OUTPUT_BYTES, ENDED_PROCESSES};
use crate::process_host::{Command, SpawnError, Survivor};

const RECORD: &str = "process.json";

/// The table, oldest first.
#[derive(Debug)]
pub(in crate::keeper) struct Processes {
    list: Mutex<Vec<Arc<Process>>>,
    keeper_number: u64,
    next_number: AtomicU64,
}

/// What is kept of a process on disk, beside its output.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    number: (u64, u64),
    argv: Vec<String>,
    pid: i32,
    deadline_ms: Option<u64>,
    idle_timeout_ms: Option<u64>,
    ends_with_stream: bool,
    exit: Option<Exit>,
}

impl Record {
    fn limits(&self) -> Limits {
        Limits { deadline_ms: self.deadline_ms, idle_timeout_ms: self.idle_timeout_ms, idle_from_ms: 0 }
    }
}

impl Processes {
    /// An empty table of the nth keeper of this machine.
    pub(in crate::keeper) fn new(keeper_number: u64) -> Self {
        Self { list: Mutex::default(), keeper_number, next_number: AtomicU64::new(1) }
    }

    /// A process by name.
    pub(in crate::keeper) fn find(&self, id: &ProcessId) -> Option<Arc<Process>> {
        self.processes().iter().find(|process| process.id == *id).cloned()
    }

    /// The newest that runs or ran a program.
    pub(in crate::keeper) fn newest(&self, program: &str) -> Option<Arc<Process>> {
        self.processes().iter().rev().find(|process| process.runs(program)).cloned()
    }

    /// All of them, newest first.
    pub(super) fn list(&self) -> Vec<ProcessInfo> {
        self.processes().iter().rev().map(|process| process.info()).collect()
    }

    /// Adds one.
    pub(in crate::keeper) fn insert(&self, process: Arc<Process>) {
        self.processes().push(process);
    }

    fn next_number(&self) -> (u64, u64) {
        (self.keeper_number, self.next_number.fetch_add(1, Ordering::Relaxed))
    }

    fn has_room(&self) -> bool {
        self.processes().iter().filter(|process| process.exit().is_none()).count() < PROCESSES
    }

    /// Forgets the oldest ended processes beyond what is remembered. The job's own is never forgotten.
    fn prune(&self, keeper: &Keeper) {
        let mut list = self.processes();
        let may_go = |process: &Arc<Process>| process.exit().is_some() && process.id != ProcessId::main();
        let mut count = list.iter().filter(|process| may_go(process)).count();
        let mut bytes: u64 =
            list.iter().filter(|process| may_go(process)).map(|process| process.bytes()).sum();
        list.retain(|process| {
            // One that is being read stays until it was.
            let unused = Arc::strong_count(process) == 1;
            let goes = (count > ENDED_PROCESSES || bytes > ENDED_OUTPUT_BYTES) && may_go(process) && unused;
            if goes {
                count -= 1;
                bytes -= process.bytes();
                let _ = fs::remove_dir_all(keeper.spool.process(&process.id));
            }
            !goes
        });
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Output kept on disk.
    fn bytes(&self) -> u64 {
        self.output(OutputStream::Stdout).bytes() + self.output(OutputStream::Stderr).bytes()
    }

    /// How long neither output said anything.
    pub(super) fn quiet_for(&self) -> std::time::Duration {
        self.output(OutputStream::Stdout).quiet_for().min(self.output(OutputStream::Stderr).quiet_for())
    }
}

/// Starts a process. It is keeper's from the first moment: a caller that is lost meanwhile leaves nothing half made.
pub(super) async fn start(
    keeper: &Arc<Keeper>,
    start: StartProcess,
    input: Option<OwnedFd>,
) -> Result<(Arc<Process>, Option<EndGuard>), GuestError> {
    let (answer, answered) = oneshot::channel();
    let ends_with_stream = start.ends_with_stream;
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let started = start_now(&owner, &start, input).await;
        // If nobody takes the answer, the guard in it ends the process.
        let guarded = started.map(|process| {
            let guard = ends_with_stream.then(|| EndGuard(process.clone()));
            (process, guard)
        });
        drop(answer.send(guarded));
    });
    answered.await.unwrap_or_else(|_| Err(GuestError::new(GuestErrorCode::Internal, "keeper is stopping")))
}

async fn start_now(
    keeper: &Arc<Keeper>,
    start: &StartProcess,
    input: Option<OwnedFd>,
) -> Result<Arc<Process>, GuestError> {
    if !keeper.processes.has_room() {
        return Err(GuestError::new(GuestErrorCode::LimitReached, "too many processes run at once"));
    }
    let number = keeper.processes.next_number();
    let id = ProcessId(format!("p{}-{}", number.0, number.1));
    let command = command(keeper, id.clone(), start)?;
    let record = Record {
        number,
        argv: command.argv.clone(),
        pid: 0,
        deadline_ms: start.timeout_ms.map(|timeout| boot_ms().saturating_add(timeout)),
        idle_timeout_ms: start.idle_timeout_ms,
        ends_with_stream: start.ends_with_stream,
        exit: None,
    };
    let started = spawn(keeper, &command, input, record).await;
    if started.is_err() {
        keeper.exits.unexpect(&id);
        let _ = fs::remove_dir_all(keeper.spool.process(&id));
    }
    started
}

/// Everything is ready on disk and in memory before the process exists.
async fn spawn(
    keeper: &Arc<Keeper>,
    command: &Command,
    input: Option<OwnedFd>,
    mut record: Record,
) -> Result<Arc<Process>, GuestError> {
    let directory = keeper.spool.process(&command.id);
    let output = Process::open_output(&directory).map_err(internal)?;
    store(&directory, &record).map_err(internal)?;
    let raw_exit = keeper.exits.expect(&command.id);
    let spawned = match input {
        Some(input) => keeper.host.spawn_with_input(command.clone(), input).await,
        None => keeper.host.spawn(command.clone()).await,
    }
    .map_err(refused)?;
    record.pid = spawned.pid;
    let descriptors = Descriptors::new(spawned, command.terminal.is_some()).map_err(internal)?;
    let (process, sources) = Process::running(command, descriptors, output);
    let limits = record.limits().fixed();
    let supervision = Supervision {
        process: process.clone(),
        sources,
        raw_exit,
        limits,
        scope: Scope::Group,
        witness: None,
    };
    follow(keeper, supervision, record);
    Ok(process)
}

/// Puts a process into the table and follows it to its end.
fn follow(keeper: &Arc<Keeper>, supervision: Supervision, mut record: Record) {
    let process = supervision.process.clone();
    keeper.processes.insert(process.clone());
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let (exit, held) = supervision.run(owner.host.as_ref()).await;
        record.exit = Some(exit);
        // Without its record the process is told as lost by the next keeper; this one knows better.
        let _ = store(&owner.spool.process(&process.id), &record);
        owner.exits.unexpect(&process.id);
        let _ = owner.host.forget(&process.id).await;
        process.set_exit(exit);
        drop(process);
        owner.processes.prune(&owner);
        for source in held {
            owner.tasks.spawn(async move { source.discard().await });
        }
    });
}

/// Takes up the processes of the keeper before: those that still run, and the ends of those that do not.
pub(in crate::keeper) fn recover(
    keeper: &Arc<Keeper>,
    survivors: &mut BTreeMap<ProcessId, Survivor>,
) -> Result<(), SpoolError> {
    let mut records = Vec::new();
    for id in keeper.spool.processes()? {
        if let Some(record) = spool::load::<Record>(&keeper.spool.process(&id).join(RECORD))? {
            records.push((id, record));
        }
    }
    records.sort_by_key(|(_, record)| record.number);
    for (id, record) in records {
        let survivor = survivors.remove(&id);
        let directory = keeper.spool.process(&id);
        recover_one(keeper, id, record, survivor)
            .map_err(|error| SpoolError::new("recover", &directory, error))?;
    }
    keeper.processes.prune(keeper);
    Ok(())
}

fn recover_one(
    keeper: &Arc<Keeper>,
    id: ProcessId,
    record: Record,
    survivor: Option<Survivor>,
) -> std::io::Result<()> {
    let output = Process::open_output(&keeper.spool.process(&id))?;
    let (Some(Survivor { command, spawned, exit }), None) = (survivor, record.exit) else {
        // Never started, or ended and forgotten: either way nobody will ever know more than its record.
        let lost = Exit { code: 137, signal: Some(9), reason: EndReason::Own };
        let process = Process::over(id.clone(), record.pid, record.argv, record.exit.unwrap_or(lost), output);
        keeper.processes.insert(process);
        keeper.forget_later(id);
        return Ok(());
    };
    let raw_exit = keeper.exits.expect(&id);
    if let Some(exit) = exit {
        keeper.exits.deliver(exit);
    }
    let descriptors = Descriptors::new(spawned, command.terminal.is_some())?;
    let (process, sources) = Process::running(&command, descriptors, output);
    if record.ends_with_stream {
        drop(EndGuard(process.clone()));
    }
    let limits = record.limits().fixed();
    follow(
        keeper,
        Supervision { process, sources, raw_exit, limits, scope: Scope::Group, witness: None },
        record,
    );
    Ok(())
}

fn store(directory: &std::path::Path, record: &Record) -> Result<(), SpoolError> {
    let path: PathBuf = directory.join(RECORD);
    spool::store(&path, record)
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
