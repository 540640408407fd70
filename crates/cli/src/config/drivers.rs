//! Settings of each driver: `[drivers.oci] runtime = "runc"`, or `SANDYARD_OCI_RUNTIME=runc`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::layers::{ConfigError, Layers};
use super::readers::{at_least_one, one_of, text};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DriverSettings {
    pub(crate) firecracker: FirecrackerSettings,
    pub(crate) oci: OciSettings,
    pub(crate) docker: DockerSettings,
    pub(crate) qemu: QemuSettings,
}

/// Settings of `[drivers.firecracker]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirecrackerSettings {
    /// Path of the program; `None` searches the PATH for `firecracker`.
    pub(crate) program: Option<PathBuf>,
    /// Path of the jailer; `None` searches the PATH for `jailer`.
    pub(crate) jailer: Option<PathBuf>,
    /// Longest time that a machine may take to boot.
    pub(crate) boot_time: Duration,
}

/// Settings of `[drivers.oci]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OciSettings {
    /// Name or path of the runtime; `None` selects the first one that is installed.
    pub(crate) runtime: Option<String>,
    /// True if jobs that name the driver may use a runtime with known vulnerabilities.
    pub(crate) allow_outdated_runtime: bool,
}

/// Settings of `[drivers.docker]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DockerSettings {
    /// Socket of the engine; `None` tries the usual sockets of Docker and Podman.
    pub(crate) socket: Option<PathBuf>,
    /// True if jobs that name the driver may use an engine whose runtime has known vulnerabilities.
    pub(crate) allow_outdated_runtime: bool,
}

/// Settings of `[drivers.qemu]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QemuSettings {
    /// Path of the program; `None` searches the PATH for the one of this processor.
    pub(crate) program: Option<PathBuf>,
    /// Accelerator that runs the code of the guest.
    pub(crate) accelerator: QemuAccelerator,
    /// Longest time that a machine may take to boot.
    pub(crate) boot_time: Duration,
}

/// Accelerator that runs the code of the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum QemuAccelerator {
    /// KVM if a guest boots with it, else TCG.
    #[default]
    Auto,
    /// KVM: the processor runs the code.
    Kvm,
    /// TCG: an emulator, slow but available everywhere.
    Tcg,
}

impl DriverSettings {
    /// Parses every value. Reports the first bad one with its source.
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
