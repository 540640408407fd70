//! The steps of making a sandbox, by name, in the order of time. A test can fail each.

use std::fmt;

use crate::host::steps;

/// Step of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DockerStep {
    /// Writes the file that records the sandbox.
    Marker,
    /// Finding the image in the engine, or loading it.
    Image,
    /// Making the control groups.
    MakeGroups,
    /// Sets the limits of the control groups.
    LimitGroups,
    /// Making the link directory and listening in it.
    Link,
    /// Writing init's boot document.
    Boot,
    /// Mounting the disk where the engine finds it.
    Disk,
    /// Writing the system-call filter.
    Profile,
    /// Having the engine make the container.
    Create,
    /// Has the engine start the container.
    Start,
    /// Finds the container's first process.
    Identify,
    /// Unmounts the disk from the stage.
    Unstage,
    /// Writes the process into the marker; from then on the sandbox counts as alive.
    Note,
}

impl DockerStep {
    /// Every step, in order.
    pub const ALL: [Self; 13] = [
        Self::Marker,
        Self::Image,
        Self::MakeGroups,
        Self::LimitGroups,
        Self::Link,
        Self::Boot,
        Self::Disk,
        Self::Profile,
        Self::Create,
        Self::Start,
        Self::Identify,
        Self::Unstage,
        Self::Note,
    ];
}

impl fmt::Display for DockerStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Marker => "write the marker",
            Self::Image => "load the image into the engine",
            Self::MakeGroups => "make the control groups",
            Self::LimitGroups => "limit the control groups",
            Self::Link => "listen for its link",
            Self::Boot => "write the boot document",
            Self::Disk => "mount the disk",
            Self::Profile => "write the profile",
            Self::Create => "create the container",
            Self::Start => "start the container",
            Self::Identify => "find the container's process",
            Self::Unstage => "take the disk off the stage",
            Self::Note => "write the process in the marker",
        })
    }
}

pub(super) type DockerFailure = steps::StepFailure<DockerStep>;
pub(super) type DockerSteps = steps::StartSteps<DockerStep>;
