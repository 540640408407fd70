//! The folder in which `sandyard doctor` tries drivers, and the removal of folders that killed trials left.
//!
//! A trial can't use the data directory, which a server may hold. Its folder has all that drivers write down before they make
//! anything, so whoever opens the drivers on the folder again finds the sandboxes and removes them. The folder's lock tells
//! whether the trial still runs: the kernel releases it with the process, however that ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::LocalImages;
use sandyard_sandbox::drivers::stop_trials;

use crate::config::DriverSettings;
use crate::drivers::{self, DriverPlan};

/// Beginning of the names of trial folders.
const PREFIX: &str = "sandyard-doctor-";
/// Beginning of the names of folders that have no lock yet, and nothing else.
const UNLOCKED_PREFIX: &str = ".sandyard-doctor-";
/// Name of the lock in a trial folder.
const LOCK: &str = "trial.lock";
/// Size of disks for trials.
const DISK_MIB: u64 = 64;

/// The locked folder of a running trial.
#[derive(Debug)]
pub(crate) struct TrialFolder {
    path: PathBuf,
    _lock: File,
}

impl TrialFolder {
    /// Makes a folder below `parent`. Nobody else can take it for abandoned: it gets its name when it is locked.
    pub(crate) fn make_in(parent: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        // Only closed folders count as a user's own when abandoned ones are looked for.
        builder.prefix(UNLOCKED_PREFIX).permissions(PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(parent)?;
        let lock = try_lock(folder.path())?.ok_or(io::ErrorKind::WouldBlock)?;
        let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
        let path = parent.join(name.trim_start_matches('.'));
        std::fs::rename(folder.path(), &path)?;
        // From here on `remove` removes it, under its new name.
        let _ = folder.keep();
        Ok(Self { path, _lock: lock })
    }

    /// The plan of drivers that work in this folder.
    pub(crate) fn plan<'a>(&'a self, host: &TrialHost<'a>) -> DriverPlan<'a> {
        plan(&self.path, host)
    }

    /// Removes the folder. Its drivers must be closed, and their sandboxes stopped.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.path)
    }
}

/// What drivers need beside a folder.
pub(crate) struct TrialHost<'a> {
    pub(crate) cache: &'a Path,
    pub(crate) images: Arc<dyn LocalImages>,
    pub(crate) settings: &'a DriverSettings,
}

fn plan<'a>(folder: &'a Path, host: &TrialHost<'a>) -> DriverPlan<'a> {
    DriverPlan {
        data: folder,
        cache: host.cache,
        pool: 0,
        disk_mib: DISK_MIB,
        images: Arc::clone(&host.images),
        settings: host.settings,
    }
}

/// Removes what killed trials of this user left below `parent`: sandboxes, groups, disks and the folders themselves. What can't be
/// removed is left to the next one.
pub(crate) async fn remove_abandoned(parent: &Path, host: &TrialHost<'_>) {
    for (folder, lock) in abandoned(parent) {
        match drivers::open(&plan(&folder, host), None) {
            Ok(drivers) if stop_trials(&drivers).await => {}
            // Another attempt finds the rest by the markers in the folder.
            Ok(_) => continue,
            Err(error) => {
                tracing::warn!(folder = %folder.display(), error = %ErrorChain(&error), "an abandoned trial can't be looked at");
                continue;
            }
        }
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => tracing::info!(folder = %folder.display(), "an abandoned trial was removed"),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "an abandoned trial can't be removed");
            }
        }
        drop(lock);
    }
}

/// Returns the folders of trials whose process is gone, with their locks. Others can make folders of any name here, so only this
/// user's own count.
fn abandoned(parent: &Path) -> Vec<(PathBuf, File)> {
    let user = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let own = named.filter(|entry| {
        // The entry's own facts, not those of a link's target.
        let facts = entry.metadata();
        facts.is_ok_and(|facts| facts.is_dir() && facts.uid() == user && facts.mode() & 0o077 == 0)
    });
    own.filter_map(|entry| Some((entry.path(), try_lock(&entry.path()).ok()??))).collect()
}

/// Locks a folder; `None` if a running trial holds it.
fn try_lock(folder: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(folder.join(LOCK))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(found: &[(PathBuf, File)]) -> Vec<&Path> {
        found.iter().map(|(path, _)| path.as_path()).collect()
    }

    #[test]
    fn only_folders_of_dead_trials_of_this_user_are_abandoned() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let running = TrialFolder::make_in(parent.path()).unwrap();
        assert!(running.path.file_name().unwrap().to_string_lossy().starts_with(PREFIX));
        std::fs::create_dir(at("sandyard-doctor-open")).unwrap();
        std::fs::set_permissions(at("sandyard-doctor-open"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(at("sandyard-doctor-file"), "").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), at("sandyard-doctor-link")).unwrap();
        assert!(abandoned(parent.path()).is_empty());
        let path = running.path.clone();
        drop(running);
        let found = abandoned(parent.path());
        assert_eq!(names(&found), [path.as_path()]);
        assert!(abandoned(parent.path()).is_empty(), "one look at a time");
    }

    #[test]
    fn a_trial_that_ends_removes_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        TrialFolder::make_in(parent.path()).unwrap().remove().unwrap();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
