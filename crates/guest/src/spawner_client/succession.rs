//! From one keeper to the next: what init is given to hold, and what a new keeper makes of it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use sandyard_protocol::ProcessId;
use serde::{Deserialize, Serialize};

use super::conversation::Shared;
use crate::init::messages::{HoldReply, HoldRequest, Part};
use crate::packets;
use crate::process_host::{Command, RawExit, SpawnError, Spawned, Survivor, Survivors};
use crate::spawner::messages::{Call, Entry, Outcome};

/// What keeper notes for its successor, in the memory file that init holds with the descriptors.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    command: Command,
    pid: i32,
    stderr: bool,
}

/// Descriptors held by init.
type Parts = HashMap<(ProcessId, Part), Vec<OwnedFd>>;

impl Shared {
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

    /// Joins what the spawner follows with what init holds, and drops what only one of them has.
    pub(super) async fn take_over(&self) -> Result<Survivors, SpawnError> {
        let Outcome::Roll(roll) = self.ask(Call::Roll).await?.outcome else { return Err(SpawnError::Gone) };
        let mut held = self.collect_held().await?;
        let mut survivors = Survivors::default();
        for Entry { id, exit, .. } in roll {
            match survivor(&id, &mut held, exit) {
                Some(survivor) => survivors.found.push(survivor),
                None => {
                    self.discard(&id).await?;
                    survivors.lost.push(id);
                }
            }
        }
        for (id, _) in held.keys() {
            self.forget(id).await?;
        }
        Ok(survivors)
    }

    async fn collect_held(&self) -> Result<Parts, SpawnError> {
        let mut held = Parts::new();
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
fn copies(command: Command, spawned: &Spawned) -> io::Result<Vec<(Part, Vec<OwnedFd>)>> {
    let note = Note { command, pid: spawned.pid, stderr: spawned.stderr.is_some() };
    let mut output = vec![packets::memory_file(&serde_json::to_vec(&note)?)?, spawned.stdout.try_clone()?];
    if let Some(stderr) = &spawned.stderr {
        output.push(stderr.try_clone()?);
    }
    let input = spawned.stdin.as_ref().map(OwnedFd::try_clone).transpose()?;
    let input = input.map(|stdin| (Part::Input, vec![stdin]));
    Ok(input.into_iter().chain([(Part::Output, output)]).collect())
}

/// Takes what is held of a process, by its predecessor's note; `None` if it can't be used.
fn survivor(id: &ProcessId, held: &mut Parts, exit: Option<RawExit>) -> Option<Survivor> {
    let input = held.remove(&(id.clone(), Part::Input)).unwrap_or_default();
    let mut output = held.remove(&(id.clone(), Part::Output)).unwrap_or_default().into_iter();
    let text = packets::read_memory_file(&File::from(output.next()?)).ok()?;
    let note: Note = serde_json::from_slice(&text).ok()?;
    let (stdout, stderr) = (output.next()?, output.next());
    if stderr.is_some() != note.stderr {
        return None;
    }
    let spawned = Spawned { pid: note.pid, stdin: input.into_iter().next(), stdout, stderr };
    Some(Survivor { command: note.command, spawned, exit })
}
