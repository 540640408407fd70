//! All kernels and all executions that keeper knows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandyard_protocol::limits::{CODE_BYTES, KERNELS, QUEUED_EXECUTIONS};
use sandyard_protocol::{
    Execute, ExecutionId, ExecutionInfo, GuestError, GuestErrorCode, KernelId, KernelInfo, Language,
    StartProcess,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::actor::Actor;
use super::backend::LiveKernel;
use super::jupyter::{Budget, random_text};
use super::kernel::{Document, Execution, ExecutionLimits, Kernel, Order, Target};
use super::language::KernelKind;
use super::notebook::Notebooks;
use super::record::Record;
use crate::keeper::Keeper;
use crate::keeper::clock::boot_ms;
use crate::keeper::processes::{self, Ending};
use crate::keeper::spool::{Spool, SpoolError};
use crate::limits::kernels::{ENDED_EXECUTION_BYTES, ENDED_EXECUTIONS};

pub(super) const DOCUMENT: &str = "kernels.json";
/// Where connection files are, below the job's runtime directory.
const CONNECTIONS: &str = "kernels";
/// Wishes that wait for one kernel; callers beyond that wait for their turn.
const ORDERS: usize = 8;

/// The table.
#[derive(Debug)]
pub(in crate::keeper) struct Kernels {
    list: Mutex<Vec<Arc<Kernel>>>,
    executions: Mutex<Vec<Arc<Execution>>>,
    /// How many kernels of each language there ever were.
    numbers: Mutex<BTreeMap<Language, u32>>,
    keeper_number: u64,
    next_execution: AtomicU64,
    pub(super) budget: Budget,
    pub(super) notebooks: Notebooks,
    records: PathBuf,
}

/// What is on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Saved {
    numbers: BTreeMap<Language, u32>,
    pub(super) kernels: Vec<Document>,
}

