//! Bounds of an artifact.

use std::time::Duration;

/// Bounds of an artifact. The size of the disk is no bound: a file may have holes and many names.
#[derive(Debug, Clone)]
pub struct ExportConfig {
    /// Number of files, directories and links. Each takes about 300 bytes of memory while the archive is written.
    pub entries: u64,
    /// Length of all names together; they are in memory until the archive is finished.
    pub name_bytes: u64,
    /// Uncompressed bytes; at most the size of the job's disk.
    pub bytes: u64,
    /// Bytes of the archive itself.
    pub archive_bytes: u64,
    /// Time for the whole export.
    pub timeout: Duration,
}

impl ExportConfig {
    /// The bounds for a workspace on a disk of that size: a guest that reports more is not believed.
    pub(crate) fn on_a_disk(&self, disk_mib: u64) -> Self {
        Self { bytes: self.bytes.min(disk_mib.saturating_mul(1024 * 1024)), ..self.clone() }
    }
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            name_bytes: 128 * 1024 * 1024,
            bytes: 300 * 1024 * 1024 * 1024,
            archive_bytes: u64::MAX,
            timeout: Duration::from_secs(3600),
        }
    }
}
