//! The programs that run inside every sandbox, carried by this crate, as files of a yard.
//!
//! Drivers mount a directory named by its content, so that a sandbox started by one version never sees
//! another's programs. The directory holds nothing secret and nothing writable.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandyard_protocol::AGENT_PROGRAM;
use sha2::{Digest, Sha256};

/// Name of the guest's program.
pub(crate) const GUEST_PROGRAM: &str = "sandyard-guest";
/// The guest's program, built with this crate for the static target.
pub(crate) static GUEST: &[u8] = include_bytes!(env!("SANDYARD_GUEST_BINARY"));
/// Program of the loop that works on tasks, built beside the guest's.
pub(crate) static AGENT: &[u8] = include_bytes!(env!("SANDYARD_AGENT_BINARY"));

/// Returns the directory in `home` that holds both programs, made if it is missing. Removes directories of
/// other versions, which sandboxes that have them mounted keep.
pub(crate) fn install(home: &Path) -> io::Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(GUEST);
    hash.update(AGENT);
    let name = hex::encode(&hash.finalize()[..16]);
    let directory = home.join(&name);
    fs::create_dir_all(home)?;
    // Also removes a `new` that a killed process left, which would make the creation below fail.
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy() != name {
            fs::remove_dir_all(entry.path())?;
        }
    }
    if !directory.try_exists()? {
        let fresh = home.join("new");
        DirBuilder::new().mode(0o755).create(&fresh)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o755))?;
        write_program(&fresh.join(GUEST_PROGRAM), GUEST)?;
        write_program(&fresh.join(AGENT_PROGRAM), AGENT)?;
        fs::rename(fresh, &directory)?;
    }
    Ok(directory)
}

fn write_program(path: &Path, program: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)?;
    file.write_all(program)?;
    // Synced before the rename that makes it final: a torn program would be taken for whole after a power cut.
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_installed_once_and_old_ones_removed() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("of-another-version")).unwrap();
        fs::create_dir(home.path().join("new")).unwrap();
        let directory = install(home.path()).unwrap();
        assert_eq!(fs::read(directory.join(GUEST_PROGRAM)).unwrap(), GUEST);
        let first = fs::metadata(directory.join(AGENT_PROGRAM)).unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o555);
        assert_eq!(install(home.path()).unwrap(), directory);
        let again = fs::metadata(directory.join(AGENT_PROGRAM)).unwrap();
        assert_eq!(first.modified().unwrap(), again.modified().unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
