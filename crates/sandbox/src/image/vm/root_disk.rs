//! An image's tree as a disk: `images/<digest>/root.ext4`, beside the tree and removed with it.
//!
//! mke2fs fills the disk from the tree, so this host never mounts it. Every machine shares it read-only,
//! hence it has no journal and no spare room.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::image::lock::ImageLock;
use crate::image::steps;
use crate::image::store;

/// Name of the disk beside the tree.
const FILE_NAME: &str = "root.ext4";
/// Name of the disk until it is complete.
const UNFINISHED: &str = "root.ext4.new";
/// Bytes for directories, bitmaps and the ends of files, for each entry.
const BYTES_PER_ENTRY: u64 = 4096 + 512;
/// Bytes for the tables that every file system has.
const SPARE_BYTES: u64 = 32 * 1024 * 1024;

/// Returns the disk of the image whose tree is `image_root`, if it was made.
pub fn root_disk_of(image_root: &Path) -> Option<PathBuf> {
    image_root.parent().map(|folder| folder.join(FILE_NAME)).filter(|disk| disk.exists())
}

/// Returns the disk of the image whose tree is `image_root`, made if it is missing. Blocks for seconds then.
pub(super) fn ensure(image_root: &Path) -> io::Result<PathBuf> {
    let folder = image_root.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let target = folder.join(FILE_NAME);
    if target.exists() {
        return Ok(target);
    }
    let _lock = ImageLock::take(folder, ".root.ext4.lock")?;
    // Again under the lock: another process may have made the disk while this one waited.
    if target.exists() {
        return Ok(target);
    }
    let temporary = folder.join(UNFINISHED);
    let made = make(image_root, folder, &temporary).and_then(|()| fs::rename(&temporary, &target));
    if made.is_err() {
        // The error to report is the one above. The next attempt overwrites the file.
        drop(fs::remove_file(&temporary));
    }
    made?;
    Ok(target)
}

/// Returns the finished part of a disk that is being made.
pub(super) fn percent(image_root: &Path) -> Option<u64> {
    let folder = image_root.parent()?;
    let written = fs::metadata(folder.join(UNFINISHED)).ok()?.blocks() * 512;
    let whole = store::facts_in(folder).ok()?.size_bytes.max(1);
    Some((written * 100 / whole).min(99))
}

fn make(tree: &Path, folder: &Path, path: &Path) -> io::Result<()> {
    let facts = store::facts_in(folder)?;
    let size = facts.size_bytes * 21 / 20 + facts.entries * BYTES_PER_ENTRY + SPARE_BYTES;
    let file = File::create(path)?;
    file.set_len(size.next_multiple_of(4096))?;
    let output = steps::host_command("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-m", "0", "-b", "4096", "-L", "sandyard-root"])
        .args(["-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"])
        .args(["-N", &(facts.entries + 1024).to_string()])
        .arg("-d")
        .arg(tree)
        .arg(path)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("mke2fs {}: {}", output.status, text.trim())));
    }
    fs::set_permissions(path, Permissions::from_mode(0o444))?;
    // Synced before the caller's rename: after a power cut the name must not show half a disk.
    file.sync_all()
}
