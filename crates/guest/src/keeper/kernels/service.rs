//! The kernel service: makes kernels, queues code for them, and finds them again after a restart of keeper.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::limits::{CODE_BYTES, KERNELS, QUEUED_EXECUTIONS};
use sandyard_protocol::{
    EndReason, Execute, ExecutionId, ExecutionInfo, GuestError, GuestErrorCode, KernelId, KernelInfo,
    Language, StartProcess,
};
use tokio::sync::mpsc;

use super::actor::KernelActor;
use super::context::KernelContext;
use super::jupyter::{MemoryBudget, random_text};
use super::kernel::{Execution, ExecutionLimits, ExecutionTarget, KernelDocument, KernelHandle, KernelOrder};
use super::language::KernelKind;
use super::notebook::Notebooks;
use super::record::ExecutionRecord;
use super::registry::KernelRegistry;
use crate::keeper::clock::{boot_ms, milliseconds};
use crate::keeper::core::KeeperCore;
use crate::keeper::events::EventLog;
use crate::keeper::files::FileWorkers;
use crate::keeper::job::state::MachineJob;
use crate::keeper::processes::{Ending, Processes};
use crate::keeper::request_keys::{self, KeyClaim, KeyTarget, RequestKeys};
use crate::keeper::spool::SpoolError;
use crate::limits::kernels::STOP_GRACE;

/// Orders that wait for one kernel; further callers wait for their turn.
const QUEUED_ORDERS: usize = 8;

/// Makes kernels, queues code for them, and stops them.
#[derive(Debug)]
pub(in crate::keeper) struct Kernels {
    context: Arc<KernelContext>,
    notebooks: Arc<Notebooks>,
    keys: Arc<RequestKeys>,
}

/// The services that kernels are handed.
pub(in crate::keeper) struct KernelServices {
    pub(in crate::keeper) processes: Arc<Processes>,
    pub(in crate::keeper) files: Arc<FileWorkers>,
    pub(in crate::keeper) job: Arc<MachineJob>,
    pub(in crate::keeper) events: Arc<EventLog>,
    pub(in crate::keeper) keys: Arc<RequestKeys>,
}

impl Kernels {
    /// Opens the service without kernels. Also returns those of the earlier keeper.
    pub(super) fn open(
        core: Arc<KeeperCore>,
        services: KernelServices,
    ) -> Result<(Self, Vec<KernelDocument>), SpoolError> {
        let KernelServices { processes, files, job, events, keys } = services;
        let notebooks = Arc::new(Notebooks::open(core.clone(), files)?);
        let (registry, kernels) = KernelRegistry::open(core.clone())?;
        let budget = MemoryBudget::default();
        let context = Arc::new(KernelContext { core, processes, job, events, registry, budget });
        Ok((Self { context, notebooks, keys }, kernels))
    }

    pub(super) fn context(&self) -> &Arc<KernelContext> {
        &self.context
    }

    pub(super) fn list(&self) -> Vec<KernelInfo> {
        self.context.registry.list()
    }

    pub(super) fn execution(&self, id: &ExecutionId) -> Result<Arc<Execution>, GuestError> {
        self.context.registry.execution(id)
    }

    /// Writes all cells into the notebooks; called before the workspace is exported.
    pub(in crate::keeper) async fn flush_notebooks(&self) {
        self.notebooks.flush().await;
    }

    /// Makes a kernel. Its process starts with its first use.
    fn make(&self, language: Language) -> Result<Arc<KernelHandle>, GuestError> {
        let registry = &self.context.registry;
        if registry.count() >= KERNELS {
            return Err(GuestError::new(
                GuestErrorCode::LimitReached,
                format!("there are {KERNELS} kernels already; stop one first"),
            ));
        }
        let internal = |error: std::io::Error| GuestError::new(GuestErrorCode::Internal, error.to_string());
        let document = KernelDocument {
            id: registry.next_kernel(language),
            language,
            session: random_text().map_err(internal)?,
            file: KernelKind::of(language).backend.connection().map_err(internal)?,
            process: None,
        };
        let (kernel, actor) = self.prepare(document, None);
        self.context.core.tasks.spawn(actor.run(None));
        registry.save();
        Ok(kernel)
    }

    /// Puts a kernel into the registry. The caller starts its actor.
    pub(super) fn prepare(
        &self,
        document: KernelDocument,
        lost: Option<String>,
    ) -> (Arc<KernelHandle>, KernelActor) {
        let (queue, code) = mpsc::channel(QUEUED_EXECUTIONS);
        let (orders, received_orders) = mpsc::channel(QUEUED_ORDERS);
        let path = document.file.is_some().then(|| self.context.connection_path(&document.id));
        let kernel = Arc::new(KernelHandle::new(document, path, queue, orders));
        self.context.registry.insert(kernel.clone());
        let actor = KernelActor {
            context: self.context.clone(),
            notebooks: self.notebooks.clone(),
            kernel: kernel.clone(),
            queue: code,
            orders: received_orders,
            live: None,
            lost,
        };
        (kernel, actor)
    }

    /// Starts one more kernel and waits until it answers.
    pub(super) async fn start(&self, language: Language) -> Result<Arc<KernelHandle>, GuestError> {
        let kernel = self.make(language)?;
        if let Err(error) = kernel.order(KernelOrder::Start).await? {
            self.forget(&kernel).await;
            return Err(error);
        }
        Ok(kernel)
    }

