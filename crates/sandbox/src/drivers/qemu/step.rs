//! The steps of making a sandbox, by name, in the order of time. A test can fail each.

use std::fmt;

use crate::host::steps;

/// Step of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QemuStep {
    /// Writes the file that records the sandbox.
    Marker,
    /// Making the workspace's disk.
    Disk,
    /// Opens the files and sockets that QEMU inherits.
    Open,
    /// Making the control groups.
    MakeGroups,
    /// Sets the limits of the control groups.
    LimitGroups,
    /// Starts QEMU as its own user, in its groups.
    Run,
    /// Writes the process into the marker; from then on the sandbox counts as alive.
    Note,
}

impl QemuStep {
    /// Every step, in order.
    pub const ALL: [Self; 7] =
        [Self::Marker, Self::Disk, Self::Open, Self::MakeGroups, Self::LimitGroups, Self::Run, Self::Note];
}

impl fmt::Display for QemuStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Marker => "write the marker",
            Self::Disk => "make the disk",
            Self::Open => "open disks and sockets",
            Self::MakeGroups => "make control groups",
            Self::LimitGroups => "limit control groups",
            Self::Run => "run QEMU",
            Self::Note => "write the process in the marker",
        })
    }
}

pub(super) type QemuFailure = steps::StepFailure<QemuStep>;
pub(super) type QemuSteps = steps::StartSteps<QemuStep>;
