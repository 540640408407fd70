//! The driver's own line: questions about the job, and the order to switch off. Only the host can reach it, over a serial line or
//! by calling a port of the machine's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish};

use super::groups::GroupCounters;
use crate::sys;

/// Interval between two looks for a driver that connects. It can't be polled for: a line without a host is always ready.
pub(super) const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The control line, and the bytes read from it so far.
pub(super) struct ControlServer {
    line: ControlLine,
    counters: GroupCounters,
    pending: Vec<u8>,
}

/// The transport of questions and answers.
pub(super) enum ControlLine {
    /// A serial line, open for good.
    Serial(OwnedFd),
    /// A listening socket, and the connection that is being served.
    Calls {
        /// The listening socket, non-blocking: init must never wait here.
        listener: OwnedFd,
        /// One at a time; the next one waits.
        caller: Option<OwnedFd>,
    },
}

impl AsFd for ControlServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            ControlLine::Serial(port) => port.as_fd(),
            ControlLine::Calls { listener, caller } => caller.as_ref().unwrap_or(listener).as_fd(),
        }
    }
}

impl ControlServer {
    pub(super) fn new(line: ControlLine, counters: GroupCounters) -> Self {
        Self { line, counters, pending: Vec::new() }
    }

    /// True if the line can be polled: a serial line with a host at its other end, or a listening socket.
    pub(super) fn is_connected(&self) -> bool {
        let ControlLine::Serial(port) = &self.line else { return true };
        let mut fds = [PollFd::new(port, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds.iter().all(|fd| !fd.revents().contains(PollFlags::HUP))
    }

    /// Answers all that was asked; `true` if the machine shall end.
    pub(super) fn serve_until_power_off(&mut self) -> bool {
        self.take_call();
        let ended = self.read();
        let power_off = self.answer_all();
        if let (true, ControlLine::Calls { caller, .. }) = (ended, &mut self.line) {
            *caller = None;
            self.pending.clear();
        }
        power_off
    }

    /// Accepts the next connection unless one is being served. Processes of the machine could connect too if their filters let them (N9).
    fn take_call(&mut self) {
        if let ControlLine::Calls { listener, caller: caller @ None } = &mut self.line {
            *caller = sys::accept_host(listener.as_fd()).ok().flatten();
        }
    }

    /// Reads the bytes that are there. Returns `true` at the end of a connection; on a serial line that means that no host is connected.
    fn read(&mut self) -> bool {
        let mut buffer = [0; CONTROL_LINE_BYTES];
        loop {
            if let ControlLine::Calls { caller: None, .. } = self.line {
                return false;
            }
            match rustix::io::read(self.as_fd(), &mut buffer) {
                Ok(length @ 1..) => {
                    self.pending.extend_from_slice(buffer.get(..length).unwrap_or_default());
                    // Bounded: the oldest bytes of a line that is too long are dropped, and the rest is no valid request.
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
