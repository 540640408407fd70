//! The role that forks all processes of the job: the job's user, PID 1 of an inner pid namespace, single-threaded.
//!
//! It is born with privilege in namespaces of its own (by init, or by the driver), with the boot document on descriptor 3 and
//! its socket on 4. It arranges the job's view of the machine, drops all
//! privilege, and serves (`serve.rs`). The document from init holds no secret, because the job's processes begin as copies of
//! this one.

mod child;
pub mod client;
mod covers;
mod devices;
mod followed;
mod gauge;
pub(crate) mod messages;
mod plan;
mod serve;
mod size;
mod view;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use sandyard_protocol::BootConfig;

use crate::boot::{self, BootFailure, BootStep as _};
use crate::confine::{self, seccomp};
use crate::sys::{self, ChildSignals};
use child::GivenPrograms;
use followed::TrackedProcesses;
use serve::SpawnerServer;

/// Runs the spawner until every keeper's end of its socket is closed, or its boot fails.
pub fn run() -> Result<(), BootFailure> {
    let config = boot::take_config()?;
    // Closed by this process's end alone: init ends the machine at once when it sees that, and a failure must be on the
    // console before.
    let socket = ManuallyDrop::new(boot::take_fd("the spawner's socket", boot::SPAWNER_SOCKET_FD)?);
    sys::close_on_exec_from(3).step("descriptors", "mark close-on-exec")?;
    let agent = config.agent_program.as_deref().map(open_program).transpose()?;
    let programs = GivenPrograms { own: open_own_program()?, agent };
    // Mounts need privilege; from the next line on there is none.
    let gauge = view::prepare(&config)?;
    give_up_privilege(&config)?;
    let children = ChildSignals::open().step("signals", "watch for children")?;
    let server = SpawnerServer {
        socket,
        children,
        programs,
        followed: TrackedProcesses::default(),
        unsent: VecDeque::new(),
        gauge,
    };
    server.run().step("serve", "the spawner's loop")
}

/// Drops all privilege, for good, before the first request is read.
fn give_up_privilege(config: &BootConfig) -> Result<(), BootFailure> {
    confine::limit_resources(config.open_files)?;
    confine::become_user(config.agent_id)?;
    // Both rules need the no-new-privileges bit, which `become_user` sets. Every process of the job inherits them.
    confine::landlock::restrict(&config.writable)?;
    seccomp::install(seccomp::FilterProfile::Job { own_kernel: config.link.leaves_virtual_machine() })
}

/// Opens the guest's own program, to be run again. In a sandbox it may be a memory file without a name.
pub(crate) fn open_own_program() -> Result<OwnedFd, BootFailure> {
    open_program("/proc/self/exe".as_ref())
}

/// Opens a program by its path, to be run later from the descriptor.
pub(crate) fn open_program(path: &Path) -> Result<OwnedFd, BootFailure> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .step("descriptors", format_args!("open the program {}", path.display()))
}
