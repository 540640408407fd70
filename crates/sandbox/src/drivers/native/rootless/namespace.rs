//! The user and mount namespace in which all sandboxes of a rootless yard are made, kept by one process that does nothing else.
//!
//! The holder outlives servers, because workspaces do; `<data>/holder.json` says which process it is. It ends by itself when
//! that file is gone or names another, and is ended by a driver that leaves neither sandbox nor workspace behind.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Signal, getgid, getuid, pidfd_send_signal};

use super::super::launcher::channel;
use super::super::launcher::messages::{HolderReport, LauncherErrand, decode, encode};
use super::super::launcher_program::LauncherProgram;
use super::conditions::{Conditions, Mappers};
use super::subordinate::{IdRange, SubordinateIds};
use super::workspaces;
use crate::host::sandboxes::liveness::ProcessIdentity;

/// The yard's namespace, which may not exist yet.
#[derive(Debug)]
pub(in super::super) struct YardNamespace {
    record: PathBuf,
    launcher: LauncherProgram,
    mappers: Mappers,
    ids: SubordinateIds,
    /// Keeps two starts from making two.
    making: Mutex<()>,
}

impl YardNamespace {
    /// Names the namespace of the yard in `data`.
    pub(in super::super) fn new(data: &Path, launcher: LauncherProgram, conditions: Conditions) -> Self {
        let Conditions { ids, mappers, .. } = conditions;
        Self { record: data.join("holder.json"), launcher, mappers, ids, making: Mutex::default() }
    }

    /// The process that holds it, made now if there is none.
    pub(in super::super) fn holder(&self) -> io::Result<ProcessIdentity> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.current()? {
            Some(holder) => Ok(holder),
            None => self.make(),
        }
    }

    /// Every workspace in memory, by its folder, with the first of the ids that its files belong to.
    pub(in super::super) fn workspaces(&self) -> io::Result<BTreeMap<PathBuf, u32>> {
        let holder = self.holder()?;
        Ok(workspaces::parse(&fs::read_to_string(format!("/proc/{}/mountinfo", holder.pid))?))
    }

    /// Ends the holder if it holds nothing.
    pub(in super::super) fn release(&self) {
        let Ok(Some(holder)) = self.current() else { return };
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", holder.pid));
        if mounts.is_ok_and(|mounts| workspaces::parse(&mounts).is_empty()) {
            // It ends by itself a little later if either of these fails.
            let _ = fs::remove_file(&self.record);
            let _ = holder.open().map(|process| pidfd_send_signal(process, Signal::KILL));
        }
    }

    fn current(&self) -> io::Result<Option<ProcessIdentity>> {
        match fs::read(&self.record) {
            Ok(bytes) => {
                let holder: ProcessIdentity = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
                Ok(Some(holder).filter(ProcessIdentity::is_alive))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make(&self) -> io::Result<ProcessIdentity> {
        let (ours, theirs) = channel::pair()?;
        let mut command = self.launcher.command(theirs);
        let mut starter = command.spawn()?;
        // Its copy of the other end must not outlive the process, or an end would never be heard.
        drop(command);
        let errand = LauncherErrand::Hold { record: self.record.clone() };
        channel::send(ours.as_fd(), &encode(&errand)?, &[])?;
        let made = self.attend(&ours);
        // It has ended by itself, having left the holder to the system.
        let _ = starter.wait();
        made
    }

    /// Maps the new namespace's ids and writes down who holds it.
    fn attend(&self, socket: &OwnedFd) -> io::Result<ProcessIdentity> {
        let pid = match hear(socket)? {
            HolderReport::Made { pid } => pid,
            HolderReport::Refused { errno } => return Err(io::Error::from_raw_os_error(errno)),
            HolderReport::Ready => return Err(io::ErrorKind::InvalidData.into()),
        };
        map_ids(&self.mappers.newuidmap, pid, getuid().as_raw(), self.ids.users)?;
        map_ids(&self.mappers.newgidmap, pid, getgid().as_raw(), self.ids.groups)?;
        let holder = ProcessIdentity::of(pid)?;
        let temporary = self.record.with_extension("new");
        fs::write(&temporary, serde_json::to_vec(&holder).map_err(io::Error::other)?)?;
        fs::rename(temporary, &self.record)?;
        channel::send(socket.as_fd(), b"mapped", &[])?;
        match hear(socket)? {
            HolderReport::Ready => Ok(holder),
            HolderReport::Made { .. } | HolderReport::Refused { .. } => {
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

fn hear(socket: &OwnedFd) -> io::Result<HolderReport> {
    let packet = channel::receive(socket.as_fd())?;
    if packet.is_end() {
        return Err(io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the process that was to hold the yard's namespace died",
        ));
    }
    decode(&packet.bytes)
}

/// Has a setuid program write a map: the user is root, and the subordinate ids follow from 1 on.
fn map_ids(program: &Path, pid: i32, own: u32, range: IdRange) -> io::Result<()> {
    let numbers = [0, own, 1, 1, range.first, range.count].map(|number| number.to_string());
    let output = Command::new(program)
        .arg(pid.to_string())
        .args(numbers)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{} {}: {}", program.display(), output.status, said.trim())))
}
