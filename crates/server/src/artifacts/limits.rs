//! Bounds of an artifact.

use std::time::Duration;

const MIB: u64 = 1024 * 1024;
/// Space beside the workspace: headers of small files, the audit, the journal, the last screenshot and the explanation.
const EXTRA_BYTES: u64 = 32 * MIB;
/// Space in an archive for what takes no block of a workspace: long names of many links, which an archive holds twice.
const NAMES_BYTES: u64 = 96 * MIB;

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
    /// The bounds for a workspace on a disk of that size: a guest that reports more is not believed. The whole disk counts, not its
    /// use: what the guest has written lately may not be in the image yet.
    pub(crate) fn on_a_disk(&self, disk_mib: u64) -> Self {
        let disk = disk_mib.saturating_mul(MIB);
        Self {
            bytes: self.bytes.min(disk),
            archive_bytes: self.archive_bytes.min(packed(disk).saturating_add(NAMES_BYTES)),
            ..self.clone()
        }
    }
}

/// Returns the space that the archive of a workspace is expected to take, which is asked for before it is packed. `used_mib` is the
/// use of its disk as the host sees it, if the host sees it.
pub(crate) fn expected_bytes(used_mib: Option<u64>, disk_mib: u64) -> u64 {
    packed(used_mib.unwrap_or(disk_mib).saturating_mul(MIB)).saturating_add(EXTRA_BYTES)
}

/// Deflate makes little of nothing smaller, and names and headers take more than their inodes by a bit.
fn packed(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that the host does not see yet belong to files that are there.
    #[test]
    fn the_bound_of_an_archive_does_not_depend_on_the_blocks_seen() {
        let bounds = ExportConfig::default().on_a_disk(100);
        assert_eq!(bounds.bytes, 100 * MIB);
        assert!(bounds.archive_bytes >= packed(100 * MIB) + NAMES_BYTES);
        assert!(expected_bytes(Some(0), 100) < bounds.archive_bytes);
        assert_eq!(expected_bytes(None, 100), expected_bytes(Some(100), 100));
        let small = ExportConfig { archive_bytes: 7, ..ExportConfig::default() };
        assert_eq!(small.on_a_disk(u64::MAX).archive_bytes, 7, "the operator's bound stays");
    }
}
