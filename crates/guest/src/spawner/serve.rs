//! The spawner's loop: requests from keeper, ends of children, and starts that have not finished.
//!
//! One `poll` waits for all of them together. Everything is bounded, and only messages from the socket are trusted.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use sandyard_protocol::ProcessId;

use super::child::{self, GivenPrograms, StartProgress};
use super::followed::{Starting, TrackedProcesses};
use super::gauge::MemoryGauge;
use super::messages::{SpawnerCall, SpawnerMessage, SpawnerOutcome, SpawnerQuestion, SpawnerRequest};
use crate::limits::{EXEC_WAIT, PROCESS_ID_BYTES, REAPS_IN_A_ROW, TRACKED_PROCESSES, UNSENT_REPLIES};
use crate::packets::{self, LocalPacket};
use crate::process_host::{Command, signal_deaf};
use crate::sys::{self, ChildSignals};

/// The spawner's loop and all of its state. `socket` is never dropped: its end makes init end the machine.
pub(super) struct SpawnerServer {
    pub(super) socket: ManuallyDrop<OwnedFd>,
    pub(super) children: ChildSignals,
    pub(super) programs: GivenPrograms,
    pub(super) followed: TrackedProcesses,
    pub(super) unsent: VecDeque<UnsentAnswer>,
    /// Where the machine shows its job's limits: shows how much memory is used.
    pub(super) gauge: Option<MemoryGauge>,
}

/// An answer on its way to keeper.
pub(super) struct UnsentAnswer {
    packet: LocalPacket,
    /// The process to give up and the question to refuse, if the descriptors can't be sent.
    start: Option<(ProcessId, SpawnerQuestion)>,
}

/// The descriptors that are ready.
struct ReadySources {
    requests: bool,
    children: bool,
}

