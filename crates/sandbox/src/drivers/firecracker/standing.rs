//! With whose rights a yard makes machines: root locks each up with the jailer, an ordinary user who may use KVM runs them plainly.

use std::path::{Path, PathBuf};

use super::programs::Lack;
use crate::parts::cgroup::{self, Layout};

/// Whose rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Root, who has this jailer give each machine a user, a root and namespaces of its own.
    Jailed(PathBuf),
    /// An ordinary user, whose machines run with that user's rights, behind Firecracker's own system-call filter.
    Free,
}

impl Standing {
    /// The means of isolation, for the status.
    pub(super) fn runtime(&self, version: impl std::fmt::Display) -> String {
        match self {
            Self::Jailed(_) => format!("firecracker {version}+jailer"),
            Self::Free => format!("firecracker {version}, rootless without jailer"),
        }
    }

    /// Where control groups are made.
    pub(super) fn layout(&self, data: &Path, yard: &str) -> Result<Layout, Lack> {
        let lack = |detail: String, fix: &str| Lack { detail, fix: fix.to_owned() };
        match self {
            Self::Jailed(_) => Layout::detect().map_err(|error| {
                lack(
                    error.to_string(),
                    "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup",
                )
            }),
            Self::Free => {
                let hint =
                    "run it in a scope of its own: systemd-run --user --scope -p Delegate=yes sandyard up";
                let group = cgroup::find_delegated().map_err(|error| lack(error.to_string(), hint))?;
                let group =
                    cgroup::of_yard(data, yard, group).map_err(|error| lack(error.to_string(), hint))?;
                cgroup::settle(&group).map_err(|error| lack(error.to_string(), hint))?;
                Ok(Layout::delegated(group))
            }
        }
    }
}
