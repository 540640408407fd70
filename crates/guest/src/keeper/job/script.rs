//! The job's script as a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::keeper::scripts;

const NAME: &str = "job.sh";

/// Path of the script in keeper's directory of scripts.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Writes the script, replacing an earlier one.
pub(super) fn write(directory: &Path, code: &str) -> io::Result<()> {
    scripts::write(directory, NAME, code).map(drop)
}

/// Removes the script. A script that stays behind does no harm: nobody runs it again.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_file(path(directory));
}