    /// Stops a kernel and removes it.
    pub(super) async fn stop(&self, id: &KernelId) -> Result<(), GuestError> {
        let kernel = self.context.registry.find(id)?;
        // A kernel that is starting reads no order before it answers. Its process is ended directly.
        kernel.end_process(Ending::after(EndReason::Cancelled, milliseconds(STOP_GRACE)));
        kernel.order(KernelOrder::Stop).await?;
        self.forget(&kernel).await;
        Ok(())
    }

    pub(super) async fn interrupt(&self, id: &KernelId) -> Result<(), GuestError> {
        self.context.registry.find(id)?.order(KernelOrder::Interrupt).await
    }

    pub(super) async fn restart(&self, id: &KernelId) -> Result<KernelInfo, GuestError> {
        let kernel = self.context.registry.find(id)?;
        kernel.order(KernelOrder::Restart).await??;
        Ok(kernel.info())
    }

    /// Removes a kernel and its connection file, so that JupyterLab no longer lists it.
    async fn forget(&self, kernel: &KernelHandle) {
        self.context.registry.remove(&kernel.id);
        self.context.registry.save();
        let Some(path) = kernel.connection_path.clone() else { return };
        let argv = vec!["rm".into(), "-f".into(), "--".into(), path];
        // A file that stays names ports where nobody answers; it does no harm.
        let _ = self.context.processes.start(StartProcess { argv, ..StartProcess::default() }).await;
    }

    /// Returns the named kernel, or the first kernel of the language, which is made if there is none.
    fn kernel_for(
        &self,
        language: Language,
        kernel: Option<&KernelId>,
    ) -> Result<Arc<KernelHandle>, GuestError> {
        let Some(id) = kernel else {
            return self.context.registry.first(language).map_or_else(|| self.make(language), Ok);
        };
        let kernel = self.context.registry.find(id)?;
        if kernel.language != language {
            let (own, other) = (kernel.language.as_str(), language.as_str());
            let text = format!("the kernel `{id}` understands {own}, not {other}");
            return Err(GuestError::new(GuestErrorCode::BadRequest, text));
        }
        Ok(kernel)
    }

    /// Queues code for a caller, or finds the execution of an earlier request with the same key. True if there was one.
    pub(super) async fn execute(&self, execute: Execute) -> Result<(Arc<Execution>, bool), GuestError> {
        let id = self.context.registry.next_execution();
        let Some(key) = execute.key.clone() else { return Ok((self.enqueue(execute, id)?, false)) };
        let _turn = self.keys.turn().await;
        match self.keys.claim(&key, KeyTarget::Execution(id.clone()))? {
            KeyClaim::First => {
                let queued = self.enqueue(execute, id).inspect_err(|_| self.keys.release(&key))?;
                Ok((queued, false))
            }
            KeyClaim::Repeat(KeyTarget::Execution(id)) => {
                Ok((self.execution(&id).map_err(|_| request_keys::forgotten())?, true))
            }
            KeyClaim::Repeat(KeyTarget::Process(_)) => Err(request_keys::other_request()),
        }
    }

    fn enqueue(&self, execute: Execute, id: ExecutionId) -> Result<Arc<Execution>, GuestError> {
        if execute.code.len() > CODE_BYTES {
            return Err(GuestError::new(GuestErrorCode::LimitReached, "the code is too long"));
        }
        let kernel = self.kernel_for(execute.language, execute.kernel.as_ref())?;
        let registry = &self.context.registry;
        let info = ExecutionInfo { id, kernel: kernel.id.clone(), language: execute.language };
        let record = ExecutionRecord::create(registry.record_path(&info.id), &info)
            .map_err(|error| GuestError::new(GuestErrorCode::Internal, error.to_string()))?;
        let limits = ExecutionLimits {
            deadline_ms: execute.timeout_ms.map(|timeout| boot_ms().saturating_add(timeout)),
            silence: execute.idle_timeout_ms.map(Duration::from_millis),
        };
        let target = ExecutionTarget::Caller(record);
        let execution = Arc::new(Execution::new(info, execute.code, limits, target));
        if let Err(error) = kernel.enqueue(execution.clone()) {
            if let Some(record) = execution.record() {
                let _ = std::fs::remove_file(record.path());
            }
            return Err(error);
        }
        registry.remember(execution.clone());
        Ok(execution)
    }

    /// Queues the code of the job. Its limits are the job's own.
    pub(in crate::keeper) fn begin_job(
        &self,
        language: Language,
        code: String,
    ) -> Result<Arc<Execution>, GuestError> {
        let kernel = self.kernel_for(language, None)?;
        let id = self.context.registry.next_execution();
        let info = ExecutionInfo { id, kernel: kernel.id.clone(), language };
        let execution =
            Arc::new(Execution::new(info, code, ExecutionLimits::default(), ExecutionTarget::Job));
        kernel.enqueue(execution.clone())?;
        self.context.registry.remember(execution.clone());
        Ok(execution)
    }

    /// Ends the process of the kernel that runs the job's code.
    pub(in crate::keeper) fn end_job(&self, execution: &Execution, ending: Ending) {
        if let Ok(kernel) = self.context.registry.find(&execution.info.kernel) {
            kernel.end_process(ending);
        }
        execution.unwanted.notify_one();
    }
}
