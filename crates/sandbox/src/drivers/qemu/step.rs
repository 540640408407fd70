//! The steps of making a sandbox, by name, in the order of time. A test can fail each.

use std::fmt;

use crate::parts::steps;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Writing the marker.
    Marker,
    /// Making the workspace's disk.
    Disk,
    /// Opening all that QEMU is handed.
    Open,
    /// Making the control groups.
    MakeGroups,
    /// Setting their limits.
    LimitGroups,
    /// Starting QEMU, confined.
    Run,
    /// Writing its process in the marker, from which on it counts as alive.
    Note,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Marker, Self::Disk, Self::Open, Self::MakeGroups, Self::LimitGroups, Self::Run, Self::Note];
}

impl fmt::Display for Step {
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

/// One that failed.
pub(super) type Failure = steps::Failure<Step>;
/// All of one start.
pub(super) type Steps = steps::Steps<Step>;
