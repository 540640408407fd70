//! The job's script as a file: too long for an argument, readable by the job, written by keeper alone.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::keeper::Keeper;

const NAME: &str = "job.sh";

/// Where it is.
pub(super) fn path(keeper: &Keeper) -> PathBuf {
    keeper.config.scripts.join(NAME)
}

/// Writes it anew.
pub(super) fn write(keeper: &Keeper, code: &str) -> io::Result<()> {
    let path = path(keeper);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    file.write_all(code.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))
}

/// Removes it. Left behind, it is merely read by no one.
pub(super) fn remove(keeper: &Keeper) {
    let _ = fs::remove_file(path(keeper));
}
