//! Schedule: check, store, and, if there is room, claim in the same commit.

use bytes::Bytes;
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::Limits;
use sandyard_sandbox::drivers::catalogue;
use sha2::{Digest, Sha256};

use super::access::require;
use super::audit::schedule_entry;
use super::drivers::TRIAL_TIMEOUT;
use super::model::{IdempotencyKey, Scheduled};
use super::{AppError, ErrorCode, Yard};
use super::{Floor, JobBrief, JobKind, NewJob, RequestedLimits};
use crate::audit::AuditEntry;
use crate::auth::{AccessScope, Caller};
use crate::blobs::{BlobKey, BlobNoun, BlobScope, Durability};
use crate::drivers::{DriverChoice, ImageFlavour, ImageState, NoDriver};
use crate::gateways::egress::EgressPolicy;
use crate::gateways::model::NoModel;
use crate::job::EffectiveLimits;
use crate::job::LONGEST_WAITS_S;
use crate::job::{self, JobId};
use crate::job::{JobRow, TaskRow};
use crate::store::{InsertJob, Inserted, StoredKey, StoredRequest};
use crate::yard;
use crate::yard::{Permit, SandboxRoom};

/// Seconds that a question waits for an answer by default: a day.
const ASK_TIMEOUT_S: u64 = 24 * 3600;

impl Yard {
    /// Makes a job of the caller, durably, and answers at once.
    pub async fn schedule(
        &self,
        caller: &Caller,
        mut job: NewJob,
        key: Option<IdempotencyKey>,
    ) -> Result<Scheduled, AppError> {
        require(caller, AccessScope::WriteJobs)?;
        if self.is_stopping() {
            return Err(AppError::new(ErrorCode::Stopping, "the server is stopping").retry_after(5));
        }
        // Before the limits, which depend on it.
        if !self.context.admission.has_disk() {
            return Err(disk_full());
        }
        let limits = self.limits(&job.limits)?;
        if job.kind == JobKind::Task {
            self.settle_task(&mut job)?;
        }
        check_egress(&job)?;
        self.check_flavour(&job)?;
        self.check_isolation(&job.isolation)?;
        let choice = self.choose(&job.isolation).await?;
        // All checks are done. From here on something is written.
        let id = job::random_id().map_err(|error| AppError::internal(&error))?;
        let entry = schedule_entry(caller, &job);
        let brief = JobBrief::of(&job);
        let mut insert = self.insert(&id, job, limits, key, entry);
        insert.row.reason = choice.is_none().then(|| "waits until a driver has been tried".to_owned());
        // The blob before the row: a crash in between leaves a blob without a job, which the next start removes.
        self.put_text(&insert).await?;
        let stored = self.store(insert, choice.as_ref(), &limits.machine).await;
        if matches!(stored, Ok((Inserted::New(_), _))) {
            // The next look at the job is a moment away.
            self.briefs.keep(&id, brief);
        } else {
            // A refused or repeated request leaves nothing behind. The id is new, so no other job's blobs can be meant.
            let _ = self.context.blobs.remove_all(&BlobScope::Job(id)).await;
        }
        self.answer(stored?).await
    }

    /// The driver for a job, or a refusal. `None` if that depends on a driver that takes long to be tried: the job waits in the
    /// queue, and fails there if nothing meets its floor.
    async fn choose(&self, floor: &Floor) -> Result<Option<DriverChoice>, AppError> {
        match tokio::time::timeout(TRIAL_TIMEOUT, self.context.drivers.choose(floor)).await {
            Ok(chosen) => chosen.map(Some).map_err(no_driver),
            Err(_) => Ok(None),
        }
    }

    fn insert(
        &self,
        id: &JobId,
        mut job: NewJob,
        limits: EffectiveLimits,
        key: Option<IdempotencyKey>,
        entry: AuditEntry,
    ) -> InsertJob {
        let files = std::mem::take(&mut job.files);
        InsertJob {
            row: new_row(id.clone(), &job, limits),
            request: StoredRequest { job, files },
            key: key.map(|key| StoredKey {
                key_sha256: Sha256::digest(key.key.as_bytes()).into(),
                body_sha256: key.body_sha256,
            }),
            entry,
            queue: self.context.config.admission.queue,
        }
    }

    /// Stores the text of the request, before the row: blobs without a row are removed at the next start.
    async fn put_text(&self, insert: &InsertJob) -> Result<(), AppError> {
        let key = BlobKey::new(&insert.row.id, BlobNoun::RequestText);
        let text = Bytes::copy_from_slice(insert.request.job.code.as_bytes());
        // The store has the request too, so nothing waits for the disk here.
        let stored = self.context.blobs.put_all(vec![(key, text)], Durability::Copy).await;
        stored.map_err(|error| {
            if let Some(refusal) = AppError::out_of_files(&error) {
                return refusal;
            }
            tracing::warn!(error = %ErrorChain(&error), "the text of a request could not be stored");
            AppError::new(ErrorCode::DiskUnavailable, "the yard's disk can't be written at the moment")
                .hint("look for a full disk or a read-only file system")
                .retry_after(30)
        })
    }

