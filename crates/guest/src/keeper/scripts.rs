//! Scripts as files: too long for an argument, readable by the job, written by keeper alone.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::Keeper;

/// Where a script of that name is.
pub(super) fn path(keeper: &Keeper, name: &str) -> PathBuf {
    keeper.config.scripts.join(name)
}

/// Writes it anew.
pub(super) fn write(keeper: &Keeper, name: &str, code: &str) -> io::Result<PathBuf> {
    let path = path(keeper, name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    file.write_all(code.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    Ok(path)
}
