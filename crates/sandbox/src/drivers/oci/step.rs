//! The steps of making a sandbox, by name, in the order of time. A test can fail each.

use std::fmt;

use crate::host::steps;

/// Step of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OciStep {
    /// Writes the file that records the sandbox.
    Marker,
    /// Making the control groups.
    MakeGroups,
    /// Sets the limits of the control groups.
    LimitGroups,
    /// Allows init to move the spawner into the job's groups.
    OpenGroups,
    /// Making the link directory and listening in it.
    Link,
    /// Making the user namespace.
    Users,
    /// Writing the runtime's `config.json`.
    Bundle,
    /// Putting image, disk and boot document where the runtime finds them.
    Stage,
    /// Having the runtime make the container.
    Create,
    /// Puts the first process into groups that the runtime does not know.
    EnterGroups,
    /// Reads the start time that tells the process from later ones with its pid.
    Identify,
    /// Has the runtime start the container.
    Start,
    /// Writes the process into the marker; from then on the sandbox counts as alive.
    Note,
}

impl OciStep {
    /// Every step, in order.
    pub const ALL: [Self; 13] = [
        Self::Marker,
        Self::MakeGroups,
        Self::LimitGroups,
        Self::OpenGroups,
        Self::Link,
        Self::Users,
        Self::Bundle,
        Self::Stage,
        Self::Create,
        Self::EnterGroups,
        Self::Identify,
        Self::Start,
        Self::Note,
    ];
}

impl fmt::Display for OciStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Marker => "write the marker",
            Self::MakeGroups => "make the control groups",
            Self::LimitGroups => "limit the control groups",
            Self::OpenGroups => "open the job's control groups",
            Self::Link => "make the link",
            Self::Users => "make the user namespace",
            Self::Bundle => "write the bundle",
            Self::Stage => "prepare image and disk",
            Self::Create => "create the container",
            Self::EnterGroups => "enter the control groups",
            Self::Identify => "identify the first process",
            Self::Start => "start the container",
            Self::Note => "write the process in the marker",
        })
    }
}

pub(super) type OciFailure = steps::StepFailure<OciStep>;
pub(super) type OciSteps = steps::StartSteps<OciStep>;
