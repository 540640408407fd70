//! The view from inside a sandbox of any driver: users, places and sizes, each with its reason.

use std::path::PathBuf;

use sandyard_protocol::{
    AGENT_PROGRAM, BOOT_FD, BootConfig, LinkTarget, MachineSize, SCRIPTS, Secret, SpawnerSource,
};
pub(crate) use sandyard_protocol::{DiskMount, MemoryMount};

use crate::driver::{Limits, SandboxSpec};

/// Owner of places that belong to no user inside.
pub(crate) const ROOT_ID: u32 = 0;
/// Group of terminals: `tty` in Debian and in every distribution that follows it.
pub(crate) const TERMINAL_GROUP: u32 = 5;
/// The job's user; `agent` in the image.
pub(crate) const AGENT_ID: u32 = 1000;
/// Init's and keeper's user: the last before `nobody`, which no distribution hands out.
pub(crate) const KEEPER_ID: u32 = 65_533;
/// Path where the link directory appears inside.
pub(crate) const LINK_TARGET: &str = "/run/sandyard";
pub(crate) const LINK_SOCKET: &str = "pipe.sock";
/// Path where init's own directory appears inside. It holds the boot document and other files that only init
/// may read; the job can't see it.
pub(crate) const BOOT_TARGET: &str = "/run/init";
/// Name of the boot document in that directory.
pub(crate) const BOOT_FILE: &str = "boot.json";
/// Path inside of the directory with the guest's programs, which the job may read.
pub(crate) const PROGRAMS_TARGET: &str = "/run/guest";
/// Keeper's own small disk.
const SPOOL: &str = "/run/keeper";
/// Open files that each process of the job may hold. Development servers and browsers expect this many, and
/// it is below the usual hard limit.
pub(crate) const OPEN_FILES: u64 = 4096;
const MIB: u64 = 1024 * 1024;

/// A directory of the disk.
pub(crate) struct DiskPlace {
    /// Name of the directory in the disk's root.
    pub(crate) source: &'static str,
    pub(crate) target: &'static str,
    /// True for a temporary directory, which everyone may write, with the sticky bit. False for a directory
    /// of the agent.
    pub(crate) shared: bool,
}

impl DiskPlace {
    /// Returns the owner inside, for user and group.
    pub(crate) fn owner(&self) -> u32 {
        if self.shared { ROOT_ID } else { AGENT_ID }
    }

    pub(crate) fn mode(&self) -> u32 {
        if self.shared { 0o1777 } else { 0o755 }
    }
}

/// Every place that survives the sandbox. All are on one disk, so one cap holds for all.
pub(crate) const DISK_PLACES: [DiskPlace; 4] = [
    DiskPlace { source: "workspace", target: "/workspace", shared: false },
    DiskPlace { source: "home", target: "/home/agent", shared: false },
    DiskPlace { source: "tmp", target: "/tmp", shared: true },
    DiskPlace { source: "var-tmp", target: "/var/tmp", shared: true },
];

/// Returns the places of the disk as mounts.
pub(crate) fn disk_mounts() -> Vec<DiskMount> {
    DISK_PLACES
        .iter()
        .map(|place| DiskMount { source: place.source.into(), target: place.target.into() })
        .collect()
}

/// Returns every file system in memory. Those of the job are charged to the job's memory, the spool to ours.
pub(crate) fn memory_mounts(memory_mib: u64) -> Vec<MemoryMount> {
    // Half of the memory, Linux's default for /dev/shm. Chromium and Python's multiprocessing need a lot of
    // it.
    let shared = memory_mib * MIB / 2;
    vec![
        memory("/run", MIB, 256, 0o755, 0),
        memory("/dev/shm", shared, 65_536, 0o1777, 0),
        memory("/run/user/1000", 64 * MIB, 16_384, 0o700, AGENT_ID),
        memory(SPOOL, 128 * MIB, 16_384, 0o700, KEEPER_ID),
        // Holds a script of CODE_BYTES and its successor while it is replaced.
        memory(SCRIPTS, 16 * MIB, 64, 0o755, KEEPER_ID),
    ]
}

fn memory(target: &str, size_bytes: u64, inodes: u64, mode: u32, owner: u32) -> MemoryMount {
    MemoryMount { target: target.into(), size_bytes, inodes, mode, owner }
}

/// Way in which the first processes of a machine get their boot document.
#[derive(Debug, Clone)]
pub(crate) enum Birth {
    /// As a descriptor, with a spawner that the driver made.
    Descriptors,
    /// As a file of [`BOOT_TARGET`], with a spawner that init makes and moves through these `cgroup.procs`
    /// files, as init sees them, into the job's control groups.
    Files {
        /// One `cgroup.procs` file for each hierarchy.
        cgroup_procs: Vec<PathBuf>,
    },
}

/// Returns the link of a driver that mounts the link directory.
pub(crate) fn unix_link() -> LinkTarget {
    LinkTarget::UnixSocket { path: PathBuf::from(LINK_TARGET).join(LINK_SOCKET) }
}

pub(crate) fn boot_config(spec: &SandboxSpec, link: LinkTarget, birth: Birth) -> BootConfig {
    let mut writable: Vec<PathBuf> = DISK_PLACES.iter().map(|place| place.target.into()).collect();
    writable.extend([PathBuf::from("/dev/shm"), PathBuf::from("/run/user/1000")]);
    let mut hidden: Vec<PathBuf> = vec![SPOOL.into(), LINK_TARGET.into()];
    let spawner = match birth {
        Birth::Descriptors => SpawnerSource::Given { socket: BOOT_FD + 1 },
        Birth::Files { cgroup_procs } => {
            hidden.push(BOOT_TARGET.into());
            SpawnerSource::Fork { cgroup_procs }
        }
    };
    BootConfig {
        secret: spec.secret.clone(),
        link,
        agent_id: AGENT_ID,
        keeper_id: KEEPER_ID,
        spawner,
        agent_program: Some(PathBuf::from(PROGRAMS_TARGET).join(AGENT_PROGRAM)),
        engine: None,
        spool: SPOOL.into(),
        hidden,
        writable,
        open_files: OPEN_FILES,
        lifetime_s: spec.lifetime_s,
        boot_time_s: 0,
        size: Some(size(&spec.limits)),
    }
}

/// Returns the size of a machine, as its job is to see it.
fn size(limits: &Limits) -> MachineSize {
    MachineSize {
        cpu_quota_us: limits.cpu_quota_us(),
        memory_bytes: limits.memory_mib.saturating_mul(MIB),
        pids: limits.pids,
    }
}

/// Returns the boot document of a spawner that the driver makes: without the secret, because the job's processes begin as
/// copies of the spawner.
pub(crate) fn without_secret(config: &BootConfig) -> BootConfig {
    BootConfig { secret: Secret::new([0; 32]), ..config.clone() }
}
