//! From one keeper to the next: the descriptors that init holds, and how a new keeper takes them over.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

use super::conversation::SpawnerConnection;
use crate::init::messages::{HoldReply, HoldRequest, StreamPart};
use crate::packets;
use crate::process_host::{Command, RawExit, SpawnError, Spawned, Survivor, Survivors};
use crate::spawner::messages::{RollEntry, SpawnerCall, SpawnerOutcome};

/// A note of keeper for its successor, in the memory file that init holds with the descriptors.
#[derive(Debug, Serialize, Deserialize)]
struct SuccessionNote {
    command: Command,
    pid: i32,
    stderr: bool,
}

/// Descriptors held by init.
type HeldDescriptors = HashMap<(ProcessId, StreamPart), Vec<OwnedFd>>;

impl SpawnerConnection {
    /// Gives init duplicates of a process's descriptors. A process that can't be held is ended: it must not outlive keeper
    /// unknown.
    pub(super) async fn hold(&self, command: Command, spawned: &Spawned) -> Result<(), SpawnError> {
        let id = command.id.clone();
        match copies(command, spawned) {
            Ok(parts) => {
                for (part, fds) in parts {
                    self.tell_init(&HoldRequest::Hold { id: id.clone(), part }, fds).await?;
                }
                Ok(())
            }
            Err(source) => {
                self.discard(&id).await?;
                Err(SpawnError::Refused { what: "keep the process's streams".into(), source })
            }
        }
    }

    /// Joins the processes that the spawner follows with the descriptors that init holds, and drops those that only one of them has.
    pub(super) async fn take_over(&self) -> Result<Survivors, SpawnError> {
        let SpawnerOutcome::Roll(roll) = self.ask(SpawnerCall::Roll).await?.outcome else {
            return Err(SpawnError::Gone);
        };
        let mut held = self.collect_held().await?;
        let mut survivors = Survivors::default();
        for RollEntry { id, exit, .. } in roll {
            match survivor(&id, &mut held, exit) {
                Some(survivor) => survivors.found.push(survivor),
                None => {
                    self.discard(&id).await?;
                    survivors.lost.push(id);
                }
            }
        }
        // The spawner has forgotten these processes; keeper died before it could release their descriptors.
        for (id, _) in held.keys() {
            self.forget(id).await?;
        }
        Ok(survivors)
    }

    async fn collect_held(&self) -> Result<HeldDescriptors, SpawnError> {
        let mut held = HeldDescriptors::new();
        for index in 0.. {
            let received = self.ask_init(&HoldRequest::Show { index }).await?;
            match received.message {
                HoldReply::Held { id, part } => held.insert((id, part), received.fds),
                HoldReply::End => break,
            };
        }
        Ok(held)
    }
}

/// Input first: a process without the note in its output's part counts as never announced.
fn copies(command: Command, spawned: &Spawned) -> io::Result<Vec<(StreamPart, Vec<OwnedFd>)>> {
    let note = SuccessionNote { command, pid: spawned.pid, stderr: spawned.stderr.is_some() };
    let mut output = vec![packets::memory_file(&serde_json::to_vec(&note)?)?, spawned.stdout.try_clone()?];
    if let Some(stderr) = &spawned.stderr {
        output.push(stderr.try_clone()?);
    }
    let input = spawned.stdin.as_ref().map(OwnedFd::try_clone).transpose()?;
    let input = input.map(|stdin| (StreamPart::Input, vec![stdin]));
    Ok(input.into_iter().chain([(StreamPart::Output, output)]).collect())
}

/// Takes the held descriptors of a process, by its predecessor's note. Returns `None` if they can't be used.
fn survivor(id: &ProcessId, held: &mut HeldDescriptors, exit: Option<RawExit>) -> Option<Survivor> {
    let input = held.remove(&(id.clone(), StreamPart::Input)).unwrap_or_default();
    let mut output = held.remove(&(id.clone(), StreamPart::Output)).unwrap_or_default().into_iter();
    let text = packets::read_memory_file(&File::from(output.next()?)).ok()?;
    let note: SuccessionNote = serde_json::from_slice(&text).ok()?;
    let (stdout, stderr) = (output.next()?, output.next());
    if stderr.is_some() != note.stderr {
        return None;
    }
    let spawned = Spawned { pid: note.pid, stdin: input.into_iter().next(), stdout, stderr };
    Some(Survivor { command: note.command, spawned, exit })
}
