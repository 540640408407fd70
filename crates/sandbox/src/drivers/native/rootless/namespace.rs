//! The user and mount namespace in which all sandboxes of a rootless yard are made. One process, the holder,
//! keeps it.
//!
//! The holder outlives servers, because workspaces do; `<data>/holder.json` identifies the process. It ends
//! by itself when that file is gone or names another process. A driver that leaves neither sandbox nor
//! workspace ends it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Signal, getgid, getuid, pidfd_send_signal};

use super::super::launcher::messages::{HolderReport, LauncherErrand};
use super::super::launcher_program::LauncherProgram;
use super::conditions::{Conditions, Mappers};
use super::subordinate::{IdRange, SubordinateIds};
use super::workspaces;
use crate::host::packets::{self, decode, encode};
use crate::host::sandboxes::liveness::ProcessIdentity;

/// The yard's namespace, which may not exist yet.
#[derive(Debug)]
pub(in super::super) struct YardNamespace {
    record: PathBuf,
    launcher: LauncherProgram,
    mappers: Mappers,
    ids: SubordinateIds,
    /// Keeps two starts from making two holders.
    making: Mutex<()>,
}

impl YardNamespace {
    /// Names the namespace of the yard in `data`.
    pub(in super::super) fn new(data: &Path, launcher: LauncherProgram, conditions: Conditions) -> Self {
        let Conditions { ids, mappers, .. } = conditions;
        Self { record: data.join("holder.json"), launcher, mappers, ids, making: Mutex::default() }
    }

    /// Returns the process that holds the namespace. Makes one if there is none.
    pub(in super::super) fn holder(&self) -> io::Result<ProcessIdentity> {
        let _making = self.making.lock();
        match self.current()? {
            Some(holder) => Ok(holder),
            None => self.make(),
        }
    }

    /// Returns every workspace in memory by its folder, with the first id that owns its files.
    pub(in super::super) fn workspaces(&self) -> io::Result<BTreeMap<PathBuf, u32>> {
        let holder = self.holder()?;
        Ok(workspaces::parse(&fs::read_to_string(format!("/proc/{}/mountinfo", holder.pid))?))
    }

    /// Ends the holder if no workspace is mounted in its namespace.
    pub(in super::super) fn release(&self) {
        let Ok(Some(holder)) = self.current() else { return };
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", holder.pid));
        if mounts.is_ok_and(|mounts| workspaces::parse(&mounts).is_empty()) {
            // If either call fails, the holder ends by itself when it next reads the record.
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
        let (ours, theirs) = packets::pair()?;
        let mut command = self.launcher.command(theirs);
        let mut starter = command.spawn()?;
        // The command owns a copy of the other end. With it open, the death of the process would never be
        // seen.
        drop(command);
        let errand = LauncherErrand::Hold { record: self.record.clone() };
        packets::send(ours.as_fd(), &encode(&errand)?, &[])?;
        let made = self.attend(&ours);
        // The starter ends by itself once the holder exists; this only reaps it.
        let _ = starter.wait();
        made
    }

    /// Maps the new namespace's ids and records the holder.
    fn attend(&self, socket: &OwnedFd) -> io::Result<ProcessIdentity> {
        let pid = match hear(socket)? {
            HolderReport::Made { pid } => pid,
            HolderReport::Refused { errno } => return Err(io::Error::from_raw_os_error(errno)),
            HolderReport::Ready => return Err(io::ErrorKind::InvalidData.into()),
        };
        map_ids(&self.mappers.newuidmap, pid, getuid().as_raw(), self.ids.users)?;
        map_ids(&self.mappers.newgidmap, pid, getgid().as_raw(), self.ids.groups)?;
        let holder = ProcessIdentity::of(pid)?;
        // The rename comes before "mapped": the holder ends when it finds no record with its own identity.
        let temporary = self.record.with_extension("new");
        fs::write(&temporary, serde_json::to_vec(&holder).map_err(io::Error::other)?)?;
        fs::rename(temporary, &self.record)?;
        packets::send(socket.as_fd(), b"mapped", &[])?;
        match hear(socket)? {
            HolderReport::Ready => Ok(holder),
            HolderReport::Made { .. } | HolderReport::Refused { .. } => {
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

fn hear(socket: &OwnedFd) -> io::Result<HolderReport> {
    let packet = packets::receive(socket.as_fd())?;
    if packet.is_end() {
        return Err(io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the process that was to hold the yard's namespace died",
        ));
    }
    decode(&packet.bytes)
}

/// Runs a setuid program that writes a map: the user becomes root, and the subordinate ids follow from 1 on.
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
