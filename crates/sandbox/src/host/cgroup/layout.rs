//! The hierarchies of this host and the controllers in each.

use std::io;
use std::path::{Path, PathBuf};

/// Group of the processes that belong to no sandbox.
pub(super) const HOST_GROUP: &str = "sandyard-host";

/// The controllers we limit with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Limits memory, swap included.
    Memory,
    /// Limits processor time by a quota.
    Cpu,
    /// Processor time, which version 1 counts in a hierarchy of its own.
    CpuAccounting,
    /// Limits the number of processes and threads.
    Pids,
    /// Limits reads and writes of disks. Sandboxes start without it.
    Io,
}

impl Controller {
    const NEEDED: [Self; 4] = [Self::Memory, Self::Cpu, Self::CpuAccounting, Self::Pids];
    const ALL: [Self; 5] = [Self::Memory, Self::Cpu, Self::CpuAccounting, Self::Pids, Self::Io];

    fn version_1_name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::CpuAccounting => "cpuacct",
            Self::Pids => "pids",
            Self::Io => "blkio",
        }
    }

    /// Version 2 counts processor time in every group, without a controller.
    fn version_2_name(self) -> Option<&'static str> {
        match self {
            Self::Memory => Some("memory"),
            Self::Cpu => Some("cpu"),
            Self::CpuAccounting => None,
            Self::Pids => Some("pids"),
            Self::Io => Some("io"),
        }
    }
}

/// Version of a hierarchy's interface files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    /// One hierarchy for each controller or group of them.
    One,
    /// The unified hierarchy of version 2.
    Two,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) root: PathBuf,
    pub(crate) version: CgroupVersion,
    /// Our controllers in this hierarchy.
    pub(crate) controllers: Vec<Controller>,
}

impl Hierarchy {
    /// True if our own processes have a group here too. They have no quota. Where only processors are shared
    /// out, they stay with the host's programs, so a busy job can't hold keeper up.
    pub(crate) fn has_own(&self) -> bool {
        let limits = |controller| matches!(controller, &Controller::Memory | &Controller::Pids);
        self.version == CgroupVersion::Two || self.controllers.iter().any(limits)
    }

    /// Returns the group for processes that must leave a sandbox's group. A delegated group can't hold processes itself.
    pub(crate) fn refuge(&self) -> PathBuf {
        let host = self.root.join(HOST_GROUP);
        if host.is_dir() { host } else { self.root.clone() }
    }
}

/// All hierarchies we use; each of our controllers is in exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupLayout {
    /// Each hierarchy once. A unified one is there even if it has no controllers, for its kill file.
    pub(crate) hierarchies: Vec<Hierarchy>,
    /// Roots of version 1 hierarchies that we do not use. Runtimes make groups of the same names there.
    pub(crate) others: Vec<PathBuf>,
}

/// This host's control groups can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    /// The kernel's list of mounts could not be read.
    #[error("read {path}")]
    Read {
        /// File that could not be read.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// No mounted hierarchy has this controller.
    #[error("no mounted control group hierarchy has the {0} controller")]
    Missing(&'static str),
}

impl CgroupLayout {
    /// Returns the part of the unified hierarchy below a delegated group.
    pub(crate) fn delegated(group: PathBuf) -> Self {
        let hierarchy =
            Hierarchy { root: group, version: CgroupVersion::Two, controllers: Controller::ALL.to_vec() };
        Self { hierarchies: vec![hierarchy], others: Vec::new() }
    }

    pub(crate) fn detect() -> Result<Self, LayoutError> {
        let path = PathBuf::from("/proc/self/mountinfo");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| LayoutError::Read { path: path.clone(), source })?;
        Self::from_mountinfo(&text, |root| {
            let path = root.join("cgroup.controllers");
            std::fs::read_to_string(&path).map_err(|source| LayoutError::Read { path, source })
        })
    }

    /// Reads a list of mounts; `controllers` reads `cgroup.controllers` of a unified hierarchy.
    fn from_mountinfo(
        text: &str,
        controllers: impl Fn(&Path) -> Result<String, LayoutError>,
    ) -> Result<Self, LayoutError> {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        let mut others = Vec::new();
        for (root, version, options) in text.lines().filter_map(parse_line) {
            let held = match version {
                CgroupVersion::One => version_1_controllers(options),
                CgroupVersion::Two => version_2_controllers(&controllers(&root)?),
            };
            // The first mount wins: a hierarchy mounted twice must not count and limit twice.
            let known =
                |controller: &Controller| hierarchies.iter().any(|one| one.controllers.contains(controller));
            let fresh: Vec<_> = held.into_iter().filter(|controller| !known(controller)).collect();
            let unified_again =
                version == CgroupVersion::Two && hierarchies.iter().any(|one| one.version == version);
            if !unified_again && (version == CgroupVersion::Two || !fresh.is_empty()) {
                hierarchies.push(Hierarchy { root, version, controllers: fresh });
            } else if version == CgroupVersion::One {
                others.push(root);
            }
        }
        let layout = Self { hierarchies, others };
        match Controller::NEEDED.into_iter().find(|&controller| layout.of(controller).is_none()) {
            Some(missing) => Err(LayoutError::Missing(missing.version_1_name())),
            None => Ok(layout),
        }
    }

    /// Returns the hierarchy that holds a controller.
    pub(crate) fn of(&self, controller: Controller) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// Returns the roots of all hierarchies in which groups of ours may exist.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.hierarchies.iter().map(|one| one.root.as_path()).chain(self.others.iter().map(PathBuf::as_path))
    }

    /// Returns the unified hierarchy, with or without controllers.
    pub(crate) fn unified(&self) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|hierarchy| hierarchy.version == CgroupVersion::Two)
    }

    /// Returns `v1`, `v2` or `hybrid`, for reports.
    pub(crate) fn describe(&self) -> &'static str {
        let version_1 = self.hierarchies.iter().any(|hierarchy| hierarchy.version == CgroupVersion::One);
        match (version_1, self.unified().is_some()) {
            (true, true) => "hybrid",
            (true, false) => "v1",
            (false, _) => "v2",
        }
    }
}

