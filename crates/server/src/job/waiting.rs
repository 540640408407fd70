//! What a queued job waits for.

use std::fmt;

/// What a queued job waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWait {
    /// The host lacks room for its sandbox.
    Room(RoomShortage),
    /// No driver can run it yet; the text says which is missing.
    Driver(String),
    /// Jobs before it. The job with this id, if there is one, has waited so long that no other may overtake it.
    Turn(Option<super::JobId>),
}

/// A resource of the host that a sandbox lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomShortage {
    /// As many sandboxes as allowed exist.
    Sandboxes {
        /// The number that is allowed.
        most: usize,
        /// How many of them are kept for jobs that have ended.
        kept: usize,
    },
    /// Too little memory is free.
    Memory {
        /// Memory of the sandbox, in MiB.
        needed_mib: u64,
        /// Memory that no sandbox has, in MiB.
        free_mib: u64,
        /// Sandboxes that are kept for jobs that have ended.
        kept: usize,
    },
    /// Too little of the yard's disk is free and not promised to other sandboxes.
    DiskSpace {
        /// Space that the sandbox may take, in MiB.
        needed_mib: u64,
        /// Space that nobody has, in MiB.
        free_mib: u64,
        /// Space that all sandboxes could have together, in MiB.
        most_mib: u64,
        /// Sandboxes that are kept for jobs that have ended.
        kept: usize,
    },
    /// The yard's disk is nearly full.
    Disk {
        /// Space that must be free before anything starts, in MiB.
        headroom_mib: u64,
    },
}

impl JobWait {
    /// True if the wait ends when other jobs end. Others must not be held up by a job that waits for something else.
    pub(crate) fn ends_with_others(&self) -> bool {
        match self {
            Self::Room(RoomShortage::DiskSpace { needed_mib, most_mib, .. }) => needed_mib <= most_mib,
            Self::Room(_) => true,
            Self::Driver(_) | Self::Turn(_) => false,
        }
    }
}

impl fmt::Display for JobWait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Room(shortage) => shortage.fmt(out),
            Self::Driver(text) => out.write_str(text),
            Self::Turn(None) => out.write_str("jobs that were scheduled earlier start first"),
            Self::Turn(Some(job)) => {
                write!(
                    out,
                    "job {job} has waited longest for room, and no other job may overtake it any more"
                )
            }
        }
    }
}

impl fmt::Display for RoomShortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self {
            Self::Sandboxes { most, kept } => {
                write!(out, "all {most} sandboxes that the server allows are in use")?;
                *kept
            }
            Self::Memory { needed_mib, free_mib, kept } => {
                write!(out, "its sandbox needs {needed_mib} MiB of memory, and {free_mib} MiB are free")?;
                *kept
            }
            Self::DiskSpace { needed_mib, most_mib, .. } if needed_mib > most_mib => {
                write!(
                    out,
                    "its sandbox may take {needed_mib} MiB of disk, and all sandboxes together have {most_mib} MiB"
                )?;
                0
            }
            Self::DiskSpace { needed_mib, free_mib, kept, .. } => {
                write!(
                    out,
                    "its sandbox may take {needed_mib} MiB of disk, and {free_mib} MiB are not promised to others"
                )?;
                *kept
            }
            Self::Disk { headroom_mib } => {
                write!(out, "less than {headroom_mib} MiB of the yard's disk are free")?;
                0
            }
        };
        match kept {
            0 => Ok(()),
            kept => write!(out, "; sandboxes kept for ended jobs: {kept} (`sandyard cancel` removes one)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_with_figures() {
        let memory = RoomShortage::Memory { needed_mib: 512, free_mib: 100, kept: 0 };
        assert_eq!(memory.to_string(), "its sandbox needs 512 MiB of memory, and 100 MiB are free");
        let disk = |most_mib| RoomShortage::DiskSpace { needed_mib: 512, free_mib: 100, most_mib, kept: 0 };
        let told = "its sandbox may take 512 MiB of disk, and 100 MiB are not promised to others";
        assert_eq!(disk(1000).to_string(), told);
        let told = "its sandbox may take 512 MiB of disk, and all sandboxes together have 400 MiB";
        assert_eq!(disk(400).to_string(), told);
        assert!(JobWait::Room(disk(512)).ends_with_others() && !JobWait::Room(disk(511)).ends_with_others());
        let full = RoomShortage::Sandboxes { most: 2, kept: 1 };
        assert_eq!(
            JobWait::Room(full).to_string(),
            "all 2 sandboxes that the server allows are in use; sandboxes kept for ended jobs: 1 (`sandyard cancel` \
             removes one)"
        );
    }
}
