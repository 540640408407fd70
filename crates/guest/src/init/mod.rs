//! PID 1 of the machine: makes the spawner, drops everything, then only reaps, holds descriptors and restarts keeper.
//!
//! The driver has prepared root, mounts and outer namespaces; the boot document is on descriptor 3 or in a file. From the drop on, init is
//! keeper's user without any privilege, so a restarted keeper gets exactly the same rights as the first one. When init leaves,
//! the kernel kills the whole machine. It leaves when its time is over, when the spawner is gone, when keeper reports that the
//! work is over, and when keeper can't be kept alive.

mod children;
mod held;
pub(crate) mod messages;
mod restarts;
mod user_namespace;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions, WaitStatus, wait};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use sandyard_protocol::{BootConfig, LinkTarget, SCRIPTS};

use crate::boot::{self, BootFailure, BootStep as _};
use crate::confine::{self, seccomp};
use crate::keeper::desktop::DesktopPlaces;
use crate::limits::OWN_OPEN_FILES;
use crate::spawner::open_own_program;
use crate::sys::{self, ChildSignals};
use children::{Keeper, Spawner, open_groups, start_keeper, start_spawner};
use restarts::Restarts;

pub use held::{HeldStreams, KeeperTurn};

/// Init after it has dropped its privileges.
struct Init {
    config: BootConfig,
    program: OwnedFd,
    spawner: Spawner,
    children: ChildSignals,
    lifetime: OwnedFd,
    held: HeldStreams,
    restarts: Restarts,
    keeper: KeeperState,
}

enum KeeperState {
    Alive(Keeper),
    /// Its end of the socket is closed, so it is dying. Its exit status decides between a restart and the machine's end.
    Leaving(Keeper),
    Dead {
        restart_at: Instant,
    },
}

/// The descriptors that were ready after a wait.
struct InitEvents {
    keeper: bool,
    children: bool,
    lifetime: bool,
    spawner_gone: bool,
}

/// Runs init from its boot document, a file or a descriptor, until the machine must end.
pub fn run(document: Option<&Path>) -> Result<(), BootFailure> {
    let config = match document {
        Some(path) => boot::read_config(path)?,
        None => boot::take_config()?,
    };
    // Descriptors that the driver left open must not reach the programs that init and its children exec.
    sys::close_on_exec_from(3).step("descriptors", "mark close-on-exec")?;
    // Started first, so that the time of the boot counts as part of the machine's lifetime.
    let lifetime = start_lifetime(config.lifetime_s)?;
    // Opened now: the groups belong to the host, where init has no rights once it is in a user namespace.
    let groups = open_groups(&config.spawner)?;
    let program = match config.engine {
        Some(engine) => user_namespace::enter(engine.first_id)?,
        None => open_own_program()?,
    };
    prepare_scripts(&config)?;
    let mut writable = vec![config.spool.clone(), SCRIPTS.into()];
    writable.extend(prepare_desktop(config.keeper_id));
    if let LinkTarget::VirtioSerial { path } = &config.link {
        writable.push(path.clone());
    }
    // Forked before init drops its privileges and its limit of open files: the spawner needs the privileges for its namespaces
    // and mounts, and could not raise a hard limit that it inherited.
    let spawner = start_spawner(&config, &program, &groups)?;
    confine::limit_resources(OWN_OPEN_FILES)?;
    confine::become_user(config.keeper_id)?;
    // Landlock and seccomp follow `become_user`, which sets no-new-privileges; unprivileged processes may install neither
    // without it. The filter is last because it refuses the calls that change users. Keeper inherits both and adds a narrower filter.
    confine::landlock::restrict(&writable)?;
    seccomp::install(seccomp::FilterProfile::Init { host_sockets: config.link.needs_host_sockets() })?;
    // Opened before keeper starts: a keeper that dies at once would otherwise go unnoticed, and never be restarted.
    let children = ChildSignals::open().step("signals", "watch for children")?;
    let keeper = KeeperState::Alive(start_keeper(&config, &program, &spawner.socket)?);
    let (held, restarts) = (HeldStreams::default(), Restarts::default());
    let reason = Init { config, program, spawner, children, lifetime, held, restarts, keeper }.serve()?;
    boot::console("end", None, reason);
    Ok(())
}

/// Makes the directory of the job's script, unless the driver did.
fn prepare_scripts(config: &BootConfig) -> Result<(), BootFailure> {
    match rustix::fs::mkdir(SCRIPTS, Mode::from_raw_mode(0o755)) {
        Err(Errno::EXIST) => return Ok(()),
        result => result.step("scripts", format_args!("make {SCRIPTS}"))?,
    }
    let (user, group) = (Uid::from_raw(config.keeper_id), Gid::from_raw(config.keeper_id));
    rustix::fs::chown(SCRIPTS, Some(user), Some(group))
        .step("scripts", format_args!("give {SCRIPTS} to keeper"))
}

/// Makes the directories of the sockets between keeper and the job's X server. Keeper owns them; the job may add files and not remove
/// keeper's. If the job left something else under such a name on its disk, that is not used, and there is no desktop.
fn prepare_desktop(keeper_id: u32) -> Vec<PathBuf> {
    let DesktopPlaces { display_directory, socket_directory, .. } = DesktopPlaces::default();
    let (user, group) = (Uid::from_raw(keeper_id), Gid::from_raw(keeper_id));
    let prepare = |path: &PathBuf| {
        let _ = rustix::fs::mkdir(path, Mode::from_raw_mode(0o755));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // By descriptor and without following links: the job may have left a link under this name on its disk, and init would give
        // the link's target away.
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        rustix::fs::fchown(&directory, Some(user), Some(group))?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(0o1777))
    };
    [display_directory, socket_directory].into_iter().filter(|path| prepare(path).is_ok()).collect()
}