    /// Stores the job; claims it at once if its driver is known, nothing waits before it and there is room.
    async fn store(
        &self,
        insert: InsertJob,
        choice: Option<&DriverChoice>,
        limits: &Limits,
    ) -> Result<(Inserted, Option<Permit>), AppError> {
        // Jobs in the queue come first. The claim is part of the insert, so a job that starts at once needs one commit.
        let nobody_waits = self.context.store.counts()[0] == 0;
        let admitted = choice.filter(|_| nobody_waits).and_then(|choice| {
            let room = self.context.room(choice.driver.as_ref(), limits);
            self.context.admission.admit(room).ok().map(|permit| (permit, choice))
        });
        let (permit, choice) = admitted.unzip();
        let claim = choice
            .map(|choice| self.context.claim(&insert.row, choice.driver.as_ref(), choice.reason.clone()))
            .transpose()
            .map_err(|error| AppError::internal(&error))?;
        Ok((self.context.store.insert(insert, claim).await?, permit))
    }

    async fn answer(&self, stored: (Inserted, Option<Permit>)) -> Result<Scheduled, AppError> {
        match stored {
            (Inserted::New(row), permit) => {
                yard::count(&self.context.metrics.jobs_accepted);
                let scheduled = Scheduled { id: row.id.clone(), state: row.state, repeated: false };
                match permit {
                    // If the loop is gone, the yard stops; the claimed job is then an orphan, which the next server takes.
                    Some(permit) => drop(self.running.claimed.send((row, permit)).await),
                    None => self.context.wake.notify_one(),
                }
                Ok(scheduled)
            }
            (Inserted::Repeated(row), _) => Ok(Scheduled { id: row.id, state: row.state, repeated: true }),
            (Inserted::KeyTaken, _) => Err(AppError::new(
                ErrorCode::IdempotencyKeyReused,
                "this idempotency key was used for another request",
            )
            .hint("use a new key for a new request")),
            (Inserted::QueueFull, _) => {
                Err(AppError::new(ErrorCode::QueueFull, "too many jobs are waiting").retry_after(10))
            }
        }
    }

    /// Fills in the defaults of a task, or rejects options that are not available.
    fn settle_task(&self, job: &mut NewJob) -> Result<(), AppError> {
        let model = self.context.models.find(job.task.model.as_deref()).map_err(no_model)?;
        let ask_timeout_s = job.task.ask_timeout_s.unwrap_or(ASK_TIMEOUT_S);
        within("ask_timeout_s", ask_timeout_s, 1, LONGEST_WAITS_S)?;
        job.task.model = Some(model.name().to_owned());
        job.task.ask_timeout_s = Some(ask_timeout_s);
        Ok(())
    }

    /// Rejects an image that the job can't work in, or that nobody has built. One that is being built is waited for.
    fn check_flavour(&self, job: &NewJob) -> Result<(), AppError> {
        let Some(flavour) = job.flavour else { return Ok(()) };
        if flavour == ImageFlavour::Base && !matches!(job.kind, JobKind::Shell | JobKind::Session) {
            let message = format!("a job of kind `{}` does not work in the base image", job.kind.as_str());
            return Err(AppError::new(ErrorCode::UnsuitableFlavour, message)
                .hint("leave `flavour` out, or use `full` or `dev`"));
        }
        match self.context.images.state(flavour) {
            ImageState::Missing { detail, hint } => {
                Err(AppError::new(ErrorCode::ImageNotBuilt, detail).hint(hint))
            }
            ImageState::Ready { .. } | ImageState::Preparing { .. } => Ok(()),
        }
    }

    /// Rejects the name of an unknown driver. A known driver that can't run here is rejected later, with its own reason.
    fn check_isolation(&self, floor: &Floor) -> Result<(), AppError> {
        let Floor::Driver(name) = floor else { return Ok(()) };
        if catalogue::is_known(name) || self.context.drivers.named(name).is_some() {
            return Ok(());
        }
        let message = format!("isolation `{name}` is neither a floor nor a driver");
        Err(AppError::new(ErrorCode::UnknownIsolation, message)
            .hint("use any, container, gvisor or vm, or one of the drivers that GET /drivers names"))
    }

