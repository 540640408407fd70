//! The part of the unified hierarchy that an ordinary user may manage.
//!
//! A user may only move processes between groups whose common parent is theirs too. The delegated group is
//! therefore the one this process was started in, unless sandboxes of the yard are still in another: systemd
//! gives each start a scope of its own. A group that shares out controllers may hold no process itself:
//! `settle` moves its processes to a group beside the sandboxes', where a restarted server then finds itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::groups::{enable_controllers, yard_directory};
use super::layout::{CgroupLayout, HOST_GROUP, LayoutError};

/// Files of the delegated group that this user must be able to write; cgroups(7) names them.
const DELEGATED_FILES: [&str; 3] = ["", "cgroup.procs", "cgroup.subtree_control"];
/// Attempts to empty the group, since others may fork into it meanwhile.
const SETTLE_ATTEMPTS: usize = 16;

/// Why no usable control group was delegated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DelegationError {
    /// The unified hierarchy is not where the controllers are.
    #[error("control groups are not version 2 alone")]
    NotUnified,
    /// The hierarchies could not be read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The group of this process belongs to another user.
    #[error("no control group is delegated to this user ({} can't be written)", .0.display())]
    NotOurs(PathBuf),
    /// The group lacks controllers.
    #[error("the delegated control group lacks the {missing} controller")]
    Controllers {
        /// Names of the missing controllers, joined by "and".
        missing: String,
    },
}

/// Returns the delegated group of this process.
pub(crate) fn find() -> Result<PathBuf, DelegationError> {
    let layout = CgroupLayout::detect()?;
    let [hierarchy] = layout.hierarchies.as_slice() else { return Err(DelegationError::NotUnified) };
    if layout.describe() != "v2" {
        return Err(DelegationError::NotUnified);
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = delegated_group(&hierarchy.root, &own).ok_or(DelegationError::NotUnified)?;
    judge(&group)?;
    Ok(group)
}

/// Returns the group in which a process with this `/proc/<pid>/cgroup` may make others.
fn delegated_group(mount: &Path, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = mount.join(path);
    match group.parent() {
        Some(parent) if group.ends_with(HOST_GROUP) => Some(parent.to_owned()),
        _ => Some(group),
    }
}

fn judge(group: &Path) -> Result<(), DelegationError> {
    let ours = |name| rustix::fs::access(group.join(name), Access::WRITE_OK).is_ok();
    if !DELEGATED_FILES.into_iter().all(ours) {
        return Err(DelegationError::NotOurs(group.to_owned()));
    }
    let available = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let lacks = |name: &&str| !available.split_whitespace().any(|word| word == *name);
    let missing: Vec<_> = ["cpu", "memory", "pids"].into_iter().filter(lacks).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(DelegationError::Controllers { missing: missing.join(" and ") })
}

/// Returns the group of a yard: the one in which it has sandboxes, or else `found`. `<data>/control-group`
/// records it.
pub(crate) fn of_yard(data: &Path, yard: &str, found: PathBuf) -> io::Result<PathBuf> {
    let record = data.join("control-group");
    let remembered = match fs::read_to_string(&record) {
        Ok(text) => Some(PathBuf::from(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let in_use = |group: &PathBuf| group.join(yard_directory(yard)).is_dir() && judge(group).is_ok();
    if let Some(group) = remembered.filter(in_use) {
        return Ok(group);
    }
    fs::write(record, found.as_os_str().as_encoded_bytes())?;
    Ok(found)
}

/// Empties the delegated group of processes and has it share out its controllers.
pub(crate) fn settle(group: &Path) -> io::Result<()> {
    let host = group.join(HOST_GROUP);
    match fs::create_dir(&host) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut outcome = Ok(());
    for _ in 0..SETTLE_ATTEMPTS {
        for pid in fs::read_to_string(group.join("cgroup.procs"))?.lines() {
            // An ended process is no obstacle. One that can't be moved makes `enable_controllers` fail with
            // EBUSY.
            let _ = fs::write(host.join("cgroup.procs"), pid);
        }
        outcome = enable_controllers(group);
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => break,
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_the_hosts_group_finds_the_delegated_one_above_it() {
        let mount = Path::new("/sys/fs/cgroup");
        let user = "/sys/fs/cgroup/user.slice/a.scope";
        assert_eq!(delegated_group(mount, "0::/user.slice/a.scope\n").unwrap(), Path::new(user));
        let again = delegated_group(mount, "0::/user.slice/a.scope/sandyard-host\n").unwrap();
        assert_eq!(again, Path::new(user));
        assert_eq!(delegated_group(mount, "4:memory:/x\n"), None);
    }

    #[test]
    fn a_group_that_cant_limit_names_what_it_lacks() {
        let group = tempfile::tempdir().unwrap();
        assert!(matches!(judge(group.path()), Err(DelegationError::NotOurs(_))));
        for name in ["cgroup.procs", "cgroup.subtree_control"] {
            fs::write(group.path().join(name), "").unwrap();
        }
        fs::write(group.path().join("cgroup.controllers"), "memory pids\n").unwrap();
        let lacking = judge(group.path()).unwrap_err().to_string();
        assert_eq!(lacking, "the delegated control group lacks the cpu controller");
        fs::write(group.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        judge(group.path()).unwrap();
    }

    #[test]
    fn a_yard_stays_in_the_group_where_its_sandboxes_are() {
        let (data, one, two) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |group: &Path| of_yard(data.path(), "y", group.to_owned()).unwrap();
        assert_eq!(open(one.path()), one.path());
        assert_eq!(open(two.path()), two.path(), "nothing was left in the first");
        for name in ["cgroup.procs", "cgroup.subtree_control"] {
            fs::write(two.path().join(name), "").unwrap();
        }
        fs::write(two.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        fs::create_dir(two.path().join("sandyard-y")).unwrap();
        assert_eq!(open(one.path()), two.path());
    }

    #[test]
    fn settling_moves_processes_and_shares_out_controllers() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), "41\n42\n").unwrap();
        fs::write(group.path().join("cgroup.subtree_control"), "").unwrap();
        settle(group.path()).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("sandyard-host/cgroup.procs")).unwrap(), "42");
        let shared = fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(shared, "+cpu +memory +pids");
    }
}
