//! What the operator can set for each driver: `[drivers.oci] runtime = "runc"`, or `SANDYARD_OCI_RUNTIME=runc`.

use std::path::PathBuf;
use std::time::Duration;

use super::layers::{ConfigError, Layers};
use super::settings::{at_least_one, one_of, text};

/// Settings by driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DriverSettings {
    /// Firecracker.
    pub(crate) firecracker: FirecrackerSettings,
    /// OCI runtimes.
    pub(crate) oci: OciSettings,
    /// Docker and Podman.
    pub(crate) docker: DockerSettings,
    /// QEMU.
    pub(crate) qemu: QemuSettings,
}

/// `[drivers.firecracker]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FirecrackerSettings {
    /// The program; `None` looks for `firecracker` where programs are.
    pub(crate) program: Option<PathBuf>,
    /// Its jailer; `None` looks for `jailer` where programs are.
    pub(crate) jailer: Option<PathBuf>,
    /// How long a machine may take to boot.
    pub(crate) boot_time: Duration,
}

/// `[drivers.oci]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OciSettings {
    /// The runtime, by name or path; `None` takes the first that is installed.
    pub(crate) runtime: Option<String>,
    /// Whether one with known holes may be used by jobs that name the driver.
    pub(crate) allow_outdated_runtime: bool,
}

/// `[drivers.docker]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DockerSettings {
    /// The engine's socket; `None` looks where Docker's and Podman's are.
    pub(crate) socket: Option<PathBuf>,
    /// Whether an engine whose runtime has known holes may be used by jobs that name the driver.
    pub(crate) allow_outdated_runtime: bool,
}

/// `[drivers.qemu]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QemuSettings {
    /// The program; `None` looks for the one of this processor where programs are.
    pub(crate) program: Option<PathBuf>,
    /// What runs the guest's code.
    pub(crate) accelerator: QemuAccelerator,
    /// How long a machine may take to boot.
    pub(crate) boot_time: Duration,
}

/// What runs the guest's code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum QemuAccelerator {
    /// KVM if a guest boots on it, else TCG.
    #[default]
    Auto,
    /// The processor.
    Kvm,
    /// An emulator: slow, and works everywhere.
    Tcg,
}

impl DriverSettings {
    /// Types every value.
    pub(super) fn new(layers: &Layers) -> Result<Self, ConfigError> {
        let path = |key| text(layers, key).map(PathBuf::from);
        let flag = |key| one_of(layers, key, &[("true", true), ("false", false)], "true or false");
        let seconds = |key| at_least_one(layers, key).map(Duration::from_secs);
        let accelerators =
            [("auto", QemuAccelerator::Auto), ("kvm", QemuAccelerator::Kvm), ("tcg", QemuAccelerator::Tcg)];
        Ok(Self {
            firecracker: FirecrackerSettings {
                program: path("drivers.firecracker.program"),
                jailer: path("drivers.firecracker.jailer"),
                boot_time: seconds("drivers.firecracker.boot_time_s")?,
            },
            oci: OciSettings {
                runtime: text(layers, "drivers.oci.runtime"),
                allow_outdated_runtime: flag("drivers.oci.allow_outdated_runtime")?,
            },
            docker: DockerSettings {
                socket: path("drivers.docker.socket"),
                allow_outdated_runtime: flag("drivers.docker.allow_outdated_runtime")?,
            },
            qemu: QemuSettings {
                program: path("drivers.qemu.program"),
                accelerator: one_of(layers, "drivers.qemu.accelerator", &accelerators, "auto, kvm or tcg")?,
                boot_time: seconds("drivers.qemu.boot_time_s")?,
            },
        })
    }
}
