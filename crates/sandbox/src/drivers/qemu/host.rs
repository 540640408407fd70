//! The host's QEMU: the program, its version, and the accelerator.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::driver::DriverOpenError;

/// Directories in which QEMU is looked for; a service often lacks a useful PATH.
const FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/libexec"];
const PROGRAM: &str = "qemu-system-x86_64";

/// Means by which the guest's code is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// Hardware virtualisation by the host's kernel.
    Kvm,
    /// An emulator: slow, and works everywhere.
    Tcg,
}

impl Accelerator {
    pub(super) fn runtime(self) -> &'static str {
        match self {
            Self::Kvm => "qemu-kvm",
            Self::Tcg => "qemu-tcg",
        }
    }
}

/// The operator's choice of accelerator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acceleration {
    /// KVM if a guest boots on it, else the emulator.
    #[default]
    Auto,
    /// The named accelerator, or the driver is unusable.
    Only(Accelerator),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChosenAccelerator {
    pub(super) accelerator: Accelerator,
    pub(super) reason: Option<String>,
    pub(super) basis: ChoiceBasis,
}

/// Facts on which a choice depends. If one changes, the choice is void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChoiceBasis {
    pub(super) boot_id: String,
    pub(super) version: String,
    pub(super) kernel: String,
}

#[derive(Debug, Clone)]
pub(super) struct QemuProgram {
    pub(super) path: PathBuf,
    pub(super) version: String,
}

impl QemuProgram {
    /// Finds QEMU, or names the package to install.
    pub(super) fn find(given: Option<&Path>) -> Result<Self, DriverOpenError> {
        let lacking = |detail: String| DriverOpenError::Unusable {
            detail,
            fix: "apt-get install qemu-system-x86".to_owned(),
        };
        let path = match given {
            Some(path) => path.to_owned(),
            None => FOLDERS
                .iter()
                .map(|folder| Path::new(folder).join(PROGRAM))
                .find(|path| path.exists())
                .ok_or_else(|| lacking(format!("{PROGRAM} is not installed")))?,
        };
        let version =
            version(&path).map_err(|error| lacking(format!("{} does not run: {error}", path.display())))?;
        Ok(Self { path, version })
    }
}

/// Checks the host before the first start.
pub(super) fn require_host() -> Result<(), DriverOpenError> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(DriverOpenError::Unusable {
            detail: "machines are made for x86-64 processors only".to_owned(),
            fix: "use another driver".to_owned(),
        });
    }
    if !rustix::process::geteuid().is_root() {
        return Err(DriverOpenError::Unusable {
            detail: "machines get a user and limits of their own, which needs root".to_owned(),
            fix: "run the server as root".to_owned(),
        });
    }
    Ok(())
}

fn version(path: &Path) -> io::Result<String> {
    let output = Command::new(path).arg("--version").env_clear().stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number =
        text.split_whitespace().find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    number.map(str::to_owned).ok_or_else(|| io::Error::other("it tells no version"))
}

/// Returns why KVM need not be tried, or `None` if it must be.
pub(super) fn no_kvm() -> Option<String> {
    match fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("there is no /dev/kvm".to_owned()),
        Err(error) => Some(format!("/dev/kvm can't be opened: {error}")),
    }
}
