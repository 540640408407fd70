//! What an artifact may hold.

use std::time::Duration;

/// What an artifact may hold. A disk bounds none of it: a file may have holes and many names.
#[derive(Debug, Clone)]
pub struct ExportConfig {
    /// Files, directories and links: about 300 bytes of memory each while the archive is written.
    pub entries: u64,
    /// Their names together, which are in memory until the archive's end.
    pub name_bytes: u64,
    /// Uncompressed bytes; never more than the job's disk has.
    pub bytes: u64,
    /// Time for the whole of it.
    pub timeout: Duration,
}

impl ExportConfig {
    /// The bounds of a workspace on a disk of that size: whatever a guest says, no more was ever in it.
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
            timeout: Duration::from_secs(3600),
        }
    }
}
