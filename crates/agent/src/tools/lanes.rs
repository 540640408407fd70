//! Lanes decide which calls of one answer may run at the same time: those that do not touch the same thing.
//!
//! Calls keep their order wherever one might see the effect of another: a command waits for a file that is written before it.

/// What a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallLane {
    /// Reads files; goes together with other reads.
    ReadsFiles,
    /// Writes the file at this path.
    WritesFile(String),
    /// Runs commands, which may touch every file.
    RunsCommands,
    /// Runs code in the kernel of this name.
    Kernel(String),
    /// Acts on the desktop.
    Desktop,
    /// Must not run beside any other call.
    Alone,
}

impl CallLane {
    /// True if two calls may run at the same time.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ReadsFiles, Self::ReadsFiles) | (Self::RunsCommands, Self::RunsCommands) => true,
            (Self::WritesFile(one), Self::WritesFile(other)) | (Self::Kernel(one), Self::Kernel(other)) => {
                one != other
            }
            (Self::RunsCommands, Self::Kernel(_)) | (Self::Kernel(_), Self::RunsCommands) => true,
            _ => false,
        }
    }
}
