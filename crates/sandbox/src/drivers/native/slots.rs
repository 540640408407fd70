//! Slots: control groups that are already made, with a launcher's helper already waiting in them and a blank disk mounted.
//!
//! Entering version 1 groups costs several times the rest of a start (each attach waits for all processors), so
//! it is done ahead for a few sandboxes. A start that finds no slot makes one; there is no other way to start.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::Timespec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::launcher::messages::{HelperAnswer, HelperOrder, LaunchFds, LaunchPlan, LauncherErrand, ParkPlan};
use super::launcher::step::{NativeFailure, NativeStep};
use super::launcher_program::LauncherProgram;
use super::rootless::YardNamespace;
use crate::host::cgroup::{CgroupLayout, Groups};
use crate::host::packets::{self, decode, encode};
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::storage::disk::SetAside;
use crate::host::sys::readiness;

/// Attempts of `close` to remove the groups of a killed helper, and the delay between two. It takes about a millisecond, many
/// times that on a busy host.
pub(super) const CLOSE_ATTEMPTS: usize = 500;
const CLOSE_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Makes slots, keeps some, and knows the names of all that are not sandboxes yet.
#[derive(Debug)]
pub(super) struct LaunchSlots {
    layout: CgroupLayout,
    yard: String,
    /// Step at which helpers fail on purpose; for tests.
    fail_at: Option<NativeStep>,
    launcher: Mutex<Launcher>,
    parked: Mutex<Vec<LaunchSlot>>,
    /// Names of the groups of slots, made or in the making. A sweep must not take them for orphans.
    names: Arc<Mutex<BTreeSet<String>>>,
}

/// Control groups with a helper that waits in them.
#[derive(Debug)]
pub(super) struct LaunchSlot {
    pub(super) groups: Groups,
    helper: AsyncFd<OwnedFd>,
    /// Process that keeps the helper's namespaces, or `None` for the host's.
    holder: Option<ProcessIdentity>,
    /// Blank disk that the helper has mounted.
    pub(super) disk: Option<SetAside>,
    _claim: SlotClaim,
}

/// Keeps a slot's groups from being taken for orphans. Once it is dropped, either a marker owns them or they are orphans.
#[derive(Debug)]
struct SlotClaim {
    names: Arc<Mutex<BTreeSet<String>>>,
    name: String,
}

impl Drop for SlotClaim {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}

impl LaunchSlots {
    /// Creates an empty stock. The launcher starts with the first helper.
    pub(super) fn new(
        layout: CgroupLayout,
        yard: String,
        program: LauncherProgram,
        home: Option<Arc<YardNamespace>>,
        fail_at: Option<NativeStep>,
    ) -> Self {
        let launcher = Mutex::new(Launcher { program, home, running: None });
        Self { layout, yard, fail_at, launcher, parked: Mutex::default(), names: Arc::default() }
    }

    /// Takes a waiting slot whose helper still lives.
    pub(super) fn take_parked(&self) -> Option<LaunchSlot> {
        loop {
            let slot = self.parked.lock().pop()?;
            if slot.is_waiting() {
                return Some(slot);
            }
        }
    }

    pub(super) fn parked(&self) -> usize {
        self.parked.lock().len()
    }

    /// Makes a slot that waits, with a blank disk if there is one.
    pub(super) async fn park(&self, disk: Option<SetAside>) -> Result<(), NativeFailure> {
        let slot = self.make(disk).await?;
        self.parked.lock().push(slot);
        Ok(())
    }

