//! All kernels and all executions that keeper knows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{ExecutionId, GuestError, GuestErrorCode, KernelId, KernelInfo, Language};
use serde::{Deserialize, Serialize};

use super::kernel::{Execution, KernelDocument, KernelHandle};
use super::record::ExecutionRecord;
use crate::keeper::core::KeeperCore;
use crate::keeper::spool::SpoolError;
use crate::limits::kernels::{ENDED_EXECUTION_BYTES, ENDED_EXECUTIONS};

const DOCUMENT: &str = "kernels.json";
const RECORDS: &str = "executions";

/// All kernels and all executions that keeper knows.
#[derive(Debug)]
pub(super) struct KernelRegistry {
    core: Arc<KeeperCore>,
    list: Mutex<Vec<Arc<KernelHandle>>>,
    executions: Mutex<Vec<Arc<Execution>>>,
    /// Number of kernels ever made, by language. Names are never reused.
    numbers: Mutex<BTreeMap<Language, u32>>,
    next_execution: AtomicU64,
    records: PathBuf,
}

/// The part of the registry that is on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedKernels {
    numbers: BTreeMap<Language, u32>,
    kernels: Vec<KernelDocument>,
}

impl KernelRegistry {
    /// Opens an empty registry. Also returns the kernels of the earlier keeper.
    pub(super) fn open(core: Arc<KeeperCore>) -> Result<(Self, Vec<KernelDocument>), SpoolError> {
        let records = core.spool.path(RECORDS);
        std::fs::create_dir_all(&records)
            .map_err(|error| SpoolError::new("make a directory for executions", &records, error))?;
        let saved: SavedKernels = core.spool.load(DOCUMENT)?.unwrap_or_default();
        let registry = Self {
            core,
            list: Mutex::default(),
            executions: Mutex::default(),
            numbers: Mutex::new(saved.numbers),
            next_execution: AtomicU64::new(1),
            records,
        };
        Ok((registry, saved.kernels))
    }

    pub(super) fn find(&self, id: &KernelId) -> Result<Arc<KernelHandle>, GuestError> {
        self.kernels()
            .iter()
            .find(|kernel| kernel.id == *id)
            .cloned()
            .ok_or_else(|| GuestError::new(GuestErrorCode::NotFound, format!("there is no kernel `{id}`")))
    }

    /// The oldest kernel of a language.
    pub(super) fn first(&self, language: Language) -> Option<Arc<KernelHandle>> {
        self.kernels().iter().find(|kernel| kernel.language == language).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.kernels().len()
    }

    /// All kernels, oldest first.
    pub(super) fn list(&self) -> Vec<KernelInfo> {
        self.kernels().iter().map(|kernel| kernel.info()).collect()
    }

    pub(super) fn insert(&self, kernel: Arc<KernelHandle>) {
        self.kernels().push(kernel);
    }

    pub(super) fn remove(&self, id: &KernelId) {
        self.kernels().retain(|kernel| kernel.id != *id);
    }

    /// The name of a new kernel: the language, and a number from the second on.
    pub(super) fn next_kernel(&self, language: Language) -> KernelId {
        let mut numbers = self.numbers();
        let number = numbers.entry(language).or_default();
        *number += 1;
        match *number {
            1 => KernelId(language.as_str().to_owned()),
            number => KernelId(format!("{}-{number}", language.as_str())),
        }
    }

    /// Stores the kernels and the numbers of their names, for the next keeper.
    pub(super) fn save(&self) {
        let kernels = self.kernels().iter().map(|kernel| kernel.document()).collect();
        let saved = SavedKernels { numbers: self.numbers().clone(), kernels };
        self.core.stop_on(self.core.spool.store(DOCUMENT, &saved));
    }

    pub(super) fn execution(&self, id: &ExecutionId) -> Result<Arc<Execution>, GuestError> {
        self.executions()
            .iter()
            .find(|execution| execution.info.id == *id)
            .cloned()
            .ok_or_else(|| GuestError::new(GuestErrorCode::NotFound, format!("there is no execution `{id}`")))
    }

    pub(super) fn next_execution(&self) -> ExecutionId {
        let number = self.next_execution.fetch_add(1, Ordering::Relaxed);
        ExecutionId(format!("x{}-{number}", self.core.number))
    }

    /// Path of the record of an execution.
    pub(super) fn record_path(&self, id: &ExecutionId) -> PathBuf {
        self.records.join(&id.0)
    }

    /// The records of the earlier keeper.
    pub(super) fn left_records(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.records).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    pub(super) fn remember(&self, execution: Arc<Execution>) {
        self.executions().push(execution);
    }

    /// Forgets the oldest ended executions beyond `ENDED_EXECUTIONS` and `ENDED_EXECUTION_BYTES`.
    pub(super) fn prune(&self) {
        let mut list = self.executions();
        let over = |execution: &Arc<Execution>| execution.finished.borrow().is_some();
        let bytes = |execution: &Arc<Execution>| execution.record().map_or(0, ExecutionRecord::bytes);
        let mut count = list.iter().filter(|execution| over(execution)).count();
        let mut total: u64 = list.iter().filter(|execution| over(execution)).map(bytes).sum();
        list.retain(|execution| {
            // An execution that a stream still reads stays until the stream ends.
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

    fn kernels(&self) -> MutexGuard<'_, Vec<Arc<KernelHandle>>> {
        self.list.lock()
    }

    fn executions(&self) -> MutexGuard<'_, Vec<Arc<Execution>>> {
        self.executions.lock()
    }

    fn numbers(&self) -> MutexGuard<'_, BTreeMap<Language, u32>> {
        self.numbers.lock()
    }
}