impl SpawnerServer {
    /// Serves until every keeper's end of the socket is closed.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut more_children = false;
        loop {
            let ready = self.wait(more_children)?;
            if ready.children || more_children {
                // Cleared before the reaping: a child that ends in between raises the signal again.
                self.children.clear();
                more_children = self.reap();
            }
            self.settle_starts();
            // Without processes there is nothing to show, and an idle machine sleeps.
            if self.followed.has_living()
                && let Some(gauge) = &mut self.gauge
            {
                gauge.turn();
            }
            // One request in each turn, so that keeper can't keep the spawner from reaping.
            if ready.requests && !self.answer_next()? {
                return Ok(());
            }
            self.send()?;
        }
    }

    fn wait(&self, at_once: bool) -> io::Result<ReadySources> {
        let mut interest = PollFlags::empty();
        // A keeper that asks and never reads must not fill the spawner's memory: its next requests wait in the socket.
        interest.set(PollFlags::IN, self.unsent.len() < UNSENT_REPLIES);
        interest.set(PollFlags::OUT, self.has_something_to_send());
        let mut fds = vec![PollFd::new(&*self.socket, interest), PollFd::new(&self.children, PollFlags::IN)];
        fds.extend(
            self.followed
                .starting()
                .map(|(_, starting)| PollFd::from_borrowed_fd(starting.status.as_fd(), PollFlags::IN)),
        );
        let starts = self.followed.starting().map(|(_, starting)| starting.deadline);
        let gauge = self.gauge.iter().filter(|_| self.followed.has_living()).map(|gauge| gauge.due);
        let deadline = starts.chain(gauge).min();
        let timeout = match deadline {
            _ if at_once => Some(Duration::ZERO),
            deadline => deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let requests = fds.first().map_or(PollFlags::empty(), PollFd::revents);
        let children = fds.get(1).map_or(PollFlags::empty(), PollFd::revents);
        Ok(ReadySources {
            requests: requests.intersects(PollFlags::IN | PollFlags::HUP),
            children: !children.is_empty(),
        })
    }

    /// Reaps ended children, orphans too. Returns true if there may be more.
    fn reap(&mut self) -> bool {
        // Bounded: a job that forks without pause must not keep keeper waiting.
        for _ in 0..REAPS_IN_A_ROW {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.followed.ended(pid, status),
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// Answers for the children that have become their program, failed to, or took too long.
    fn settle_starts(&mut self) {
        let now = Instant::now();
        let settled: Vec<_> = self
            .followed
            .starting()
            .filter_map(|(id, starting)| match starting.status.progress(&starting.command) {
                StartProgress::Pending if now < starting.deadline => None,
                StartProgress::Pending => Some((
                    id.clone(),
                    StartProgress::Failed {
                        what: "the process did not start".into(),
                        errno: libc::ETIMEDOUT,
                    },
                )),
                known => Some((id.clone(), known)),
            })
            .collect();
        for (id, progress) in settled {
            self.settle(&id, progress);
        }
    }

    fn settle(&mut self, id: &ProcessId, progress: StartProgress) {
        let Some((pid, Starting { question, streams, .. })) = self.followed.started(id) else { return };
        if let StartProgress::Failed { what, errno } = progress {
            if self.followed.is_alive(id) {
                // It is about to leave by itself, unless another process stopped it.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            self.followed.remove(id);
            return self.answer(question, &SpawnerOutcome::Refused { what, errno });
        }
        let outcome = SpawnerOutcome::Spawned {
            pid: pid.as_raw_pid(),
            stdin: streams.stdin.is_some(),
            stderr: streams.stderr.is_some(),
        };
        let fds = [Some(streams.stdout), streams.stdin, streams.stderr].into_iter().flatten().collect();
        let told = SpawnerMessage::Answer { question, outcome };
        match LocalPacket::new(&told, fds) {
            Ok(packet) => self.unsent.push_back(UnsentAnswer { packet, start: Some((id.clone(), question)) }),
            Err(error) => self.give_up(id, question, &error),
        }
    }

    /// Ends a started process whose descriptors can't be sent to keeper. The job can cause that by leaving many
    /// descriptors of its own unread in sockets: the kernel counts them by user.
    fn give_up(&mut self, id: &ProcessId, question: SpawnerQuestion, error: &io::Error) {
        if let Some(pid) = self.followed.pid(id) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.followed.remove(id);
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.answer(
            question,
            &SpawnerOutcome::Refused { what: "hand over the process's streams".into(), errno },
        );
    }

    /// Serves one request. Returns false once every keeper's end is closed.
    fn answer_next(&mut self) -> io::Result<bool> {
        let received = match packets::receive(self.socket.as_fd()) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        let SpawnerRequest { question, call } = received.message;
        let outcome = match call {
            SpawnerCall::Spawn(command) => {
                match self.spawn(question, command, received.fds.into_iter().next()) {
                    None => return Ok(true),
                    Some(refused) => refused,
                }
            }
            SpawnerCall::Signal { id, signal } => self.signal(&id, signal, kill_process_group),
            SpawnerCall::SignalDeaf { id, signal } => self.signal(&id, signal, |group, signal| {
                signal_deaf(group, signal);
                Ok(())
            }),
            SpawnerCall::KillEverything => outcome_of("kill everything", sys::kill_all()),
            SpawnerCall::Forget { id } => {
                self.followed.remove(&id);
                SpawnerOutcome::Done
            }
            SpawnerCall::Roll => SpawnerOutcome::Roll(self.followed.roll()),
        };
        self.answer(question, &outcome);
        Ok(true)
    }

    /// Forks a command. Returns a refusal, or `None` if the answer follows when the program runs.
    fn spawn(
        &mut self,
        question: SpawnerQuestion,
        command: Command,
        input: Option<OwnedFd>,
    ) -> Option<SpawnerOutcome> {
        let refused = |what: String, errno| Some(SpawnerOutcome::Refused { what, errno });
        if command.id.0.len() > PROCESS_ID_BYTES {
            return refused("the process's name is too long".into(), libc::ENAMETOOLONG);
        }
        if self.followed.knows(&command.id) {
            return refused(format!("a process named `{}` exists", command.id), libc::EEXIST);
        }
        // Ended processes count until keeper forgets them: their exits take memory too.
        if self.followed.len() >= TRACKED_PROCESSES {
            return refused(format!("{TRACKED_PROCESSES} processes are there already"), libc::EAGAIN);
        }
        match child::start(&command, input, &self.programs) {
            Ok(child) => {
                let deadline = Instant::now() + EXEC_WAIT;
                let (status, streams) = (child.status, child.streams);
                self.followed.add(child.pid, Starting { question, command, status, streams, deadline });
                None
            }
            Err(refusal) => refused(refusal.what, refusal.errno),
        }
    }

    /// Signals a group by its leader's pid. The group may outlive its leader; once all of it is gone, nothing happens.
    fn signal(
        &self,
        id: &ProcessId,
        signal: i32,
        send: fn(Pid, Signal) -> rustix::io::Result<()>,
    ) -> SpawnerOutcome {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return SpawnerOutcome::Refused { what: format!("signal {signal}"), errno: libc::EINVAL };
        };
        // The caller names a process, never a pid: keeper can't reach a process that it did not start.
        let Some(pid) = self.followed.pid(id) else { return SpawnerOutcome::Done };
        match send(pid, signal) {
            Err(Errno::SRCH) => SpawnerOutcome::Done,
            result => outcome_of(&format!("signal process `{id}`"), result.map_err(io::Error::from)),
        }
    }

    fn answer(&mut self, question: SpawnerQuestion, outcome: &SpawnerOutcome) {
        let told = SpawnerMessage::Answer { question, outcome: outcome.clone() };
        // It fails only if a long answer finds no memory file, and the only long one is a roll: keeper then starts again.
        if let Ok(packet) = LocalPacket::new(&told, Vec::new()) {
            self.unsent.push_back(UnsentAnswer { packet, start: None });
        }
    }

    fn has_something_to_send(&self) -> bool {
        !self.unsent.is_empty() || self.followed.has_untold()
    }

    /// Sends as much as keeper takes: answers first, so that no exit overtakes the answer about its start.
    fn send(&mut self) -> io::Result<()> {
        while let Some(UnsentAnswer { packet, start }) = self.unsent.pop_front() {
            match (packet.send(self.socket.as_fd()), start) {
                (Ok(()), _) => {}
                (Err(error), start) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.push_front(UnsentAnswer { packet, start });
                    return Ok(());
                }
                (Err(error), Some((id, question))) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    self.give_up(&id, question, &error);
                }
                (Err(error), _) => return Err(error),
            }
        }
        while let Some(process) = self.followed.untold() {
            let Some(exit) = process.exit() else { return Ok(()) };
            match LocalPacket::new(&SpawnerMessage::Exit(exit.clone()), Vec::new())?.send(self.socket.as_fd())
            {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
            // Marked after the send: an exit that did not fit is sent in a later turn.
            process.mark_told();
        }
        Ok(())
    }
}

fn outcome_of(what: &str, result: io::Result<()>) -> SpawnerOutcome {
    match result {
        Ok(()) => SpawnerOutcome::Done,
        Err(error) => {
            SpawnerOutcome::Refused { what: what.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
        }
    }
}
