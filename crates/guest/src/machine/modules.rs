//! Loading the modules of the initrd, in the order of their names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandyard_protocol::MACHINE_MODULES;

use crate::boot::{BootFailure, BootStep as _};

/// MODULE_INIT_COMPRESSED_FILE: the kernel unpacks it (since 5.17).
const COMPRESSED: i32 = 4;

pub(super) fn load_all() -> Result<(), BootFailure> {
    for path in in_order().step("modules", MACHINE_MODULES)? {
        load(&path).step("modules", path.display())?;
        // They are not needed twice, and the initrd is memory.
        fs::remove_file(&path).step("modules", path.display())?;
    }
    Ok(())
}

/// Returns the modules' paths, sorted by name. There are none if the kernel has everything built in.
fn in_order() -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(MACHINE_MODULES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn load(path: &Path) -> io::Result<()> {
    let flags = if path.extension() == Some(OsStr::new("ko")) { 0 } else { COMPRESSED };
    match rustix::system::finit_module(&File::open(path)?, c"", flags) {
        // A processor without the instructions that a faster variant needs, or one that is there already.
        Err(Errno::NODEV | Errno::EXIST) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
