//! The driver's own line: questions about the job, and the order to switch off. Only the host can reach it, over a serial line or
//! by calling a port of the machine's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish};

use super::groups::Counters;
use crate::sys;

/// How soon a driver that connects is noticed. Until then there is nothing to poll for: a line without a host is always ready.
pub(super) const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The line, and what was read of it.
pub(super) struct Control {
    line: Line,
    counters: Counters,
    pending: Vec<u8>,
}

/// What carries questions and answers.
pub(super) enum Line {
    /// A serial line, open for good.
    Serial(OwnedFd),
    /// A listening socket, and the caller whose turn it is.
    Calls {
        /// Does not block.
        listener: OwnedFd,
        /// One at a time; the next one waits.
        caller: Option<OwnedFd>,
    },
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Serial(port) => port.as_fd(),
            Line::Calls { listener, caller } => caller.as_ref().unwrap_or(listener).as_fd(),
        }
    }
}

impl Control {
    pub(super) fn new(line: Line, counters: Counters) -> Self {
        Self { line, counters, pending: Vec::new() }
    }

    /// Whether there is something to poll for: somebody holds the other end of a serial line, or may call.
    pub(super) fn is_connected(&self) -> bool {
        let Line::Serial(port) = &self.line else { return true };
        let mut fds = [PollFd::new(port, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds.iter().all(|fd| !fd.revents().contains(PollFlags::HUP))
    }

    /// Answers all that was asked; `true` if the machine shall end.
    pub(super) fn serve_until_power_off(&mut self) -> bool {
        self.take_call();
        let ended = self.read();
        let power_off = self.answer_all();
        if let (true, Line::Calls { caller, .. }) = (ended, &mut self.line) {
            *caller = None;
            self.pending.clear();
        }
        power_off
    }

    /// Lets the next caller in, if nobody is. Processes of the machine could call as well if the filters of theirs let them (N9).
    fn take_call(&mut self) {
        if let Line::Calls { listener, caller: caller @ None } = &mut self.line {
            *caller = sys::accept_host(listener.as_fd()).ok().flatten();
        }
    }

    /// Takes what is there. `true` if nothing more will come of a caller; on a serial line that means that nobody is connected.
    fn read(&mut self) -> bool {
        let mut buffer = [0; CONTROL_LINE_BYTES];
        loop {
            if let Line::Calls { caller: None, .. } = self.line {
                return false;
            }
            match rustix::io::read(self.as_fd(), &mut buffer) {
                Ok(length @ 1..) => {
                    self.pending.extend_from_slice(buffer.get(..length).unwrap_or_default());
                    let excess = self.pending.len().saturating_sub(CONTROL_LINE_BYTES);
                    self.pending.drain(..excess);
                }
                Err(rustix::io::Errno::AGAIN) => return false,
                _ => return true,
            }
        }
    }

    fn answer_all(&mut self) -> bool {
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(ControlRequest { wish: ControlWish::PowerOff, .. }) => return true,
                Ok(ControlRequest { wish: ControlWish::Usage, number }) => self.answer(number),
                // Half a line of a driver that went away.
                Err(_) => {}
            }
        }
        false
    }

    /// A driver that is gone by now asks again.
    fn answer(&self, number: u64) {
        let usage = self.counters.read().unwrap_or_default();
        if let Ok(mut line) = serde_json::to_vec(&ControlReply { number, usage }) {
            line.push(b'\n');
            let _ = rustix::io::write(self.as_fd(), &line);
        }
    }
}
