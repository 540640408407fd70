//! Scripts as files: too long for an argument, readable by the job, writable by keeper alone.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes a script into keeper's directory of scripts, replacing an earlier one, and returns its path.
pub(super) fn write(directory: &Path, name: &str, code: &str) -> io::Result<PathBuf> {
    let path = directory.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A new file instead of a rewritten one: the old one is read-only, and a bash that still reads it must keep it whole.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    file.write_all(code.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    Ok(path)
}
