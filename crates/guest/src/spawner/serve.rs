//! The spawner's loop: requests from keeper, ends of children, starts that take their time.
//!
//! Never waits for anything but all of them together, keeps a bound on everything, and trusts nobody but the socket.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, kill_process_group, wait};
use sandyard_protocol::ProcessId;

use super::child::{self, Programs, Progress};
use super::followed::{Followed, Starting};
use super::messages::{Call, Outcome, Question, Request, Told};
use crate::limits::{EXEC_WAIT, PROCESS_ID_BYTES, REAPS_IN_A_ROW, TRACKED_PROCESSES, UNSENT_REPLIES};
use crate::packets::{self, Packet};
use crate::process_host::Command;
use crate::sys::{self, ChildSignals};

/// The spawner at work.
pub(super) struct Server {
    pub(super) socket: ManuallyDrop<OwnedFd>,
    pub(super) children: ChildSignals,
    pub(super) programs: Programs,
    pub(super) followed: Followed,
    pub(super) unsent: VecDeque<Unsent>,
}

/// An answer on its way to keeper.
pub(super) struct Unsent {
    packet: Packet,
    /// Whom to give up, and whom to tell, if the descriptors can't be sent.
    start: Option<(ProcessId, Question)>,
}

/// Which descriptors have something to say.
struct Ready {
    requests: bool,
    children: bool,
}

impl Server {
    /// Serves until every keeper's end of the socket is closed.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut more_children = false;
        loop {
            let ready = self.wait(more_children)?;
            if ready.children || more_children {
                self.children.clear();
                more_children = self.reap();
            }
            self.settle_starts();
            if ready.requests && !self.answer_next()? {
                return Ok(());
            }
            self.send()?;
        }
    }

    fn wait(&self, at_once: bool) -> io::Result<Ready> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, self.unsent.len() < UNSENT_REPLIES);
        interest.set(PollFlags::OUT, self.has_something_to_send());
        let mut fds = vec![PollFd::new(&*self.socket, interest), PollFd::new(&self.children, PollFlags::IN)];
        fds.extend(
            self.followed
                .starting()
                .map(|(_, starting)| PollFd::from_borrowed_fd(starting.status.as_fd(), PollFlags::IN)),
        );
        let deadline = self.followed.starting().map(|(_, starting)| starting.deadline).min();
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
        Ok(Ready {
            requests: requests.intersects(PollFlags::IN | PollFlags::HUP),
            children: !children.is_empty(),
        })
    }

    /// Reaps ended children, orphans too; whether there may be more.
    fn reap(&mut self) -> bool {
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
                Progress::Pending if now < starting.deadline => None,
                Progress::Pending => Some((
                    id.clone(),
                    Progress::Failed { what: "the process did not start".into(), errno: libc::ETIMEDOUT },
                )),
                known => Some((id.clone(), known)),
            })
            .collect();
        for (id, progress) in settled {
            self.settle(&id, progress);
        }
    }

    fn settle(&mut self, id: &ProcessId, progress: Progress) {
        let Some((pid, Starting { question, streams, .. })) = self.followed.started(id) else { return };
        if let Progress::Failed { what, errno } = progress {
            if self.followed.is_alive(id) {
                // It is about to leave by itself, unless somebody stopped it.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            self.followed.remove(id);
            return self.answer(question, &Outcome::Refused { what, errno });
        }
        let outcome = Outcome::Spawned {
            pid: pid.as_raw_pid(),
            stdin: streams.stdin.is_some(),
            stderr: streams.stderr.is_some(),
        };
        let fds = [Some(streams.stdout), streams.stdin, streams.stderr].into_iter().flatten().collect();
        let told = Told::Answer { question, outcome };
        match Packet::new(&told, fds) {
            Ok(packet) => self.unsent.push_back(Unsent { packet, start: Some((id.clone(), question)) }),
            Err(error) => self.give_up(id, question, &error),
        }
    }

    /// Ends a started process whose descriptors can't reach keeper. The job can bring that about by leaving many
    /// descriptors of its own unread in sockets: the kernel counts them by user.
    fn give_up(&mut self, id: &ProcessId, question: Question, error: &io::Error) {
        if let Some(pid) = self.followed.pid(id) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.followed.remove(id);
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.answer(question, &Outcome::Refused { what: "hand over the process's streams".into(), errno });
    }

    /// Takes one request; `false` once keeper's ends are all closed.
    fn answer_next(&mut self) -> io::Result<bool> {
        let received = match packets::receive(self.socket.as_fd()) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        let Request { question, call } = received.message;
        let outcome = match call {
            Call::Spawn(command) => match self.spawn(question, command, received.fds.into_iter().next()) {
                None => return Ok(true),
                Some(refused) => refused,
            },
            Call::Signal { id, signal } => self.signal(&id, signal),
            Call::KillEverything => outcome_of("kill everything", sys::kill_all()),
            Call::Forget { id } => {
                self.followed.remove(&id);
                Outcome::Done
            }
            Call::Roll => Outcome::Roll(self.followed.roll()),
        };
        self.answer(question, &outcome);
        Ok(true)
    }

    /// Forks a command; its answer comes when it runs. An answer at once is a refusal.
    fn spawn(&mut self, question: Question, command: Command, input: Option<OwnedFd>) -> Option<Outcome> {
        let refused = |what: String, errno| Some(Outcome::Refused { what, errno });
        if command.id.0.len() > PROCESS_ID_BYTES {
            return refused("the process's name is too long".into(), libc::ENAMETOOLONG);
        }
        if self.followed.knows(&command.id) {
            return refused(format!("a process named `{}` exists", command.id), libc::EEXIST);
        }
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
    fn signal(&self, id: &ProcessId, signal: i32) -> Outcome {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Outcome::Refused { what: format!("signal {signal}"), errno: libc::EINVAL };
        };
        let Some(pid) = self.followed.pid(id) else { return Outcome::Done };
        match kill_process_group(pid, signal) {
            Err(Errno::SRCH) => Outcome::Done,
            result => outcome_of(&format!("signal process `{id}`"), result.map_err(io::Error::from)),
        }
    }

    fn answer(&mut self, question: Question, outcome: &Outcome) {
        let told = Told::Answer { question, outcome: outcome.clone() };
        // It fails only if a long answer finds no memory file, and the only long one is a roll: keeper then starts again.
        if let Ok(packet) = Packet::new(&told, Vec::new()) {
            self.unsent.push_back(Unsent { packet, start: None });
        }
    }

    fn has_something_to_send(&self) -> bool {
        !self.unsent.is_empty() || self.followed.has_untold()
    }

    /// Sends as much as keeper takes: answers first, so that no exit overtakes the answer about its start.
    fn send(&mut self) -> io::Result<()> {
        while let Some(Unsent { packet, start }) = self.unsent.pop_front() {
            match (packet.send(self.socket.as_fd()), start) {
                (Ok(()), _) => {}
                (Err(error), start) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.push_front(Unsent { packet, start });
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
            match Packet::new(&Told::Exit(exit.clone()), Vec::new())?.send(self.socket.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
            process.mark_told();
        }
        Ok(())
    }
}

fn outcome_of(what: &str, result: io::Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => {
            Outcome::Refused { what: what.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
        }
    }
}