    /// Returns the size of a job's disk, or refuses one that this host could not have at all.
    fn disk_mib(&self, asked: Option<u64>) -> Result<u64, AppError> {
        let config = &self.context.config;
        let largest = self.context.admission.largest_disk_mib();
        if largest < LEAST_DISK_MIB {
            return Err(disk_full());
        }
        // A default that does not fit becomes smaller than all there is: what is free changes by itself.
        let default = config.default_limits.machine.disk_mib;
        let default = if default > largest { (largest / 4 * 3).max(LEAST_DISK_MIB) } else { default };
        let disk_mib = within(
            "disk_mib",
            asked.unwrap_or(default),
            LEAST_DISK_MIB,
            config.greatest_limits.machine.disk_mib,
        )?;
        if disk_mib > largest {
            let message =
                format!("limits.disk_mib is {disk_mib}, and this host has {largest} MiB for all sandboxes");
            let hint = "ask for less, free space on the disk of the data directory, or remove results with `sandyard prune`";
            return Err(AppError::new(ErrorCode::LimitOutOfRange, message).hint(hint));
        }
        Ok(disk_mib)
    }

    fn limits(&self, asked: &RequestedLimits) -> Result<EffectiveLimits, AppError> {
        // Without `..`, so that a new limit can't be forgotten here.
        let RequestedLimits {
            cpus,
            memory_mib,
            disk_mib,
            pids,
            io_mib_s,
            recording_mib,
            timeout_s,
            idle_timeout_s,
        } = *asked;
        let (given, most) = (&self.context.config.default_limits, &self.context.config.greatest_limits);
        let memory = most.machine.memory_mib.min(self.context.admission.largest_memory_mib());
        let machine = Limits {
            cpus: within("cpus", cpus.unwrap_or(given.machine.cpus), 0.01, most.machine.cpus)?,
            memory_mib: within(
                "memory_mib",
                memory_mib.unwrap_or(given.machine.memory_mib.min(memory)),
                SandboxRoom::SMALLEST.memory_mib,
                memory,
            )?,
            disk_mib: self.disk_mib(disk_mib)?,
            pids: within(
                "pids",
                pids.unwrap_or(given.machine.pids.min(most.machine.pids)),
                8,
                most.machine.pids,
            )?,
            io_mib_s: within(
                "io_mib_s",
                io_mib_s.unwrap_or(given.machine.io_mib_s),
                1,
                most.machine.io_mib_s,
            )?,
        };
        let timeout_s = within("timeout_s", timeout_s.unwrap_or(given.timeout_s), 1, most.timeout_s)?;
        let idle = idle_timeout_s.or(given.idle_timeout_s);
        let idle_timeout_s =
            idle.map(|idle| within("idle_timeout_s", idle, 1, most.timeout_s)).transpose()?;
        let recording = recording_mib.unwrap_or(given.recording_mib);
        let recording_mib = within("recording_mib", recording, 0, most.recording_mib)?;
        Ok(EffectiveLimits { machine, timeout_s, idle_timeout_s, recording_mib })
    }
}

/// The smallest disk: ext4 needs a part of it for itself.
const LEAST_DISK_MIB: u64 = 16;

fn disk_full() -> AppError {
    AppError::new(ErrorCode::DiskFull, "the yard's disk is full")
        .hint("free space, or remove jobs with `sandyard prune`")
        .retry_after(30)
}

fn within<T: PartialOrd + Copy + std::fmt::Display>(
    name: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, AppError> {
    if value >= least && value <= most {
        return Ok(value);
    }
    let message = format!("limits.{name} is {value}, and must be from {least} to {most}");
    Err(AppError::new(ErrorCode::LimitOutOfRange, message))
}

fn check_egress(job: &NewJob) -> Result<(), AppError> {
    match EgressPolicy::parse(job.egress.iter().map(String::as_str)) {
        Ok(_) => Ok(()),
        Err(error) => Err(AppError::new(ErrorCode::InvalidValue, format!("egress: {error}"))),
    }
}

fn no_model(error: NoModel) -> AppError {
    match error {
        NoModel::None => AppError::new(ErrorCode::NoModel, error.to_string()).hint(
            "name one with `sandyard up --model SPEC`, SANDYARD_MODEL or `model` in the configuration file (e.g. \
             openai/gpt-5, anthropic/claude-opus-5 or ollama/qwen3, with the provider's key in its usual variable); \
             `sandyard demo` shows a task without any key",
        ),
        NoModel::Unknown { .. } => {
            AppError::new(ErrorCode::UnknownModel, error.to_string())
                .hint("the server's operator allows models with `models` in the configuration file")
        }
    }
}

fn no_driver(error: NoDriver) -> AppError {
    let hint = error
        .fix
        .clone()
        .unwrap_or_else(|| "GET /drivers says what can run here, `sandyard doctor` how to get more".into());
    AppError::new(ErrorCode::NoDriver, error.to_string()).hint(hint)
}

fn new_row(id: JobId, job: &NewJob, limits: EffectiveLimits) -> JobRow {
    JobRow {
        name: job.name.clone(),
        keep: job.keep,
        requested_isolation: job.isolation.as_text(),
        task: (job.kind == JobKind::Task).then(TaskRow::default),
        ..JobRow::new(id, job.kind, limits)
    }
}
