//! The rights with which a yard makes sandboxes. Control groups, ids, workspaces and the access to links
//! depend on them.
//!
//! Only this file asks for the user id. All other code works with the setup that it gets.

use std::sync::Arc;

use super::config::NativeConfig;
use super::launcher::messages::FileOwners;
use super::rootless::{self, YardNamespace};
use super::workspaces::Workspaces;
use crate::driver::DriverOpenError;
use crate::host::cgroup::{self, CgroupLayout};
use crate::host::requirements;
use crate::host::sandboxes::ids::Supply;
use crate::host::sandboxes::links::KeeperEntry;
use crate::host::storage::disk::{self, Disks};

#[derive(Debug, Clone)]
pub(super) enum Privileges {
    /// The host's root user.
    Root,
    /// An ordinary user, who is root in a namespace of the yard.
    Rootless(Arc<YardNamespace>),
}

/// Parts of the driver that depend on the rights.
#[derive(Debug)]
pub(super) struct NativeSetup {
    pub(super) privileges: Privileges,
    /// Hierarchies in which control groups are made.
    pub(super) layout: CgroupLayout,
    pub(super) supply: Supply,
    /// Storage of the sandboxes' writable places.
    pub(super) workspaces: Workspaces,
    /// How keeper gets access to its socket.
    pub(super) entry: KeeperEntry,
}

impl NativeSetup {
    /// Returns the setup for this user on this host, or the condition that fails.
    pub(super) fn of_host(config: &NativeConfig, yard: &str) -> Result<Self, DriverOpenError> {
        if rustix::process::geteuid().is_root() { Self::of_root(config) } else { Self::of_user(config, yard) }
    }

    fn of_root(config: &NativeConfig) -> Result<Self, DriverOpenError> {
        require_host()?;
        let layout = requirements::control_groups()?;
        let disks = Disks::open(&config.data, config.blank_disk_mib)
            .map_err(DriverOpenError::prepare("open the stock of disks"))?;
        Ok(Self {
            privileges: Privileges::Root,
            layout,
            supply: Supply::Host,
            workspaces: Workspaces::OnDisk(disks),
            entry: KeeperEntry::Group,
        })
    }

    fn of_user(config: &NativeConfig, yard: &str) -> Result<Self, DriverOpenError> {
        let conditions = rootless::require()?;
        let group = cgroup::of_yard(&config.data, yard, conditions.group().to_owned())
            .map_err(DriverOpenError::prepare("remember the delegated control group"))?;
        // Before the first group is made: version 2 refuses controllers for children while the group itself
        // holds a process.
        cgroup::settle(&group).map_err(DriverOpenError::prepare("share out the delegated control group"))?;
        disk::remove_unfinished(&config.data.join(disk::STOCK))
            .map_err(DriverOpenError::prepare("tidy the stock of disks"))?;
        let supply = conditions.supply();
        let namespace = YardNamespace::new(&config.data, config.launcher.clone(), conditions);
        namespace.holder().map_err(DriverOpenError::prepare("make the yard's user namespace"))?;
        Ok(Self {
            privileges: Privileges::Rootless(Arc::new(namespace)),
            layout: CgroupLayout::delegated(group),
            supply,
            workspaces: Workspaces::InMemory,
            entry: KeeperEntry::AccessList,
        })
    }
}

impl Privileges {
    /// Returns the namespace in which sandboxes are made, or `None` for the host's.
    pub(super) fn namespace(&self) -> Option<Arc<YardNamespace>> {
        match self {
            Self::Root => None,
            Self::Rootless(namespace) => Some(namespace.clone()),
        }
    }

    /// Returns the owners of the files of image and disk.
    pub(super) fn owners(&self) -> FileOwners {
        match self {
            Self::Root => FileOwners::Mapped,
            Self::Rootless(_) => FileOwners::AsTheyAre,
        }
    }

    /// Returns the means of isolation, for the status.
    pub(super) fn runtime(&self) -> &'static str {
        match self {
            Self::Root => "namespaces+seccomp+landlock",
            Self::Rootless(_) => "rootless namespaces+seccomp+landlock",
        }
    }

    /// Returns the prefix of the report on the host.
    pub(super) fn prefix(&self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Rootless(_) => "rootless, workspaces in memory, ",
        }
    }
}

/// Checks the kernel's settings that root needs. Names the first missing part and its remedy.
fn require_host() -> Result<(), DriverOpenError> {
    if std::fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() == "0") {
        let fix = "sysctl -w user.max_user_namespaces=15000";
        return Err(DriverOpenError::unusable("user.max_user_namespaces is 0", fix));
    }
    requirements::mounted_disks()
}
