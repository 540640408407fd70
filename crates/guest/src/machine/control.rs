//! The driver's own serial line: questions about the job, and the order to switch off. Only the host can write to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandyard_protocol::{CONTROL_LINE_BYTES, ControlReply, ControlRequest, ControlWish};

use super::groups::Counters;

/// How soon a driver that connects is noticed. Until then there is nothing to poll for: a line without a host is always ready.
pub(super) const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The line, and what was read of it.
pub(super) struct Control {
    port: OwnedFd,
    counters: Counters,
    pending: Vec<u8>,
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl Control {
    pub(super) fn new(port: OwnedFd, counters: Counters) -> Self {
        Self { port, counters, pending: Vec::new() }
    }

    /// Whether somebody holds the other end.
    pub(super) fn is_connected(&self) -> bool {
        let mut fds = [PollFd::new(&self.port, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds.iter().all(|fd| !fd.revents().contains(PollFlags::HUP))
    }

    /// Answers all that was asked; `true` if the machine shall end.
    pub(super) fn serve_until_power_off(&mut self) -> bool {
        self.read();
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

    /// Takes what is there. Nothing at all means that nobody is connected.
    fn read(&mut self) {
        let mut buffer = [0; CONTROL_LINE_BYTES];
        while let Ok(length @ 1..) = rustix::io::read(&self.port, &mut buffer) {
            self.pending.extend_from_slice(buffer.get(..length).unwrap_or_default());
            let excess = self.pending.len().saturating_sub(CONTROL_LINE_BYTES);
            self.pending.drain(..excess);
        }
    }

    /// A driver that is gone by now asks again.
    fn answer(&self, number: u64) {
        let usage = self.counters.read().unwrap_or_default();
        if let Ok(mut line) = serde_json::to_vec(&ControlReply { number, usage }) {
            line.push(b'\n');
            let _ = rustix::io::write(&self.port, &line);
        }
    }
}
