//! Loop devices that free themselves.
#![expect(unsafe_code, reason = "loop devices are driven by ioctl")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// From the kernel's `linux/loop.h`.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Attempts to get a device: another process may take the free one between the two calls.
const ATTEMPTS: usize = 64;

/// The kernel's `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// The kernel's `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A loop device, freed by the kernel once this is dropped and nothing has it mounted.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    _open: File,
}

/// Puts a file behind a free loop device.
pub(crate) fn attach(backing: &File) -> io::Result<LoopDevice> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..ATTEMPTS {
        // SAFETY: this request takes no argument and returns a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        match configure(&device, backing) {
            Ok(()) => return Ok(LoopDevice { path, _open: device }),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

fn configure(device: &File, backing: &File) -> io::Result<()> {
    // SAFETY: the structure is plain integers, for which zero means "not used".
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = backing.as_raw_fd().cast_unsigned();
    // One block of the file system, so that a write inside is one write outside.
    config.block_size = 4096;
    // Without this flag a device would outlive a killed server, and nobody would free it.
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the structure has the layout this request reads and outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
