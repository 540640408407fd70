//! The first root file system of a machine: our guest as `/init`, the program of tasks, and the modules of one kernel.
//!
//! Made of what this very program carries, so a machine never runs another guest than the server that started it knows.
//! Lies beside its kernel, named by its content; writing one takes some milliseconds.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandyard_protocol::{AGENT_PROGRAM, MACHINE_GUEST, MACHINE_MODULES, MACHINE_PROGRAMS};
use sha2::{Digest, Sha256};

use super::cpio::Archive;
use super::kernel::Kernel;
use crate::parts::programs;

/// Raised when the same programs are laid out differently.
const FORMAT: &str = "sandyard initrd 1";
/// Its file name begins with this.
const PREFIX: &str = "initrd-";

/// The initrd of a kernel, made if it is not there.
pub(super) fn ensure(kernel: &Kernel) -> io::Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    hash.update(programs::GUEST);
    hash.update(programs::AGENT);
    let name = format!("{PREFIX}{}", &crate::image::hex(&hash.finalize())[..16]);
    let target = kernel.folder.join(&name);
    if target.exists() {
        return Ok(target);
    }
    let temporary = kernel.folder.join(format!("new-{name}-{}", std::process::id()));
    let written = write(kernel, &temporary).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The error to tell is the one above.
        drop(fs::remove_file(&temporary));
    }
    written?;
    remove_others(kernel, &name)?;
    Ok(target)
}

fn write(kernel: &Kernel, path: &Path) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(path)?));
    let modules = relative(MACHINE_MODULES);
    archive.directory(modules, 0o700)?;
    for module in kernel.modules()? {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("{modules}/{name}"), 0o600, &fs::read(&module)?)?;
    }
    let job = relative(MACHINE_PROGRAMS);
    archive.directory(job, 0o755)?;
    archive.file(&format!("{job}/{AGENT_PROGRAM}"), 0o555, programs::AGENT)?;
    archive.file(&format!("{job}/{MACHINE_GUEST}"), 0o555, programs::GUEST)?;
    archive.link("init", &format!("{job}/{MACHINE_GUEST}"))?;
    let file = archive.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Machines run as users of their own.
    file.set_permissions(Permissions::from_mode(0o444))?;
    file.sync_all()
}

/// Those of other versions of this program. A machine has read its own when it runs.
fn remove_others(kernel: &Kernel, keep: &str) -> io::Result<()> {
    for entry in fs::read_dir(&kernel.folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name != keep {
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