    pub(super) async fn make(&self, disk: Option<SetAside>) -> Result<LaunchSlot, NativeFailure> {
        let failed = |step: NativeStep, object: &str| {
            let object = object.to_owned();
            move |source: io::Error| NativeFailure { step, object, source }
        };
        let name = random_name().map_err(failed(NativeStep::ControlGroups, "name"))?;
        // Claimed before the groups exist, so that a sweep in between does not remove them as orphans.
        let claim = self.claim(&name);
        let groups = Groups::new(&self.layout, &self.yard, &name);
        groups.create().map_err(failed(NativeStep::ControlGroups, &name))?;
        let (helper, holder) = self.new_helper().map_err(failed(NativeStep::Launcher, HELPER))?;
        let (own, job) = groups.entrances();
        let path = disk.as_ref().map(|disk| disk.path().to_owned());
        let park = ParkPlan { own, job, refuges: groups.refuges(), disk: path, fail_at: self.fail_at };
        // The slot owns the groups and the claim from here on; an error below drops both, and a sweep finds
        // the groups.
        let slot = LaunchSlot { groups, helper, holder, disk, _claim: claim };
        match slot.ask(&HelperOrder::Park(park), &[]).await? {
            HelperAnswer::Parked => Ok(slot),
            HelperAnswer::Failed { step, object, errno } => {
                Err(NativeFailure { step, object, source: io::Error::from_raw_os_error(errno) })
            }
            HelperAnswer::Launched { .. } => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }

    fn claim(&self, name: &str) -> SlotClaim {
        self.names.lock().insert(name.to_owned());
        SlotClaim { names: self.names.clone(), name: name.to_owned() }
    }

    /// True if a group belongs to a slot.
    pub(super) fn owns(&self, name: &str) -> bool {
        self.names.lock().contains(name)
    }

    /// Gives up every slot and removes, within a moment, all groups of the yard but the `kept` ones, which are sandboxes'. A
    /// later sweep removes the rest.
    pub(super) fn close(&self, kept: &BTreeSet<String>) {
        // Dropping a slot closes its socket, and the helper then ends. Only empty groups can be removed.
        drop(std::mem::take(&mut *self.parked.lock()));
        for name in Groups::all_names(&self.layout, &self.yard).unwrap_or_default().difference(kept) {
            let groups = Groups::new(&self.layout, &self.yard, name);
            for _ in 0..CLOSE_ATTEMPTS {
                if groups.kill().and_then(|()| groups.remove()).is_ok() {
                    break;
                }
                pause();
            }
        }
        Groups::remove_yard(&self.layout, &self.yard);
    }

    fn new_helper(&self) -> io::Result<(AsyncFd<OwnedFd>, Option<ProcessIdentity>)> {
        let (ours, theirs) = packets::pair()?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        // `theirs` is dropped at the end of this function, so the helper's death shows as the end of `ours`.
        let holder = self.launcher.lock().fork(theirs.as_fd())?;
        Ok((readiness::watch(ours, Interest::READABLE | Interest::WRITABLE)?, holder))
    }
}

impl LaunchSlot {
    /// Makes the sandbox. Returns its first process and the duration of each step in microseconds.
    pub(super) async fn launch(
        &self,
        plan: LaunchPlan,
        fds: &LaunchFds,
    ) -> Result<(i32, Vec<(NativeStep, u64)>), NativeFailure> {
        match self.ask(&HelperOrder::Launch(Box::new(plan)), &fds.as_packet()).await? {
            HelperAnswer::Launched { pid, phases } => Ok((pid, phases)),
            HelperAnswer::Failed { step, object, errno } => {
                Err(NativeFailure { step, object, source: io::Error::from_raw_os_error(errno) })
            }
            HelperAnswer::Parked => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }

    /// True if the helper still waits and its namespaces exist. A readable socket has an end or an unexpected
    /// packet.
    fn is_waiting(&self) -> bool {
        let received = packets::receive(self.helper.as_fd());
        let at_home = self.holder.as_ref().is_none_or(ProcessIdentity::is_alive);
        at_home && matches!(received, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    async fn ask(&self, order: &HelperOrder, fds: &[BorrowedFd<'_>]) -> Result<HelperAnswer, NativeFailure> {
        let bytes = encode(order).map_err(lost)?;
        let send = |socket: &OwnedFd| packets::send(socket.as_fd(), &bytes, fds);
        // One packet carries the whole order, so cancelling this future never leaves half an order with the
        // helper.
        self.helper.async_io(Interest::WRITABLE, send).await.map_err(lost)?;
        let receive = |socket: &OwnedFd| packets::receive(socket.as_fd());
        let packet = self.helper.async_io(Interest::READABLE, receive).await.map_err(lost)?;
        if packet.is_end() {
            return Err(lost(io::ErrorKind::BrokenPipe.into()));
        }
        decode(&packet.bytes).map_err(lost)
    }
}

/// Waits for a moment, in code that can't await.
pub(super) fn pause() {
    // poll without descriptors can't fail.
    let _ = rustix::event::poll(&mut [], Some(&CLOSE_DELAY));
}

const HELPER: &str = "helper";

fn lost(source: io::Error) -> NativeFailure {
    NativeFailure { step: NativeStep::Launcher, object: HELPER.into(), source }
}

/// True if a start failed because its helper died; another helper may succeed.
pub(super) fn lost_its_helper(failure: &NativeFailure) -> bool {
    let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
    failure.step == NativeStep::Launcher && failure.object == HELPER && gone.contains(&failure.source.kind())
}

/// The launcher process, started when first needed and again when it has died.
#[derive(Debug)]
struct Launcher {
    program: LauncherProgram,
    /// Namespace in which the launcher makes sandboxes, or `None` for the host's.
    home: Option<Arc<YardNamespace>>,
    running: Option<RunningLauncher>,
}

impl Launcher {
    /// Has the launcher fork a helper that serves `socket`. Returns the process whose namespaces the launcher
    /// is in.
    fn fork(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<ProcessIdentity>> {
        let errand = encode(&LauncherErrand::Helper)?;
        let holder = self.home.as_ref().map(|home| home.holder()).transpose()?;
        // A launcher in the namespaces of a dead holder could not see the workspaces of the new one; it is
        // dropped.
        if let Some(running) = self.running.take_if(|running| running.holder == holder) {
            if packets::send(running.orders.as_fd(), &errand, &[socket]).is_ok() {
                self.running = Some(running);
                return Ok(holder);
            }
            tracing::warn!("the launcher died and is started again");
        }
        let running = self.running.insert(RunningLauncher::start(&self.program, holder.clone())?);
        packets::send(running.orders.as_fd(), &errand, &[socket])?;
        Ok(holder)
    }
}

#[derive(Debug)]
struct RunningLauncher {
    orders: OwnedFd,
    process: Child,
    /// Process whose namespaces the launcher is in, or `None` for the host's.
    holder: Option<ProcessIdentity>,
}

impl RunningLauncher {
    fn start(program: &LauncherProgram, holder: Option<ProcessIdentity>) -> io::Result<Self> {
        let (ours, theirs) = packets::pair()?;
        let running = Self { orders: ours, process: program.command(theirs).spawn()?, holder };
        if let Some(holder) = &running.holder {
            let holder = holder.open().ok_or(io::ErrorKind::NotFound)?;
            // The first errand on the socket: no helper may be forked outside of the namespaces.
            packets::send(running.orders.as_fd(), &encode(&LauncherErrand::Enter)?, &[holder.as_fd()])?;
        }
        Ok(running)
    }
}

impl Drop for RunningLauncher {
    /// Ends the launcher and reaps it. It does nothing but wait for orders, so this is immediate.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn random_name() -> io::Result<String> {
    Ok(format!("s{:016x}", getrandom::u64().map_err(io::Error::other)?))
}
