//! With whose rights a yard makes sandboxes, and what follows from that: which parts the driver is put together from.
//!
//! This is the only place that asks who the user is. Everything else works with the parts it is given.

use std::sync::Arc;

use super::launcher::messages::Owners;
use super::rootless::{self, YardNamespace};
use super::workspaces::Workspaces;
use super::{NativeConfig, availability};
use crate::driver::OpenError;
use crate::parts::cgroup::{self, Layout};
use crate::parts::disk::{self, Disks};
use crate::parts::ids::Supply;
use crate::parts::links::Entry;
use crate::parts::requirements;

/// Whose rights.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// The host's root.
    Root,
    /// An ordinary user, who is root in a namespace of the yard's.
    Rootless(Arc<YardNamespace>),
}

/// What differs between the two.
#[derive(Debug)]
pub(super) struct Parts {
    /// Whose rights.
    pub(super) standing: Standing,
    /// Where control groups are made.
    pub(super) layout: Layout,
    /// Which ids sandboxes get.
    pub(super) supply: Supply,
    /// What holds their writable places.
    pub(super) workspaces: Workspaces,
    /// How keeper gets to its socket.
    pub(super) entry: Entry,
}

impl Parts {
    /// What this user has on this host, or which condition fails.
    pub(super) fn of_host(config: &NativeConfig, yard: &str) -> Result<Self, OpenError> {
        if rustix::process::geteuid().is_root() { Self::of_root(config) } else { Self::of_user(config, yard) }
    }

    fn of_root(config: &NativeConfig) -> Result<Self, OpenError> {
        availability::require_host()?;
        let layout = requirements::control_groups()?;
        let disks = Disks::open(&config.data, config.blank_disk_mib)
            .map_err(OpenError::prepare("open the stock of disks"))?;
        Ok(Self {
            standing: Standing::Root,
            layout,
            supply: Supply::Host,
            workspaces: Workspaces::OnDisk(disks),
            entry: Entry::Group,
        })
    }

    fn of_user(config: &NativeConfig, yard: &str) -> Result<Self, OpenError> {
        let conditions = rootless::require()?;
        let group = cgroup::of_yard(&config.data, yard, conditions.group().to_owned())
            .map_err(OpenError::prepare("remember the delegated control group"))?;
        cgroup::settle(&group).map_err(OpenError::prepare("share out the delegated control group"))?;
        disk::remove_unfinished(&config.data.join(disk::STOCK))
            .map_err(OpenError::prepare("tidy the stock of disks"))?;
        let supply = conditions.supply();
        let namespace = YardNamespace::new(&config.data, config.launcher.clone(), conditions);
        namespace.holder().map_err(OpenError::prepare("make the yard's user namespace"))?;
        Ok(Self {
            standing: Standing::Rootless(Arc::new(namespace)),
            layout: Layout::delegated(group),
            supply,
            workspaces: Workspaces::InMemory,
            entry: Entry::AccessList,
        })
    }
}

impl Standing {
    /// The namespace in which sandboxes are made, if it is not the host's.
    pub(super) fn namespace(&self) -> Option<Arc<YardNamespace>> {
        match self {
            Self::Root => None,
            Self::Rootless(namespace) => Some(namespace.clone()),
        }
    }

    /// Who owns the files of image and disk.
    pub(super) fn owners(&self) -> Owners {
        match self {
            Self::Root => Owners::Mapped,
            Self::Rootless(_) => Owners::AsTheyAre,
        }
    }

    /// The means of isolation, for the status.
    pub(super) fn runtime(&self) -> &'static str {
        match self {
            Self::Root => "namespaces+seccomp+landlock",
            Self::Rootless(_) => "rootless namespaces+seccomp+landlock",
        }
    }

    /// Begins what is said about the host.
    pub(super) fn prefix(&self) -> &'static str {
        match self {
            Self::Root => "",
            Self::Rootless(_) => "rootless, workspaces in memory, ",
        }
    }
}