impl Kernels {
    /// An empty table of the nth keeper.
    pub(in crate::keeper) fn open(
        spool: &Spool,
        directory: PathBuf,
        keeper_number: u64,
    ) -> Result<Self, SpoolError> {
        let records = directory.join("executions");
        std::fs::create_dir_all(&records)
            .map_err(|error| SpoolError::new("make a directory for executions", &records, error))?;
        let saved: Saved = spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self {
            list: Mutex::default(),
            executions: Mutex::default(),
            numbers: Mutex::new(saved.numbers),
            keeper_number,
            next_execution: AtomicU64::new(1),
            budget: Budget::default(),
            notebooks: Notebooks::open(spool)?,
            records,
        })
    }

    /// A kernel by name.
    pub(super) fn find(&self, id: &KernelId) -> Result<Arc<Kernel>, GuestError> {
        self.kernels()
            .iter()
            .find(|kernel| kernel.id == *id)
            .cloned()
            .ok_or_else(|| GuestError::new(GuestErrorCode::NotFound, format!("there is no kernel `{id}`")))
    }

    /// All of them, oldest first.
    pub(super) fn list(&self) -> Vec<KernelInfo> {
        self.kernels().iter().map(|kernel| kernel.info()).collect()
    }

    /// An execution by name.
    pub(super) fn execution(&self, id: &ExecutionId) -> Result<Arc<Execution>, GuestError> {
        self.executions()
            .iter()
            .find(|execution| execution.info.id == *id)
            .cloned()
            .ok_or_else(|| GuestError::new(GuestErrorCode::NotFound, format!("there is no execution `{id}`")))
    }

    /// Writes down what the next keeper must know. A spool that fails is noticed by whoever can't do without it.
    pub(super) fn save(&self, keeper: &Keeper) {
        let kernels = self.kernels().iter().map(|kernel| kernel.document()).collect();
        let saved = Saved { numbers: self.numbers().clone(), kernels };
        keeper.stop_on(keeper.spool.store(DOCUMENT, &saved));
    }

    /// Forgets the oldest executions that are over, beyond what is remembered.
    pub(super) fn prune(&self) {
        let mut list = self.executions();
        let over = |execution: &Arc<Execution>| execution.finished.borrow().is_some();
        let bytes = |execution: &Arc<Execution>| execution.record().map_or(0, Record::bytes);
        let mut count = list.iter().filter(|execution| over(execution)).count();
        let mut total: u64 = list.iter().filter(|execution| over(execution)).map(bytes).sum();
        list.retain(|execution| {
            // One that is being read stays until it was.
            let goes = (count > ENDED_EXECUTIONS || total > ENDED_EXECUTION_BYTES)
                && over(execution)
                && Arc::strong_count(execution) == 1;
            if goes {
                count -= 1;
                total -= bytes(execution);
                if let Some(record) = execution.record() {
                    let _ = std::fs::remove_file(record.path());
                }
            }
            !goes
        });
    }

    /// The records an earlier keeper left.
    pub(super) fn left_records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.records).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    pub(super) fn remember(&self, execution: Arc<Execution>) {
        self.executions().push(execution);
    }

    fn next_execution(&self) -> ExecutionId {
        let number = self.next_execution.fetch_add(1, Ordering::Relaxed);
        ExecutionId(format!("x{}-{number}", self.keeper_number))
    }

    fn kernels(&self) -> MutexGuard<'_, Vec<Arc<Kernel>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn executions(&self) -> MutexGuard<'_, Vec<Arc<Execution>>> {
        self.executions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, BTreeMap<Language, u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the connection file of a kernel is.
fn connection_path(keeper: &Keeper, id: &KernelId) -> String {
    let runtime = keeper.config.env.get("XDG_RUNTIME_DIR").map_or("/tmp", String::as_str);
    format!("{runtime}/{CONNECTIONS}/kernel-{id}.json")
}

/// Makes a kernel; its process comes with its first use.
fn make(keeper: &Arc<Keeper>, language: Language) -> Result<Arc<Kernel>, GuestError> {
    if keeper.kernels.kernels().len() >= KERNELS {
        return Err(GuestError::new(
            GuestErrorCode::LimitReached,
            format!("there are {KERNELS} kernels already; stop one first"),
        ));
    }
    let internal = |error: std::io::Error| GuestError::new(GuestErrorCode::Internal, error.to_string());
    let number = {
        let mut numbers = keeper.kernels.numbers();
        let number = numbers.entry(language).or_default();
        *number += 1;
        *number
    };
    let id = match number {
        1 => KernelId(language.as_str().to_owned()),
        number => KernelId(format!("{}-{number}", language.as_str())),
    };
    let document = Document {
        id,
        language,
        session: random_text().map_err(internal)?,
        file: KernelKind::of(language).backend.connection().map_err(internal)?,
        process: None,
    };
    let kernel = adopt(keeper, document, None, None);
    keeper.kernels.save(keeper);
    Ok(kernel)
}

/// Puts a kernel into the table and begins its task.
pub(super) fn adopt(
    keeper: &Arc<Keeper>,
    document: Document,
    live: Option<LiveKernel>,
    lost: Option<String>,
) -> Arc<Kernel> {
    let (kernel, actor) = prepare(keeper, document, live, lost);
    keeper.tasks.spawn(actor.run(None));
    kernel
}

/// A kernel in the table whose task has not begun.
pub(super) fn prepare(
    keeper: &Arc<Keeper>,
    document: Document,
    live: Option<LiveKernel>,
    lost: Option<String>,
) -> (Arc<Kernel>, Actor) {
    let (queue, code) = mpsc::channel(QUEUED_EXECUTIONS);
    let (orders, wishes) = mpsc::channel(ORDERS);
    let path = document.file.is_some().then(|| connection_path(keeper, &document.id));
    let kernel = Arc::new(Kernel::new(document, path, queue, orders));
    keeper.kernels.kernels().push(kernel.clone());
    let actor =
        Actor { keeper: keeper.clone(), kernel: kernel.clone(), queue: code, orders: wishes, live, lost };
    (kernel, actor)
}

/// Starts one more kernel and waits until it answers.
pub(super) async fn start(keeper: &Arc<Keeper>, language: Language) -> Result<Arc<Kernel>, GuestError> {
    let kernel = make(keeper, language)?;
    if let Err(error) = kernel.order(Order::Start).await? {
        forget(keeper, &kernel).await;
        return Err(error);
    }
    Ok(kernel)
}

/// Takes a kernel out of the table, and its connection file out of JupyterLab's sight.
pub(super) async fn forget(keeper: &Arc<Keeper>, kernel: &Kernel) {
    keeper.kernels.kernels().retain(|other| other.id != kernel.id);
    keeper.kernels.save(keeper);
    let Some(path) = kernel.connection_path.clone() else { return };
    let argv = vec!["rm".into(), "-f".into(), "--".into(), path];
    // A file that stays names ports where nobody answers; it does no harm.
    let _ = processes::start(keeper, StartProcess { argv, ..StartProcess::default() }).await;
}

/// The kernel that code is for: the one that is named, or the language's first.
fn kernel_for(
    keeper: &Arc<Keeper>,
    language: Language,
    kernel: Option<&KernelId>,
) -> Result<Arc<Kernel>, GuestError> {
    let Some(id) = kernel else {
        let first = keeper.kernels.kernels().iter().find(|kernel| kernel.language == language).cloned();
        return first.map_or_else(|| make(keeper, language), Ok);
    };
    let kernel = keeper.kernels.find(id)?;
    if kernel.language != language {
        let text =
            format!("the kernel `{id}` understands {}, not {}", kernel.language.as_str(), language.as_str());
        return Err(GuestError::new(GuestErrorCode::BadRequest, text));
    }
    Ok(kernel)
}

/// Queues code for a caller.
pub(super) fn execute(keeper: &Arc<Keeper>, execute: Execute) -> Result<Arc<Execution>, GuestError> {
    if execute.code.len() > CODE_BYTES {
        return Err(GuestError::new(GuestErrorCode::LimitReached, "the code is too long"));
    }
    let kernel = kernel_for(keeper, execute.language, execute.kernel.as_ref())?;
    let info = ExecutionInfo {
        id: keeper.kernels.next_execution(),
        kernel: kernel.id.clone(),
        language: execute.language,
    };
    let path = keeper.kernels.records.join(&info.id.0);
    let record = Record::create(path, &info)
        .map_err(|error| GuestError::new(GuestErrorCode::Internal, error.to_string()))?;
    let limits = ExecutionLimits {
        deadline_ms: execute.timeout_ms.map(|timeout| boot_ms().saturating_add(timeout)),
        silence: execute.idle_timeout_ms.map(Duration::from_millis),
    };
    let execution = Arc::new(Execution::new(info, execute.code, limits, Target::Caller(record)));
    if let Err(error) = kernel.enqueue(execution.clone()) {
        if let Some(record) = execution.record() {
            let _ = std::fs::remove_file(record.path());
        }
        return Err(error);
    }
    keeper.kernels.remember(execution.clone());
    Ok(execution)
}

/// Queues the code of the job. Its limits are the job's own.
pub(in crate::keeper) fn begin_job(
    keeper: &Arc<Keeper>,
    language: Language,
    code: String,
) -> Result<Arc<Execution>, GuestError> {
    let kernel = kernel_for(keeper, language, None)?;
    let info = ExecutionInfo { id: keeper.kernels.next_execution(), kernel: kernel.id.clone(), language };
    let execution = Arc::new(Execution::new(info, code, ExecutionLimits::default(), Target::Job));
    kernel.enqueue(execution.clone())?;
    keeper.kernels.remember(execution.clone());
    Ok(execution)
}

/// Ends the process of the kernel that the job's code runs in.
pub(in crate::keeper) fn end_job_kernel(keeper: &Keeper, execution: &Execution, ending: Ending) {
    if let Ok(kernel) = keeper.kernels.find(&execution.info.kernel) {
        kernel.end_process(ending);
    }
    execution.unwanted.notify_one();
}
