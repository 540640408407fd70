//! The programs that run inside every sandbox, as files of a yard.
//!
//! The bytes come from whoever opens a driver: `sandyard-programs` carries those of this build. Drivers mount a directory named by its content, so that a sandbox started by one version never sees
//! another's programs. The directory holds nothing secret and nothing writable.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandyard_protocol::AGENT_PROGRAM;
use sha2::{Digest, Sha256};

/// Name of the guest's program.
pub(crate) const GUEST_PROGRAM: &str = "sandyard-guest";

/// The static programs of one build, as bytes.
#[derive(Clone, Copy)]
pub struct GuestPrograms {
    /// Init, spawner and keeper of a sandbox, in one program.
    pub guest: &'static [u8],
    /// The loop that works on tasks.
    pub agent: &'static [u8],
    /// The program that reads what a sandbox wrote. Not part of a sandbox: it is sent there when it is needed.
    pub reader: &'static [u8],
}

impl fmt::Debug for GuestPrograms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GuestPrograms")
    }
}

impl GuestPrograms {
    /// Adds the programs to a hash that names what is made of them.
    pub(crate) fn hash_into(&self, hash: &mut Sha256) {
        hash.update(self.guest);
        hash.update(self.agent);
    }

    /// Returns the directory in `home` that holds the programs, made if it is missing. Removes directories of
    /// other versions, which sandboxes that have them mounted keep.
    pub(crate) fn install(&self, home: &Path) -> io::Result<PathBuf> {
        let mut hash = Sha256::new();
        self.hash_into(&mut hash);
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
            write_program(&fresh.join(GUEST_PROGRAM), self.guest)?;
            write_program(&fresh.join(AGENT_PROGRAM), self.agent)?;
            fs::rename(fresh, &directory)?;
        }
        Ok(directory)
    }
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
        let programs = GuestPrograms { guest: b"guest", agent: b"agent", reader: b"reader" };
        let directory = programs.install(home.path()).unwrap();
        assert_eq!(fs::read(directory.join(GUEST_PROGRAM)).unwrap(), programs.guest);
        let first = fs::metadata(directory.join(AGENT_PROGRAM)).unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o555);
        assert_eq!(programs.install(home.path()).unwrap(), directory);
        let again = fs::metadata(directory.join(AGENT_PROGRAM)).unwrap();
        assert_eq!(first.modified().unwrap(), again.modified().unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
