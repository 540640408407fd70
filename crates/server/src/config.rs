//! The settings of a server, with defaults. The command reads flags, environment and file, and passes the values in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::driver::Limits;

pub use crate::artifacts::ExportConfig;
pub use crate::blobs::{BadBlobsUrl, BlobsConfig, BlobsLocation, CredentialVariables, WorkspaceOwner};
use crate::fail_points::FailPoints;
pub use crate::gateways::egress::{EgressLimits, PrivateException};
pub use crate::gateways::model::{
    ApiKey, BadKey, BadModelSpec, ModelConfig, ModelSpec, ModelsError, PROVIDERS, Provider, ProviderTimeouts,
    recording_of,
};
pub use crate::job::{EffectiveLimits, Floor};
pub use crate::store::{BadPostgresUrl, PostgresUrl, StoreConfig};

/// The settings of one yard.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Data directory of the yard: database, jobs, lock.
    pub data: PathBuf,
    /// The store of the yard: in the data directory, or shared with other servers.
    pub store: StoreConfig,
    /// The place of results, output and other bytes of jobs.
    pub blobs: BlobsConfig,
    /// Limits of a job that names none.
    pub default_limits: EffectiveLimits,
    /// Highest limits that a job may ask for.
    pub greatest_limits: EffectiveLimits,
    /// Bounds on the sandboxes that run at once and on the queue.
    pub admission: AdmissionConfig,
    /// Retention of ended jobs.
    pub retention: RetentionConfig,
    /// Duration of leases and time between heartbeats.
    pub lease: LeaseConfig,
    /// Bounds on the stored output of each job.
    pub output: OutputConfig,
    /// Bounds on the size of artifacts and on the time to make them.
    pub export: ExportConfig,
    /// Network access of jobs.
    pub egress: EgressConfig,
    /// Models that tasks may use, with keys and timeouts.
    pub models: ModelConfig,
    /// Floors of every job: isolation levels, or the only driver to use.
    pub floors: Vec<Floor>,
    /// Longest time that a driver may be missing before the jobs that wait for it fail. A container engine may be restarting.
    pub driver_patience: Duration,
    /// Largest number of machines made for a job whose process never began.
    pub start_attempts: u32,
    /// Time for which a kept sandbox stays after the end of its job.
    pub keep: Duration,
    /// Time between SIGTERM and SIGKILL at the end of a job.
    pub end_grace: Duration,
    /// Longest wait for the first connection of a new machine.
    pub link_timeout: Duration,
    /// The process that owns the disks of sandboxes, if this one may not reach them.
    pub workspace_owner: Option<Arc<dyn WorkspaceOwner>>,
    /// The static program that explains results inside sandboxes; without it there are no explanations.
    pub reader: Option<&'static [u8]>,
    /// Longest time for words of a model on the result of a task; zero for none.
    pub explain_words: Duration,
    /// Points at which a test makes the server die.
    pub fail_points: FailPoints,
}

impl ServerConfig {
    /// Returns the defaults for a data directory and a host with this much memory.
    pub fn new(data: PathBuf, memory_mib: u64) -> Self {
        Self {
            data,
            store: StoreConfig::default(),
            blobs: BlobsConfig::default(),
            default_limits: EffectiveLimits {
                machine: Limits::default(),
                timeout_s: 3600,
                idle_timeout_s: None,
                recording_mib: 64,
            },
            greatest_limits: EffectiveLimits {
                machine: Limits {
                    cpus: 256.0,
                    memory_mib: memory_mib.saturating_sub(AdmissionConfig::RESERVE_MIB).max(512),
                    disk_mib: 256 * 1024,
                    pids: 65_536,
                    io_mib_s: 65_536,
                },
                timeout_s: 7 * 24 * 3600,
                idle_timeout_s: None,
                recording_mib: 64 * 1024,
            },
            admission: AdmissionConfig {
                concurrency: 64,
                memory_mib,
                reserve_mib: AdmissionConfig::RESERVE_MIB.min(memory_mib / 4),
                disk_mib: None,
                disk_reserve_mib: 512,
                disk_look: Duration::from_secs(2),
                queue: 10_000,
                patience: Duration::from_secs(60),
            },
            retention: RetentionConfig::default(),
            lease: LeaseConfig::default(),
            output: OutputConfig::default(),
            export: ExportConfig::default(),
            egress: EgressConfig::default(),
            models: ModelConfig::default(),
            floors: Vec::new(),
            driver_patience: Duration::from_secs(60),
            start_attempts: 3,
            keep: Duration::from_secs(3600),
            end_grace: Duration::from_secs(2),
            link_timeout: Duration::from_secs(20),
            workspace_owner: None,
            reader: None,
            explain_words: Duration::from_secs(90),
            fail_points: FailPoints::default(),
        }
    }
}

/// Concurrent load. Memory and disks are counted by limits rather than by use: the kernel's OOM killer never chooses the server,
/// and no sandbox finds the host's disk full.
#[derive(Debug, Clone)]
pub struct AdmissionConfig {
    /// Largest number of sandboxes at once.
    pub concurrency: usize,
    /// Memory of the host.
    pub memory_mib: u64,
    /// Memory left to the host and the server.
    pub reserve_mib: u64,
    /// Disk space for all sandboxes together; `None` for what the data directory's file system has free. A number beyond that
    /// promises more than there is: then the job that uses most is ended when the disk runs low.
    pub disk_mib: Option<u64>,
    /// Disk space that is never promised. Below it nothing is accepted or started, below half of it the job that uses most is
    /// ended.
    pub disk_reserve_mib: u64,
    /// Time between two looks at the disk.
    pub disk_look: Duration,
    /// Jobs that may wait. Further ones are rejected with status 429.
    pub queue: usize,
    /// Time for which smaller jobs may overtake the oldest one that does not fit.
    pub patience: Duration,
}

impl AdmissionConfig {
    /// Memory for the server, its page cache and the host's daemons.
    const RESERVE_MIB: u64 = 1024;
}

/// Retention of ended jobs.
#[derive(Debug, Clone)]
pub struct RetentionConfig {
    /// Longest time after a job's end.
    pub age: Duration,
    /// Size of all artifacts and logs. The oldest jobs are removed first; the newest always stays.
    pub bytes: u64,
    /// Time between two checks.
    pub interval: Duration,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(14 * 24 * 3600),
            bytes: 20 * 1024 * 1024 * 1024,
            interval: Duration::from_secs(60),
        }
    }
}

/// Leases by which a server owns jobs.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// Validity of a claim without a heartbeat.
    pub ttl: Duration,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
}

impl Default for LeaseConfig {
    /// A claim survives two lost heartbeats.
    fn default() -> Self {
        Self { ttl: Duration::from_secs(15), heartbeat: Duration::from_secs(5) }
    }
}

/// Network access of jobs.
#[derive(Debug, Clone, Default)]
pub struct EgressConfig {
    /// Limits of each job.
    pub limits: EgressLimits,
    /// Private addresses that jobs may reach by name.
    pub private: Arc<[PrivateException]>,
    /// The host's trusted certificates, in PEM, for programs of jobs with network access.
    pub trust: Option<String>,
}

/// Storage of a job's output.
#[derive(Debug, Clone)]
pub struct OutputConfig {
    /// Bytes of each stream. Beyond it only head and tail are kept, half of this size each.
    pub stream_bytes: u64,
    /// Bytes in a second that a job may print after a burst; its pipe is full then. All jobs together may print four times as
    /// much.
    pub bytes_per_s: u64,
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self { stream_bytes: 1024 * 1024 * 1024, bytes_per_s: 16 * 1024 * 1024 }
    }
}