/// Starts the timer that ends the machine. The timer also counts the time for which the machine is suspended.
fn start_lifetime(seconds: u64) -> Result<OwnedFd, BootFailure> {
    const STAGE: &str = "lifetime";
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
        .step(STAGE, "make a timer")?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let seconds = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
    let once = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: seconds, tv_nsec: 0 } };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)
        .step(STAGE, format_args!("set it to {seconds} s"))?;
    Ok(timer)
}

impl Init {
    /// Serves until there is a reason to end the machine.
    fn serve(mut self) -> Result<&'static str, BootFailure> {
        loop {
            let ready = self.wait()?;
            // Reasons to end the machine come first: nothing below matters once one of them holds.
            if ready.lifetime {
                return Ok("the machine's time is over");
            }
            if ready.spawner_gone {
                return Ok("the spawner is gone");
            }
            if ready.keeper {
                self.serve_keeper()?;
            }
            if ready.children
                && let Some(reason) = self.reap()?
            {
                return Ok(reason);
            }
            self.restart_keeper()?;
        }
    }

    fn wait(&self) -> Result<InitEvents, BootFailure> {
        // `is_ready` below finds the descriptors by their position in this list.
        let mut fds = vec![
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.lifetime, PollFlags::IN),
            // Only the end of the socket matters; the spawner's messages are for keeper.
            PollFd::new(&self.spawner.socket, PollFlags::empty()),
        ];
        let timeout = match &self.keeper {
            KeeperState::Alive(keeper) => {
                fds.push(PollFd::new(&keeper.socket, PollFlags::IN));
                None
            }
            // Not polled: a closed socket is always ready, and the loop would spin. The signal of its death ends the wait.
            KeeperState::Leaving(_) => None,
            KeeperState::Dead { restart_at } => Some(restart_at.saturating_duration_since(Instant::now())),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(BootFailure::new("serve", "poll", error.into())),
        }
        let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(InitEvents {
            children: is_ready(0),
            lifetime: is_ready(1),
            spawner_gone: is_ready(2),
            keeper: is_ready(3),
        })
    }

    /// Serves keeper's requests. Kills a keeper that closed its socket or sent a malformed request; `reap` then restarts it.
    fn serve_keeper(&mut self) -> Result<(), BootFailure> {
        let leaving = match &self.keeper {
            KeeperState::Alive(keeper) => {
                !matches!(self.held.serve(keeper.socket.as_fd()), Ok(KeeperTurn::Everything))
            }
            _ => false,
        };
        let placeholder = KeeperState::Dead { restart_at: Instant::now() };
        self.keeper = match std::mem::replace(&mut self.keeper, placeholder) {
            KeeperState::Alive(keeper) if leaving => {
                // Harmless for a keeper that is leaving by itself. One that only closed its socket would live on otherwise, and never
                // be restarted.
                match rustix::process::kill_process(keeper.pid, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => KeeperState::Leaving(keeper),
                    Err(error) => return Err(BootFailure::new("serve", "end keeper", error.into())),
                }
            }
            state => state,
        };
        Ok(())
    }

    /// Reaps all ended children, orphans included. Returns a reason to end the machine if the spawner ended, or keeper left with 0.
    fn reap(&mut self) -> Result<Option<&'static str>, BootFailure> {
        // Cleared before the reaping: a child that ends in between raises the signal again.
        self.children.clear();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if self.spawner.pid == Some(pid) {
                return Ok(Some("the spawner is gone"));
            }
            if self.keeper_pid() == Some(pid) {
                if status.exit_status() == Some(0) {
                    return Ok(Some("keeper ended the machine"));
                }
                self.keeper_died(status)?;
            }
        }
        Ok(None)
    }

    fn keeper_pid(&self) -> Option<Pid> {
        match &self.keeper {
            KeeperState::Alive(keeper) | KeeperState::Leaving(keeper) => Some(keeper.pid),
            KeeperState::Dead { .. } => None,
        }
    }

    fn keeper_died(&mut self, status: WaitStatus) -> Result<(), BootFailure> {
        if let KeeperState::Alive(keeper) | KeeperState::Leaving(keeper) = &self.keeper {
            // Requests that it sent before it died count. One that can't be parsed is lost with it.
            drop(self.held.serve(keeper.socket.as_fd()));
        }
        let message = match status.terminating_signal() {
            Some(signal) => format!("keeper was ended by signal {signal}"),
            None => format!("keeper left with code {}", status.exit_status().unwrap_or(-1)),
        };
        boot::console("keeper", None, &message);
        let now = Instant::now();
        let Some(wait) = self.restarts.after_death(now) else {
            return Err(BootFailure::plain("keeper", "keeper died too often"));
        };
        self.keeper = KeeperState::Dead { restart_at: now + wait };
        Ok(())
    }

    fn restart_keeper(&mut self) -> Result<(), BootFailure> {
        if let KeeperState::Dead { restart_at } = self.keeper
            && restart_at.saturating_duration_since(Instant::now()) == Duration::ZERO
        {
            self.keeper =
                KeeperState::Alive(start_keeper(&self.config, &self.program, &self.spawner.socket)?);
        }
        Ok(())
    }
}
