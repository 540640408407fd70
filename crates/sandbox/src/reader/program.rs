//! The reader's program as a file in memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// The path of a program in memory. The child resolves it before its descriptors are closed, so the file need not be inherited.
pub(super) fn program_path(program: &File) -> String {
    format!("/proc/self/fd/{}", program.as_raw_fd())
}

/// The program as a sealed file in memory.
pub(super) fn sealed_file(program: &[u8]) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("sandyard-reader", flags)?);
    file.write_all(program)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
