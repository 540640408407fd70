//! Messages between the driver and its launcher processes: JSON packets with descriptors.
//!
//! driver → launcher: an [`LauncherErrand`], most often to fork a helper that serves the socket which came with it. driver →
//! helper: `Order::Park`, answered when it sits in its control groups; then `Order::Launch`, answered once the guest's first
//! process runs. A helper whose socket closes before that kills the machine.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::step::{NativeFailure, NativeStep};
use crate::host::layout::{DiskMount, MemoryMount};
use crate::host::sandboxes::ids::Extent;

/// Source of a workspace in memory in the list of mounts; its first id follows.
pub(in super::super) const MEMORY_SOURCE: &str = "sandyard:";

/// Messages of the driver to a launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum LauncherErrand {
    /// Fork a helper that serves the socket which comes with it.
    Helper,
    /// Enter the yard's namespaces, those of the process whose descriptor comes with it, and go on there.
    Enter,
    /// Make the yard's namespaces and leave a process behind that holds them for as long as this file names it.
    Hold {
        /// File in which the driver records the holder.
        record: PathBuf,
    },
}

/// Messages of the process that holds the yard's namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum HolderReport {
    /// The holder exists and waits for its ids.
    Made {
        /// Pid of the holder.
        pid: i32,
    },
    /// The holder has its ids.
    Ready,
    /// The kernel refused to make the holder.
    Refused {
        /// The system's error number.
        errno: i32,
    },
}

/// Messages of the driver to a helper.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum HelperOrder {
    /// Enter the control groups of a sandbox and wait there.
    Park(ParkPlan),
    /// Make the sandbox. Comes with the descriptors of [`LaunchFds`].
    Launch(Box<LaunchPlan>),
}

/// Preparations before the sandbox is known. The groups are `cgroup.procs` files, one for each hierarchy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct ParkPlan {
    pub(in super::super) own: Vec<PathBuf>,
    pub(in super::super) job: Vec<PathBuf>,
    /// For each group of the job, the `cgroup.procs` file to which a helper moves when it is given up.
    pub(in super::super) refuges: Vec<PathBuf>,
    /// A blank disk image to mount ahead.
    pub(in super::super) disk: Option<PathBuf>,
    /// Step at which the helper fails on purpose; for tests.
    pub(in super::super) fail_at: Option<NativeStep>,
}

/// The descriptors that come with `Order::Launch`, in this order.
#[derive(Debug)]
pub(in super::super) struct LaunchFds {
    /// Standard error of the guest.
    pub(in super::super) console: OwnedFd,
    pub(in super::super) boot: OwnedFd,
    /// Boot document of the spawner, without the secret.
    pub(in super::super) spawner_boot: OwnedFd,
}

impl LaunchFds {
    pub(in super::super) fn as_packet(&self) -> [BorrowedFd<'_>; 3] {
        [&self.console, &self.boot, &self.spawner_boot].map(AsFd::as_fd)
    }

    pub(in super::super) fn from_packet(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let [console, boot, spawner_boot] =
            <[OwnedFd; 3]>::try_from(fds).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { console, boot, spawner_boot })
    }
}

/// Plan of a sandbox, as the launcher needs it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct LaunchPlan {
    pub(in super::super) host_name: String,
    /// Tree of the image on the host.
    pub(in super::super) image_root: PathBuf,
    /// Directory on the host with the guest's programs.
    pub(in super::super) programs: PathBuf,
    /// Storage of the sandbox's writable places.
    pub(in super::super) disk: DiskPlan,
    /// Directory on the host that holds the link's socket.
    pub(in super::super) link_directory: PathBuf,
    /// Map from the sandbox's ids to ids of the launcher's user namespace.
    pub(in super::super) id_map: Vec<Extent>,
    /// Owners of the files of image and disk.
    pub(in super::super) owners: FileOwners,
    /// File systems in memory, mounted in order, after the devices.
    pub(in super::super) memory_mounts: Vec<MemoryMount>,
    /// Directories of the disk and the paths where they appear.
    pub(in super::super) disk_mounts: Vec<DiskMount>,
    /// Path inside the sandbox where the link directory appears.
    pub(in super::super) link_target: String,
    /// Path inside the sandbox where the guest's programs appear.
    pub(in super::super) programs_target: String,
    /// Step at which the launch fails on purpose; for tests.
    pub(in super::super) fail_at: Option<NativeStep>,
}

/// Storage of the writable places.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) enum DiskPlan {
    /// A disk image, mounted through a loop device.
    Image {
        /// Path on the host.
        path: PathBuf,
        /// True if the helper mounted this disk ahead.
        parked: bool,
    },
    /// A file system in memory, mounted on the workspace's folder in the launcher's mount namespace by the first sandbox on it.
    Memory(MemoryDisk),
}

impl DiskPlan {
    /// Returns the path on the host, for errors.
    pub(in super::super) fn path(&self) -> &Path {
        match self {
            Self::Image { path, .. } => path,
            Self::Memory(disk) => &disk.folder,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct MemoryDisk {
    /// The workspace's folder on the host.
    pub(in super::super) folder: PathBuf,
    pub(in super::super) size_bytes: u64,
    pub(in super::super) inodes: u64,
    /// First id of its owners, which identifies the workspace later.
    pub(in super::super) id_base: u32,
    /// True if an earlier sandbox has made the file system.
    pub(in super::super) exists: bool,
    /// Directories of a new file system.
    pub(in super::super) places: Vec<MemoryPlace>,
}

/// A directory of a workspace in memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct MemoryPlace {
    pub(in super::super) name: String,
    /// Owner, as user and group, in the numbering of the launcher's user namespace.
    pub(in super::super) owner: u32,
    pub(in super::super) mode: u32,
}

/// Owners of the files of image and disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum FileOwners {
    /// Files have the sandbox's own ids on disk, and its mounts map them. Needs the host's root.
    Mapped,
    /// Files have the host's ids. The image belongs to nobody inside; a disk in memory already belongs to the
    /// sandbox.
    AsTheyAre,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum HelperAnswer {
    /// The helper is in its groups.
    Parked,
    /// Init and spawner have executed the guest.
    Launched {
        /// First process of the guest, as the host sees it.
        pid: i32,
        /// Microseconds each step took, in order.
        phases: Vec<(NativeStep, u64)>,
    },
    /// A step failed; nothing runs.
    Failed {
        /// Step that failed.
        step: NativeStep,
        /// Object of the step.
        object: String,
        /// The system's error number.
        errno: i32,
    },
}

impl From<NativeFailure> for HelperAnswer {
    fn from(failure: NativeFailure) -> Self {
        Self::Failed { errno: failure.errno(), step: failure.step, object: failure.object }
    }
}
