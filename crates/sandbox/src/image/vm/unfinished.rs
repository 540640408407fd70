//! Names of files that are being written.

use std::io;
use std::path::{Path, PathBuf};

/// Prefix of the names of unfinished files.
pub(super) const UNFINISHED: &str = "new-";

/// Returns the path at which a file is written before it is complete. No other process uses the name.
pub(super) fn unfinished(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(target.with_file_name(format!("{UNFINISHED}{name}-{random:016x}")))
}