/// Returns mount point, version and super block options of a control group mount. The fields are in
/// proc_pid_mountinfo(5).
fn parse_line(line: &str) -> Option<(PathBuf, CgroupVersion, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut file_system = file_system.split(' ');
    let version = match file_system.next()? {
        "cgroup" => CgroupVersion::One,
        "cgroup2" => CgroupVersion::Two,
        _ => return None,
    };
    let options = file_system.nth(1)?;
    Some((PathBuf::from(mount.split(' ').nth(4)?), version, options))
}

fn version_1_controllers(options: &str) -> Vec<Controller> {
    let named =
        |controller: &Controller| options.split(',').any(|option| option == controller.version_1_name());
    Controller::ALL.into_iter().filter(named).collect()
}

fn version_2_controllers(listed: &str) -> Vec<Controller> {
    let has = |name: &str| listed.split_whitespace().any(|word| word == name);
    // The unified hierarchy always counts processor time, but is used for it only where it has the quota too.
    // On a hybrid host version 1 limits and counts.
    let here = |controller: &Controller| controller.version_2_name().map_or(has("cpu"), has);
    Controller::ALL.into_iter().filter(here).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
35 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn none(_: &Path) -> Result<String, LayoutError> {
        Ok("hugetlb\n".to_owned())
    }

    #[test]
    fn a_hybrid_host_limits_through_version_1_and_keeps_the_unified_twin() {
        let layout = CgroupLayout::from_mountinfo(HYBRID, none).unwrap();
        assert_eq!(layout.describe(), "hybrid");
        let memory = layout.of(Controller::Memory).unwrap();
        assert_eq!(
            (memory.root.as_path(), memory.version),
            (Path::new("/sys/fs/cgroup/memory"), CgroupVersion::One)
        );
        let unified = layout.unified().unwrap();
        assert_eq!(unified.root, Path::new("/sys/fs/cgroup/unified"));
        let more = format!("{HYBRID}36 30 0:32 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n");
        assert_eq!(
            CgroupLayout::from_mountinfo(&more, none).unwrap().others,
            [Path::new("/sys/fs/cgroup/freezer")]
        );
        assert!(unified.controllers.is_empty());
    }

    #[test]
    fn a_unified_host_has_one_hierarchy_for_everything() {
        let text = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let layout =
            CgroupLayout::from_mountinfo(text, |_| Ok("cpuset cpu io memory pids\n".to_owned())).unwrap();
        assert_eq!(layout.describe(), "v2");
        assert_eq!(layout.hierarchies.len(), 1);
        assert_eq!(layout.of(Controller::CpuAccounting), layout.of(Controller::Pids));
    }

    #[test]
    fn controllers_mounted_together_are_one_hierarchy() {
        let text = HYBRID
            .replace("cpu rw,relatime - cgroup cgroup rw,cpu\n", "cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
        let layout = CgroupLayout::from_mountinfo(&text, none).unwrap();
        assert_eq!(layout.of(Controller::Cpu), layout.of(Controller::CpuAccounting));
    }

    #[test]
    fn a_missing_controller_is_named() {
        let text = HYBRID.replace("rw,pids", "rw,freezer");
        let error = CgroupLayout::from_mountinfo(&text, none).unwrap_err();
        assert_eq!(error.to_string(), "no mounted control group hierarchy has the pids controller");
    }
}
