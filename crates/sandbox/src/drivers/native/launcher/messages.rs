//! What the driver and its launcher processes say to each other: JSON packets with descriptors.
//!
//! driver → launcher: an empty packet with one socket forks a helper that serves that socket.
//! driver → helper: `Order::Park`, answered when it sits in its control groups; then `Order::Launch`, answered
//! once the guest's first process runs. A helper whose socket closes before that kills what it made.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::step::{Failure, Step};

/// What the driver asks of a helper.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Order {
    /// Enter the control groups of a sandbox and wait there.
    Park(Park),
    /// Make the sandbox. Comes with the descriptors of [`LaunchFds`].
    Launch(Box<LaunchPlan>),
}

/// What can be done before the sandbox is known. The groups are `cgroup.procs` files, one for each hierarchy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Park {
    /// For init and keeper.
    pub(in super::super) own: Vec<PathBuf>,
    /// For the job.
    pub(in super::super) job: Vec<PathBuf>,
    /// A blank disk image to mount ahead.
    pub(in super::super) disk: Option<PathBuf>,
    /// Fails on purpose; for tests.
    pub(in super::super) fail_at: Option<Step>,
}

/// The descriptors that come with `Order::Launch`, in this order.
#[derive(Debug)]
pub(in super::super) struct LaunchFds {
    /// The guest's program, a sealed memfd.
    pub(in super::super) program: OwnedFd,
    /// Standard error of the guest.
    pub(in super::super) console: OwnedFd,
    /// Init's boot document.
    pub(in super::super) boot: OwnedFd,
    /// The spawner's, without the secret.
    pub(in super::super) spawner_boot: OwnedFd,
    /// The program of tasks, a sealed memfd, for the spawner.
    pub(in super::super) agent: OwnedFd,
}

impl LaunchFds {
    /// As they are sent.
    pub(in super::super) fn as_packet(&self) -> [BorrowedFd<'_>; 5] {
        [&self.program, &self.console, &self.boot, &self.spawner_boot, &self.agent].map(AsFd::as_fd)
    }

    /// As they arrive.
    pub(in super::super) fn from_packet(fds: Vec<OwnedFd>) -> io::Result<Self> {
        let [program, console, boot, spawner_boot, agent] =
            <[OwnedFd; 5]>::try_from(fds).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { program, console, boot, spawner_boot, agent })
    }
}

/// A sandbox, as the launcher needs to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct LaunchPlan {
    /// Host name inside.
    pub(in super::super) host_name: String,
    /// Tree of the image on the host.
    pub(in super::super) image_root: PathBuf,
    /// Disk image on the host with the sandbox's writable places.
    pub(in super::super) disk: PathBuf,
    /// Whether that is the one which was mounted ahead.
    pub(in super::super) disk_is_parked: bool,
    /// Directory on the host that holds the link's socket.
    pub(in super::super) link_directory: PathBuf,
    /// First of the 65,536 host ids that are the sandbox's 0 to 65,535.
    pub(in super::super) id_base: u32,
    /// Mounted in order, after the devices.
    pub(in super::super) memory_mounts: Vec<MemoryMount>,
    /// Directories of the disk and where they appear.
    pub(in super::super) disk_mounts: Vec<DiskMount>,
    /// Where the link directory appears.
    pub(in super::super) link_target: String,
    /// Fails on purpose at this step; for tests.
    pub(in super::super) fail_at: Option<Step>,
}

/// A sized file system in memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct MemoryMount {
    /// Absolute path inside; made if its parent is itself in memory.
    pub(in super::super) target: String,
    /// Most bytes it holds.
    pub(in super::super) size_bytes: u64,
    /// Most files it holds.
    pub(in super::super) inodes: u64,
    /// Permission bits of its root.
    pub(in super::super) mode: u32,
    /// Owner of its root, user and group, as seen inside.
    pub(in super::super) owner: u32,
}

/// A directory of the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct DiskMount {
    /// Name in the root of the disk.
    pub(in super::super) source: String,
    /// Absolute path inside.
    pub(in super::super) target: String,
}

/// What a helper says.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) enum Answer {
    /// It sits in its groups.
    Parked,
    /// The guest runs.
    Launched {
        /// Its first process, as the host sees it.
        pid: i32,
        /// Microseconds each step took, in order.
        phases: Vec<(Step, u64)>,
    },
    /// A step failed; nothing runs.
    Failed {
        /// Which.
        step: Step,
        /// On what.
        object: String,
        /// The system's error number.
        errno: i32,
    },
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let errno = failure.source.raw_os_error().unwrap_or(libc::EIO);
        Self::Failed { step: failure.step, object: failure.object, errno }
    }
}

/// Writes a message as JSON.
pub(in super::super) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(io::Error::other)
}

/// Reads a message.
pub(in super::super) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(io::Error::other)
}
