//! Folders that hold one entry for each sandbox.

use std::fs;
use std::io;
use std::path::Path;

use crate::driver::SandboxId;

/// Returns the sandboxes that have an entry in a folder. Ignores entries with other names.
pub(crate) fn ids_in(folder: &Path) -> io::Result<Vec<SandboxId>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder)? {
        ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
    }
    Ok(ids)
}

/// Removes a folder with its content. Succeeds if there is none.
pub(crate) fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
