//! The first root file system of a machine: our guest as `/init`, the program of tasks, and the modules of
//! one kernel.
//!
//! It is made of the programs that the host's binary carries, so a machine never runs another guest than the server that started
//! it knows. It lies beside its kernel, named by its content. Writing one takes some milliseconds.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandyard_protocol::{AGENT_PROGRAM, MACHINE_GUEST, MACHINE_MODULES, MACHINE_PROGRAMS};
use sha2::{Digest, Sha256};

use super::cpio::CpioArchive;
use super::kernel::VmKernel;
use super::unfinished::{UNFINISHED, unfinished};
use crate::guest_programs::GuestPrograms;

/// Version of the layout. A change here gives the file a new name.
const FORMAT: &str = "sandyard initrd 1";
/// Prefix of the file's name.
const PREFIX: &str = "initrd-";
/// Time for which an initrd of another version is left alone.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Returns the initrd of a kernel, made if it is missing.
pub(super) fn ensure(kernel: &VmKernel, programs: &GuestPrograms) -> io::Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    programs.hash_into(&mut hash);
    let name = format!("{PREFIX}{}", &hex::encode(hash.finalize())[..16]);
    let target = kernel.folder.join(&name);
    if target.exists() {
        return Ok(target);
    }
    let temporary = unfinished(&target)?;
    let written = write(kernel, programs, &temporary).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The error to report is the one of the write.
        drop(fs::remove_file(&temporary));
    }
    written?;
    remove_others(kernel, &name)?;
    Ok(target)
}

fn write(kernel: &VmKernel, programs: &GuestPrograms, path: &Path) -> io::Result<()> {
    let mut archive = CpioArchive::new(BufWriter::new(File::create(path)?));
    let modules = relative(MACHINE_MODULES);
    archive.directory(modules, 0o700)?;
    for module in kernel.modules()? {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("{modules}/{name}"), 0o600, &fs::read(&module)?)?;
    }
    let job = relative(MACHINE_PROGRAMS);
    archive.directory(job, 0o755)?;
    archive.file(&format!("{job}/{AGENT_PROGRAM}"), 0o555, programs.agent)?;
    archive.file(&format!("{job}/{MACHINE_GUEST}"), 0o555, programs.guest)?;
    archive.link("init", &format!("{job}/{MACHINE_GUEST}"))?;
    let file = archive.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Every machine runs as a user of its own and must be able to read the file.
    file.set_permissions(Permissions::from_mode(0o444))?;
    file.sync_all()
}

/// Removes initrds of other versions of this program that were not written lately. A running machine has read
/// its own; a server of another version that has just written one is about to boot it.
fn remove_others(kernel: &VmKernel, keep: &str) -> io::Result<()> {
    for entry in fs::read_dir(&kernel.folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        let old = age.is_some_and(|age| age > RETENTION);
        if old && (name.starts_with(PREFIX) || name.starts_with(UNFINISHED)) && name != keep {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::kernel::{KernelFiles, keep};
    use super::*;
    use crate::image::store::ImageStore;

    const PROGRAMS: GuestPrograms = GuestPrograms { guest: b"guest", agent: b"agent", reader: b"reader" };

    fn kernel(folder: &Path) -> VmKernel {
        fs::write(folder.join("bzImage"), "kernel").unwrap();
        let files = KernelFiles { kernel: folder.join("bzImage"), modules: None };
        keep(&ImageStore::new(folder.join("cache")), &files, 1).unwrap()
    }

    #[test]
    fn those_of_other_versions_go_when_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        for (name, days) in [("initrd-old", 2), ("initrd-new", 0), ("new-initrd-old-1", 2), ("notes", 2)] {
            let file = File::create(kernel.folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - RETENTION * days).unwrap();
        }
        ensure(&kernel, &PROGRAMS).unwrap();
        let left = |name: &str| kernel.folder.join(name).exists();
        assert_eq!(
            ["initrd-old", "initrd-new", "new-initrd-old-1", "notes"].map(left),
            [false, true, false, true]
        );
    }

    /// Two starts at once, after the file was removed.
    #[test]
    fn several_may_want_it_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| ensure(&kernel, &PROGRAMS))).collect();
            for maker in makers {
                assert!(maker.join().unwrap().unwrap().exists());
            }
        });
    }
}
