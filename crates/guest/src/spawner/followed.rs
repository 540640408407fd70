//! The processes the spawner follows: from their fork until keeper forgets them.

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::process::{Pid, WaitStatus};
use sandyard_protocol::ProcessId;

use super::child::{KeeperEnds, StatusPipe};
use super::messages::{RollEntry, SpawnerQuestion};
use crate::process_host::{Command, RawExit};

/// Every followed process. The caller of `add` enforces the bound.
#[derive(Debug, Default)]
pub(super) struct TrackedProcesses {
    processes: BTreeMap<ProcessId, TrackedProcess>,
}

/// A process from its fork until keeper forgets it.
#[derive(Debug)]
pub(super) struct TrackedProcess {
    pub(super) pid: Pid,
    pub(super) starting: Option<Starting>,
    exit: Option<RawExit>,
    told: bool,
}

/// A child that has not become its program yet.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) question: SpawnerQuestion,
    pub(super) command: Command,
    pub(super) status: StatusPipe,
    pub(super) streams: KeeperEnds,
    pub(super) deadline: Instant,
}

impl TrackedProcesses {
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn knows(&self, id: &ProcessId) -> bool {
        self.processes.contains_key(id)
    }

    pub(super) fn add(&mut self, pid: Pid, starting: Starting) {
        let id = starting.command.id.clone();
        self.processes.insert(id, TrackedProcess { pid, starting: Some(starting), exit: None, told: false });
    }

    pub(super) fn remove(&mut self, id: &ProcessId) {
        self.processes.remove(id);
    }

    pub(super) fn pid(&self, id: &ProcessId) -> Option<Pid> {
        self.processes.get(id).map(|process| process.pid)
    }

    /// True if its pid is still its own: it has not been reaped.
    pub(super) fn is_alive(&self, id: &ProcessId) -> bool {
        self.processes.get(id).is_some_and(|process| process.exit.is_none())
    }

    /// True if any process has not been reaped.
    pub(super) fn has_living(&self) -> bool {
        self.processes.values().any(|process| process.exit.is_none())
    }

    pub(super) fn starting(&self) -> impl Iterator<Item = (&ProcessId, &Starting)> {
        self.processes.iter().filter_map(|(id, process)| Some((id, process.starting.as_ref()?)))
    }

    /// Ends the start of a process. Returns the values that its answer needs.
    pub(super) fn started(&mut self, id: &ProcessId) -> Option<(Pid, Starting)> {
        let process = self.processes.get_mut(id)?;
        Some((process.pid, process.starting.take()?))
    }

    /// Stores the exit of a followed child. Orphans, which are not followed, are only reaped.
    pub(super) fn ended(&mut self, pid: Pid, status: WaitStatus) {
        // Only among the living: the kernel may have given the pid of an ended process to another.
        let found =
            self.processes.iter_mut().find(|(_, process)| process.pid == pid && process.exit.is_none());
        if let Some((id, process)) = found {
            process.exit = Some(raw_exit(id, status));
        }
    }

    /// An exit that was not sent to keeper. An exit waits until the start of its process is answered.
    pub(super) fn untold(&mut self) -> Option<&mut TrackedProcess> {
        self.processes.values_mut().find(|process| process.is_untold())
    }

    pub(super) fn has_untold(&self) -> bool {
        self.processes.values().any(TrackedProcess::is_untold)
    }

    /// Lists all processes for a new keeper. Exits in the list count as sent.
    pub(super) fn roll(&mut self) -> Vec<RollEntry> {
        let entry = |(id, process): (&ProcessId, &mut TrackedProcess)| {
            // An exit that went to the earlier keeper and one that did not are the same to the new one: it learns both here.
            process.told = process.exit.is_some();
            RollEntry { id: id.clone(), pid: process.pid.as_raw_pid(), exit: process.exit.clone() }
        };
        self.processes.iter_mut().map(entry).collect()
    }
}

impl TrackedProcess {
    fn is_untold(&self) -> bool {
        self.starting.is_none() && self.exit.is_some() && !self.told
    }

    pub(super) fn exit(&self) -> Option<&RawExit> {
        self.exit.as_ref()
    }

    pub(super) fn mark_told(&mut self) {
        self.told = true;
    }
}

fn raw_exit(id: &ProcessId, status: WaitStatus) -> RawExit {
    let signal = status.terminating_signal();
    let code = status.exit_status().or(signal.map(|signal| 128 + signal)).unwrap_or(-1);
    RawExit { id: id.clone(), code, signal }
}
