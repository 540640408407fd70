//! The first process of a virtual machine: makes a machine of a bare kernel, starts `init` in it, and switches it off.
//!
//! It runs from the initrd, alone and as root, while nothing of the job exists: modules (`modules`), the document of the driver
//! (`document`), the tree (`tree`), control groups (`groups`), then `init` as PID 1 of a namespace of its own. After that
//! it keeps one capability, to switch off, and waits: for init's end, for the driver's questions (`control`), or for
//! the keys that a virtual keyboard sends as an order to end.

mod control;
mod document;
mod groups;
mod modules;
mod ports;
mod tree;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use rustix::system::{RebootCommand, reboot};
use sandyard_protocol::{BootConfig, MACHINE_GUEST, MachineConfig};

use self::control::{ControlLine, ControlServer};
use crate::boot::{self, BootFailure, BootStep as _};
use crate::confine;
use crate::packets;
use crate::sys::{self, Forked, MachineSignals, Namespaces};

/// Boots the machine, serves until it must end, and switches it off. Returns only if that fails.
pub fn run() -> Result<(), BootFailure> {
    if let Err(failure) = begin().and_then(|machine| machine.serve()) {
        failure.print();
    }
    // Every process is dead by now, so nothing is written after the sync. Without it, the last seconds of the workspace's disk
    // would be lost with the machine.
    rustix::fs::sync();
    reboot(RebootCommand::Restart).step("end", "switch off")
}

/// The processes and lines that are watched once init runs.
struct RunningMachine {
    init: Pid,
    signals: MachineSignals,
    control: Option<ControlServer>,
}

/// Prepares the machine and starts init in it.
fn begin() -> Result<RunningMachine, BootFailure> {
    tree::mount_kernel_views()?;
    modules::load_all()?;
    let config = document::read()?;
    tree::harden();
    // Opened before root and namespaces change: neither the device nor the vsock can be reached afterwards.
    let control = control_line(&config)?;
    tree::build(&config)?;
    // Below the tree that becomes the root, so before it is entered.
    let groups = groups::prepare(&config.job)?;
    tree::enter()?;
    sys::own_surroundings().step("namespaces", "network, names and shared memory")?;
    sandyard_sys::raise_loopback().step("loopback", "lo")?;
    rustix::system::sethostname(config.host_name.as_bytes()).step("name", &config.host_name)?;
    // From here on the two keys of a virtual keyboard are a signal to this process instead of a reset.
    reboot(RebootCommand::CadOff).step("signals", "take the keyboard's order to end")?;
    // Opened before init starts, so that its end is not missed.
    let signals = MachineSignals::open().step("signals", "watch for children")?;
    let init = start_init(&config)?;
    let MachineConfig { boot: BootConfig { keeper_id, .. }, .. } = config;
    // The same user as init, because a process without CAP_KILL may signal only processes of its own user.
    confine::become_user_who_can_switch_off(keeper_id)?;
    Ok(RunningMachine { init, signals, control: control.map(|line| ControlServer::new(line, groups)) })
}

/// Opens the line on which the driver sends its requests, if there is one. This needs rights and a network namespace that are given up later.
fn control_line(config: &MachineConfig) -> Result<Option<ControlLine>, BootFailure> {
    if let Some(name) = &config.control_port {
        return ports::open(name).map(ControlLine::Serial).map(Some);
    }
    let listen = |port| sys::listen_vsock(port).step("control", format_args!("listen at port {port}"));
    let listener = config.control_vsock.map(listen).transpose()?;
    Ok(listener.map(|listener| ControlLine::Calls { listener, caller: None }))
}

/// Forks init into a pid namespace of its own. When init ends, the kernel kills all processes of the namespace.
fn start_init(config: &MachineConfig) -> Result<Pid, BootFailure> {
    const STAGE: &str = "start init";
    let program = Path::new(tree::PROGRAMS).join(MACHINE_GUEST);
    let program = rustix::fs::open(&program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .step(STAGE, program.display())?;
    let document = boot_document(&config.boot).step(STAGE, "write its boot document")?;
    match sys::fork_into(Namespaces::OwnPidsAndMounts).step(STAGE, "fork into namespaces")? {
        Forked::Parent(pid) => Ok(pid),
        Forked::Child => {
            let error = become_init(&program, &document);
            boot::console(STAGE, error.raw_os_error(), &format!("exec: {error}"));
            sys::leave(1)
        }
    }
}

fn boot_document(config: &BootConfig) -> io::Result<OwnedFd> {
    packets::memory_file(&serde_json::to_vec(config)?)
}

fn become_init(program: &OwnedFd, document: &OwnedFd) -> io::Error {
    let attempt = || {
        // The proc of the machine shows the pids of this process's namespace only if it is mounted in it.
        tree::mount_proc()?;
        let kept = [
            rustix::stdio::stdin(),
            rustix::stdio::stdout(),
            rustix::stdio::stderr(),
            document.as_fd(),
            program.as_fd(),
        ];
        // This process blocks SIGCHLD and SIGINT, and an exec would pass that on to init.
        sys::default_signals();
        sys::keep_only(&kept)?;
        sys::take(4)
    };
    let argv = [c"sandyard-guest", c"init"].map(CString::from);
    match attempt() {
        Ok(program) => sys::exec_program(program.as_fd(), &argv, &[]),
        Err(error) => error,
    }
}

impl RunningMachine {
    /// Returns when the machine shall end, with everything in it dead.
    fn serve(mut self) -> Result<(), BootFailure> {
        loop {
            self.wait()?;
            let ordered = self.signals.ordered_to_end()
                || self.control.as_mut().is_some_and(ControlServer::serve_until_power_off);
            if ordered {
                return self.end_init();
            }
            if waitpid(Some(self.init), WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some()) {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> Result<(), BootFailure> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // A line without a host at its other end is always ready, so it is not polled.
        let timeout = match &self.control {
            Some(control) if control.is_connected() => {
                fds.push(PollFd::new(control, PollFlags::IN));
                None
            }
            Some(_) => Some(control::LOOK_AGAIN),
            None => None,
        };
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(BootFailure::new("serve", "poll", error.into())),
        }
    }

    /// Kills init, and by that everything, before the disks are written.
    fn end_init(&self) -> Result<(), BootFailure> {
        match rustix::process::kill_process(self.init, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(BootFailure::new("end", "end init", error.into())),
        }
        waitpid(Some(self.init), WaitOptions::empty()).map(drop).step("end", "wait for init")
    }
}
