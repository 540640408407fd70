//! Conditions under which an ordinary user can have sandboxes, and a remedy for each that fails.

use std::fs;
use std::path::{Path, PathBuf};

use super::subordinate::{IdRange, SubordinateIds, range_in};
use crate::driver::DriverOpenError;
use crate::host::cgroup::{self, DelegationError};
use crate::host::sandboxes::ids::Supply;

/// Directories in which distributions install newuidmap and newgidmap.
const FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];
/// Remedy for a group that is not delegated. systemd does not delegate the controllers below by itself.
const DELEGATE: &str = "start it with `systemd-run --user --scope -p Delegate=yes sandyard up`";
const DELEGATE_CONTROLLERS: &str = "as root: mkdir -p /etc/systemd/system/user@.service.d && \
    printf '[Service]\\nDelegate=cpu memory pids\\n' >/etc/systemd/system/user@.service.d/delegate.conf && \
    systemctl daemon-reload, then log in again";

/// Parts of the host that rootless sandboxes use.
#[derive(Debug)]
pub(in super::super) struct Conditions {
    /// Ids to give to sandboxes.
    pub(super) ids: SubordinateIds,
    /// The programs that write id maps.
    pub(super) mappers: Mappers,
    /// Delegated group in which the groups of sandboxes are made.
    group: PathBuf,
}

impl Conditions {
    pub(in super::super) fn group(&self) -> &Path {
        &self.group
    }

    /// Returns the ids that sandboxes share.
    pub(in super::super) fn supply(&self) -> Supply {
        self.ids.supply()
    }
}

/// The two programs of Debian's `uidmap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mappers {
    pub(super) newuidmap: PathBuf,
    pub(super) newgidmap: PathBuf,
}

/// Facts about a host.
#[derive(Debug)]
struct HostFacts {
    user: u32,
    max_user_namespaces: Option<u64>,
    unprivileged_userns_clone: Option<u64>,
    apparmor_restricts: Option<u64>,
    apparmor_label: String,
    mappers: Option<Mappers>,
    subuid: Option<IdRange>,
    subgid: Option<IdRange>,
    group: Result<PathBuf, DelegationError>,
}

/// A condition that fails, and its remedy.
#[derive(Debug, PartialEq, Eq)]
struct Obstacle {
    detail: String,
    fix: String,
}

/// Examines this host. The error names every condition that fails.
pub(in super::super) fn require() -> Result<Conditions, DriverOpenError> {
    let facts = HostFacts::of_host();
    let obstacles = facts.obstacles();
    match (obstacles.is_empty(), facts) {
        (
            true,
            HostFacts {
                mappers: Some(mappers),
                subuid: Some(users),
                subgid: Some(groups),
                group: Ok(group),
                ..
            },
        ) => Ok(Conditions { ids: SubordinateIds { users, groups }, mappers, group }),
        _ => Err(unusable(&obstacles)),
    }
}

fn unusable(obstacles: &[Obstacle]) -> DriverOpenError {
    let join = |part: fn(&Obstacle) -> &str| obstacles.iter().map(part).collect::<Vec<_>>().join("; ");
    DriverOpenError::Unusable {
        detail: format!("not root, and {}", join(|obstacle| &obstacle.detail)),
        fix: format!("run as root, or {}", join(|obstacle| &obstacle.fix)),
    }
}

impl HostFacts {
    fn of_host() -> Self {
        let user = rustix::process::getuid().as_raw();
        Self {
            user,
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            apparmor_label: fs::read_to_string("/proc/self/attr/current").unwrap_or_default(),
            mappers: Mappers::find(),
            subuid: range_in("/etc/subuid", user),
            subgid: range_in("/etc/subgid", user),
            group: cgroup::find_delegated(),
        }
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        let mut found = Vec::new();
        let mut add = |detail: String, fix: &str| found.push(Obstacle { detail, fix: fix.to_owned() });
        if self.max_user_namespaces == Some(0) {
            add("user.max_user_namespaces is 0".into(), "sysctl -w user.max_user_namespaces=15000");
        }
        if self.unprivileged_userns_clone == Some(0) {
            let fix = "sysctl -w kernel.unprivileged_userns_clone=1";
            add("kernel.unprivileged_userns_clone is 0".into(), fix);
        }
        // AppArmor restricts programs without a profile only; a profile may allow user namespaces.
        let unconfined = self.apparmor_label.trim_end_matches(['\0', '\n']) == "unconfined";
        if self.apparmor_restricts == Some(1) && unconfined {
            add(
                "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)"
                    .into(),
                "install packaging/apparmor/sandyard as /etc/apparmor.d/sandyard and load it with \
                 `apparmor_parser -r /etc/apparmor.d/sandyard`, or \
                 sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        if self.mappers.is_none() {
            add("newuidmap and newgidmap are not installed".into(), "apt-get install uidmap");
        }
        for (range, file, flag) in
            [(self.subuid, "/etc/subuid", "subuids"), (self.subgid, "/etc/subgid", "subgids")]
        {
            if range.is_none() {
                let detail = format!("user {} has no range of ids in {file}", self.user);
                add(detail, &format!("usermod --add-{flag} 100000-165535 $USER (a range that nobody has)"));
            }
        }
        if let Err(error) = &self.group {
            add(error.to_string(), delegation_fix(error));
        }
        found
    }
}

fn delegation_fix(error: &DelegationError) -> &'static str {
    match error {
        DelegationError::NotUnified | DelegationError::Layout(_) => {
            "boot with version 2 alone: systemd.unified_cgroup_hierarchy=1 on the kernel's command line"
        }
        DelegationError::NotOurs(_) => DELEGATE,
        DelegationError::Controllers { .. } => DELEGATE_CONTROLLERS,
    }
}

impl Mappers {
    fn find() -> Option<Self> {
        let program = |name: &str| {
            FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
        };
        Some(Self { newuidmap: program("newuidmap")?, newgidmap: program("newgidmap")? })
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
