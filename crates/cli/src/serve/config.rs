//! Converts the operator's settings to the configuration of the server.

use std::time::Duration;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::ProcessBounds;
use sandyard_server::config::{
    ApiKey, BlobsConfig, CredentialVariables, Floor, ModelConfig, PROVIDERS, ServerConfig, StoreConfig,
};

use super::ServeError;
use crate::config::{Settings, Surroundings};
use crate::demo;

/// Heartbeats during one lease: two may be lost.
const HEARTBEATS_PER_LEASE: u32 = 3;
const DAY_S: u64 = 24 * 3600;
const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// Largest certificate file. A bundle of all public authorities takes 220 KiB.
const MAX_TRUST_BYTES: usize = 2 * 1024 * 1024;

/// Returns the configuration for a machine with this much memory.
pub(crate) fn server_config(settings: &Settings, machine_memory_mib: u64) -> ServerConfig {
    let memory_mib = settings.memory_mib.unwrap_or(machine_memory_mib);
    let mut config = ServerConfig::new(settings.data.clone(), memory_mib);
    let processes = ProcessBounds::of_host().one_job;
    config.greatest_limits.machine.pids = config.greatest_limits.machine.pids.min(processes);
    config.admission.concurrency = settings.concurrency;
    config.admission.queue = settings.queue;
    config.admission.disk_mib = settings.disk_mib;
    config.admission.disk_reserve_mib = settings.disk_reserve_mib;
    config.keep = Duration::from_secs(settings.keep_s);
    config.floors = vec![settings.isolation.clone()];
    config.floors.extend(settings.driver.clone().map(Floor::Driver));
    config.lease.ttl = Duration::from_secs(settings.lease_s);
    config.lease.heartbeat = config.lease.ttl / HEARTBEATS_PER_LEASE;
    config.output.stream_bytes = settings.output_cap_mib.saturating_mul(MIB);
    config.output.bytes_per_s = settings.output_mib_s.saturating_mul(MIB);
    config.default_limits.recording_mib = settings.recording_mib;
    if settings.recording_mib == 0 {
        // The operator wants none, so no job may ask for one.
        config.greatest_limits.recording_mib = 0;
    }
    config.egress.private = settings.egress_private.clone().into();
    config.egress.trust =
        std::fs::read_to_string(&settings.trust_file).ok().filter(|pem| pem.len() <= MAX_TRUST_BYTES);
    config.retention.age = Duration::from_secs(settings.retention_days.saturating_mul(DAY_S));
    config.retention.bytes = settings.retention_gib.saturating_mul(GIB);
    config.reader = Some(PROGRAMS.reader);
    config.explain_words = Duration::from_secs(settings.explain_words_s);
    config
}

/// Returns the store of the yard. A password that is not in its address may be in the variable of PostgreSQL's own programs.
pub(crate) fn store_config(settings: &Settings, surroundings: &Surroundings) -> StoreConfig {
    match (&settings.store, surroundings.get("PGPASSWORD")) {
        (None, _) => StoreConfig::Sqlite,
        (Some(url), Some(password)) => StoreConfig::Postgres(url.clone().or_password(password)),
        (Some(url), None) => StoreConfig::Postgres(url.clone()),
    }
}

/// Returns the place of the blobs, and the credentials for it from the usual variables of object stores.
pub(crate) fn blobs_config(settings: &Settings, surroundings: &Surroundings) -> BlobsConfig {
    let variables = surroundings.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    BlobsConfig { location: settings.blobs.clone(), variables: CredentialVariables::of(variables) }
}

/// Returns the models with the keys from the providers' usual environment variables.
pub(crate) fn model_config(
    settings: &Settings,
    surroundings: &Surroundings,
) -> Result<ModelConfig, ServeError> {
    let mut config = ModelConfig {
        default: settings.model.clone(),
        allowed: settings.models.clone(),
        record: settings.record.clone(),
        ..ModelConfig::default()
    };
    let recording = demo::recording().map_err(ServeError::Demo)?;
    config.recordings.insert(demo::NAME.to_owned(), recording);
    config.allowed.extend(format!("replay:{}", demo::NAME).parse());
    for provider in &PROVIDERS {
        let Some(key) = surroundings.get(provider.key_variable) else { continue };
        let key = ApiKey::new(key)
            .map_err(|source| ServeError::ModelKey { variable: provider.key_variable, source })?;
        config.keys.insert(provider.name.to_owned(), key);
    }
    if let Some(path) = &settings.model_table {
        let failed =
            |source| ServeError::Data { action: "read the table of models", path: path.clone(), source };
        config.table = Some(std::fs::read_to_string(path).map_err(failed)?);
    }
    Ok(config)
}
