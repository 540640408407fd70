//! The beginning of every role: its configuration, and the report of a failed step.
//!
//! A step that fails ends the process: one JSON line `{stage, errno, message}` on standard error, which is the
//! machine's console, and a non-zero exit. No role goes on with less confinement.

use std::io::{self, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sandyard_protocol::{BOOT_FD, BootConfig};
use serde::Serialize;

use crate::limits::BOOT_BYTES;
use crate::{packets, sys};

/// The descriptor of the spawner's end (in the spawner) or keeper's end (in keeper) of the pair between them.
pub const SPAWNER_SOCKET_FD: RawFd = 4;
/// The descriptor of keeper's end of the pair between it and init.
pub const INIT_SOCKET_FD: RawFd = 5;

/// A failed step at the beginning of a role.
#[derive(Debug, thiserror::Error)]
#[error("{stage}: {message}")]
pub struct BootFailure {
    /// The step, as a stable word or two.
    pub stage: &'static str,
    /// The object and the reason.
    pub message: String,
    /// The kernel's error number.
    pub errno: Option<i32>,
}

/// One line on the console.
#[derive(Serialize)]
struct ConsoleLine<'a> {
    stage: &'a str,
    errno: Option<i32>,
    message: &'a str,
}

impl BootFailure {
    /// A failure with an error of the kernel.
    pub fn new(stage: &'static str, object: impl std::fmt::Display, error: io::Error) -> Self {
        Self { stage, message: format!("{object}: {error}"), errno: error.raw_os_error() }
    }

    /// A failure without an error number.
    pub fn plain(stage: &'static str, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), errno: None }
    }

    /// Prints the failure on the console.
    pub fn print(&self) {
        console(self.stage, self.errno, &self.message);
    }
}

/// Turns a failed call into a failed step that names its object.
pub trait BootStep<T> {
    /// Names the step and its object.
    fn step(self, stage: &'static str, object: impl std::fmt::Display) -> Result<T, BootFailure>;
}

impl<T, E: Into<io::Error>> BootStep<T> for Result<T, E> {
    fn step(self, stage: &'static str, object: impl std::fmt::Display) -> Result<T, BootFailure> {
        self.map_err(|error| BootFailure::new(stage, object, error.into()))
    }
}

/// Writes one line to the console. A failure is ignored: a lost console is no reason to stop.
pub fn console(stage: &str, errno: Option<i32>, message: &str) {
    let line = ConsoleLine { stage, errno, message };
    if let Ok(mut text) = serde_json::to_vec(&line) {
        text.push(b'\n');
        drop(io::stderr().write_all(&text));
    }
}

/// Reads the boot document from the descriptor that this process inherited.
pub fn take_config() -> Result<BootConfig, BootFailure> {
    parse_config(take_fd("boot document", BOOT_FD)?)
}

/// Reads the boot document from a file, for a machine whose first process inherits no descriptors.
pub fn read_config(path: &Path) -> Result<BootConfig, BootFailure> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .step("config", format_args!("open the boot document {}", path.display()))?;
    parse_config(file)
}

fn parse_config(file: OwnedFd) -> Result<BootConfig, BootFailure> {
    let text = packets::read_bounded(file, BOOT_BYTES).step("config", "read the boot document")?;
    serde_json::from_slice(&text)
        .map_err(|error| BootFailure::plain("config", format!("parse the boot document: {error}")))
}

/// Takes an inherited descriptor.
pub fn take_fd(what: &str, number: RawFd) -> Result<OwnedFd, BootFailure> {
    sys::take(number).step("descriptors", format_args!("{what} on descriptor {number}"))
}
