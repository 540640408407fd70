//! The driver's document: on the disk that the kernel's command line names.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use sandyard_protocol::{MACHINE_BOOT_ARGUMENT, MachineConfig};

use crate::boot::{BootFailure, BootStep as _};
use crate::limits::BOOT_BYTES;

const STAGE: &str = "config";
/// Devices come up after their driver was loaded, on a slow host within a second.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) fn read() -> Result<MachineConfig, BootFailure> {
    let line = fs::read_to_string("/proc/cmdline").step(STAGE, "read the kernel's arguments")?;
    let disk = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(MACHINE_BOOT_ARGUMENT))
        // A name with a slash would lead out of /dev.
        .filter(|name| is_disk_name(name))
        .ok_or_else(|| BootFailure::plain(STAGE, format!("{MACHINE_BOOT_ARGUMENT} names no disk")))?;
    let path = Path::new("/dev").join(disk);
    wait_for(&path).step(STAGE, path.display())?;
    let mut text = Vec::new();
    let file = File::open(&path).step(STAGE, path.display())?;
    file.take(BOOT_BYTES as u64).read_to_end(&mut text).step(STAGE, path.display())?;
    parse(&text)
}

/// Waits until a disk is there.
pub(super) fn wait_for(path: &Path) -> io::Result<()> {
    wait_until(|| path.exists())
}

/// Waits for a device, up to `DEVICE_TIMEOUT`.
pub(super) fn wait_until(mut is_there: impl FnMut() -> bool) -> io::Result<()> {
    let deadline = Instant::now() + DEVICE_TIMEOUT;
    while !is_there() {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::NotFound.into());
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
    Ok(())
}

fn is_disk_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn parse(text: &[u8]) -> Result<MachineConfig, BootFailure> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    serde_json::from_slice(text.get(..end).unwrap_or_default())
        .map_err(|error| BootFailure::plain(STAGE, format!("parse the machine's document: {error}")))
}
