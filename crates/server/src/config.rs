//! Everything an operator can set, with defaults. Read by main from flags, environment and file; passed in here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::driver::Limits;

pub use crate::artifacts::ExportConfig;
use crate::fail_points::FailPoints;
pub use crate::gateways::egress::{EgressLimits, PrivateException};
pub use crate::gateways::model::{
    ApiKey, BadKey, BadModelSpec, ModelConfig, ModelSpec, ModelsError, PROVIDERS, Patience, Provider,
    recording_of,
};
pub use crate::job::{Floor, JobLimits};

/// The settings of one yard.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The yard: database, jobs, lock.
    pub data: PathBuf,
    /// What a job gets if it does not say.
    pub default_limits: JobLimits,
    /// The most a job may ask for.
    pub greatest_limits: JobLimits,
    /// How much runs at once.
    pub admission: AdmissionConfig,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// How jobs are held.
    pub lease: LeaseConfig,
    /// How much output is kept.
    pub output: OutputConfig,
    /// What an artifact may hold.
    pub export: ExportConfig,
    /// How jobs reach the network.
    pub egress: EgressConfig,
    /// The models that tasks may use.
    pub models: ModelConfig,
    /// The weakest isolation for every job: levels, or the only driver that is used.
    pub floors: Vec<Floor>,
    /// How long a driver may be missing before the jobs that wait for it are refused: an engine that restarts comes back.
    pub driver_patience: Duration,
    /// How often a machine is made for a job whose process never began.
    pub start_attempts: u32,
    /// Time between SIGTERM and SIGKILL when a job is ended.
    pub end_grace: Duration,
    /// How long a new machine may take to dial.
    pub link_timeout: Duration,
    /// Where a test wants the server to die.
    pub fail_points: FailPoints,
}

impl ServerConfig {
    /// Defaults for a data directory and a machine with this much memory.
    pub fn new(data: PathBuf, memory_mib: u64) -> Self {
        Self {
            data,
            default_limits: JobLimits { machine: Limits::default(), timeout_s: 3600, idle_timeout_s: None },
            greatest_limits: JobLimits {
                machine: Limits {
                    cpus: 256.0,
                    memory_mib: memory_mib.saturating_sub(AdmissionConfig::RESERVE_MIB).max(512),
                    disk_mib: 256 * 1024,
                    pids: 65_536,
                },
                timeout_s: 7 * 24 * 3600,
                idle_timeout_s: None,
            },
            admission: AdmissionConfig {
                concurrency: 64,
                memory_mib,
                reserve_mib: AdmissionConfig::RESERVE_MIB.min(memory_mib / 4),
                disk_headroom_mib: 512,
                queue: 10_000,
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
            end_grace: Duration::from_secs(2),
            link_timeout: Duration::from_secs(20),
            fail_points: FailPoints::default(),
        }
    }
}

/// How much runs at once. Memory is counted by limits, not by use: the kernel must never have to choose us.
#[derive(Debug, Clone)]
pub struct AdmissionConfig {
    /// Sandboxes at once.
    pub concurrency: usize,
    /// Memory of the host.
    pub memory_mib: u64,
    /// Memory left to the host and the server.
    pub reserve_mib: u64,
    /// Free disk below which nothing is accepted or started.
    pub disk_headroom_mib: u64,
    /// Jobs that may wait; more are refused with 429.
    pub queue: usize,
}

impl AdmissionConfig {
    /// Room for the server, its page cache and the host's daemons.
    const RESERVE_MIB: u64 = 1024;
}

/// How long ended jobs stay.
#[derive(Debug, Clone)]
pub struct RetentionConfig {
    /// Age after the end.
    pub age: Duration,
    /// All artifacts and logs together; the oldest go first, the newest job always stays.
    pub bytes: u64,
    /// Time between two looks.
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

/// How a server holds its jobs.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// How long a claim is good without a heartbeat.
    pub ttl: Duration,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
}

impl Default for LeaseConfig {
    /// Two heartbeats may be lost.
    fn default() -> Self {
        Self { ttl: Duration::from_secs(15), heartbeat: Duration::from_secs(5) }
    }
}

/// How jobs reach the network.
#[derive(Debug, Clone, Default)]
pub struct EgressConfig {
    /// Bounds for each job.
    pub limits: EgressLimits,
    /// Private places that the operator lets jobs reach, if they ask for them by name.
    pub private: Arc<[PrivateException]>,
    /// Certificates that the host trusts, in PEM, for the programs of jobs that may reach something.
    pub trust: Option<String>,
}

/// How much output of a job is kept.
#[derive(Debug, Clone)]
pub struct OutputConfig {
    /// For each stream; beyond it head and tail stay, each half of it.
    pub stream_bytes: u64,
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self { stream_bytes: 1024 * 1024 * 1024 }
    }
}
