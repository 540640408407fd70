//! The table of all configuration keys.

use sandyard_api::nearest;

use super::Surroundings;

/// One key of the configuration.
#[derive(Debug)]
pub(super) struct SettingKey {
    /// Name in the file.
    pub(super) name: &'static str,
    /// Name in the environment.
    pub(super) variable: &'static str,
    pub(super) default: Fallback,
}

#[derive(Debug)]
pub(super) enum Fallback {
    /// The same value on every host.
    Fixed(&'static str),
    /// The system's or the user's data directory.
    Data,
}

impl Fallback {
    pub(super) fn value(&self, surroundings: &Surroundings) -> String {
        match self {
            Self::Fixed(text) => (*text).to_owned(),
            Self::Data => surroundings.data(),
        }
    }
}

const fn fixed(name: &'static str, variable: &'static str, default: &'static str) -> SettingKey {
    SettingKey { name, variable, default: Fallback::Fixed(default) }
}

/// The table of the file that contains one table for each driver.
pub(super) const DRIVERS: &str = "drivers";

/// An empty default means that the key is not set. A dot in a name stands for a table of the file.
pub(super) const KEYS: &[SettingKey] = &[
    fixed("listen", "SANDYARD_LISTEN", "127.0.0.1:8000"),
    SettingKey { name: "data", variable: "SANDYARD_DATA", default: Fallback::Data },
    // Empty stands for SQLite in the data directory.
    fixed("store", "SANDYARD_STORE", ""),
    // Empty stands for the data directory.
    fixed("blobs", "SANDYARD_BLOBS", ""),
    // Root builds images, and all users of the host share them.
    fixed("cache", "SANDYARD_CACHE", "/var/cache/sandyard"),
    fixed("domain", "SANDYARD_DOMAIN", ""),
    fixed("pass_headers", "SANDYARD_PASS_HEADERS", ""),
    fixed("driver", "SANDYARD_DRIVER", "auto"),
    fixed("isolation", "SANDYARD_ISOLATION", "any"),
    fixed("images", "SANDYARD_IMAGES", "full"),
    fixed("packages", "SANDYARD_PACKAGES", ""),
    // Empty stands for the packages of the day of the build.
    fixed("snapshot", "SANDYARD_SNAPSHOT", ""),
    fixed("pool", "SANDYARD_POOL", "4"),
    fixed("model", "SANDYARD_MODEL", ""),
    fixed("models", "SANDYARD_MODELS", ""),
    fixed("model_table", "SANDYARD_MODEL_TABLE", ""),
    fixed("record", "SANDYARD_RECORD", ""),
    fixed("concurrency", "SANDYARD_CONCURRENCY", "64"),
    fixed("memory_mib", "SANDYARD_MEMORY_MIB", ""),
    fixed("disk_mib", "SANDYARD_DISK_MIB", ""),
    fixed("disk_reserve_mib", "SANDYARD_DISK_RESERVE_MIB", "512"),
    fixed("queue", "SANDYARD_QUEUE", "10000"),
    fixed("keep_s", "SANDYARD_KEEP_S", "3600"),
    fixed("lease_s", "SANDYARD_LEASE_S", "15"),
    fixed("output_cap_mib", "SANDYARD_OUTPUT_CAP_MIB", "1024"),
    fixed("output_mib_s", "SANDYARD_OUTPUT_MIB_S", "16"),
    fixed("explain_words_s", "SANDYARD_EXPLAIN_WORDS_S", "90"),
    fixed("recording_mib", "SANDYARD_RECORDING_MIB", "64"),
    fixed("retention_days", "SANDYARD_RETENTION_DAYS", "14"),
    fixed("retention_gib", "SANDYARD_RETENTION_GIB", "20"),
    fixed("egress_private", "SANDYARD_EGRESS_PRIVATE", ""),
    fixed("trust_file", "SANDYARD_TRUST_FILE", "/etc/ssl/certs/ca-certificates.crt"),
    fixed("user", "SANDYARD_USER", ""),
    fixed("log", "SANDYARD_LOG", "info"),
    fixed("log_format", "SANDYARD_LOG_FORMAT", "text"),
    fixed("drivers.firecracker.program", "SANDYARD_FIRECRACKER_PROGRAM", ""),
    fixed("drivers.firecracker.jailer", "SANDYARD_FIRECRACKER_JAILER", ""),
    fixed("drivers.firecracker.boot_time_s", "SANDYARD_FIRECRACKER_BOOT_TIME_S", "60"),
    fixed("drivers.oci.runtime", "SANDYARD_OCI_RUNTIME", ""),
    fixed("drivers.oci.allow_outdated_runtime", "SANDYARD_OCI_ALLOW_OUTDATED_RUNTIME", "false"),
    fixed("drivers.docker.socket", "SANDYARD_DOCKER_SOCKET", ""),
    fixed("drivers.docker.allow_outdated_runtime", "SANDYARD_DOCKER_ALLOW_OUTDATED_RUNTIME", "false"),
    fixed("drivers.qemu.program", "SANDYARD_QEMU_PROGRAM", ""),
    fixed("drivers.qemu.accelerator", "SANDYARD_QEMU_ACCELERATOR", "auto"),
    fixed("drivers.qemu.boot_time_s", "SANDYARD_QEMU_BOOT_TIME_S", "60"),
];

/// Variables of Sandyard that have no key in the file.
pub(super) const OTHER_VARIABLES: &[&str] = &["SANDYARD_URL", "SANDYARD_TOKEN", "SANDYARD_CONFIG"];

/// Keys whose values may hold passwords: they are shown without, and not at all when they can't be read.
pub(super) const WITH_PASSWORDS: &[&str] = &["store"];

/// Returns the key of that name; otherwise the name of the nearest key.
pub(super) fn find(name: &str) -> Result<&'static SettingKey, Option<&'static str>> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| nearest(name, KEYS.iter().map(|key| key.name)))
}
