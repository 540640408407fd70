//! The descriptors of running things, held for the next keeper. Opaque to init, bounded in count.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use sandyard_protocol::ProcessId;

use super::messages::{HoldReply, HoldRequest, Part};
use crate::limits::{HELD_PARTS, PROCESS_ID_BYTES};
use crate::packets::{self, Packet};

/// All that is held.
#[derive(Debug, Default)]
pub struct Held {
    descriptors: BTreeMap<(ProcessId, Part), Vec<OwnedFd>>,
}

/// What came of serving a keeper.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    /// It has no more to say for now.
    Everything,
    /// Its end is closed.
    Closed,
}

impl Held {
    /// Serves all requests that are there. Also called once after keeper's death, for what it said before.
    pub fn serve(&mut self, socket: BorrowedFd<'_>) -> io::Result<Served> {
        loop {
            let received = match packets::receive(socket) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(Served::Closed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Served::Everything),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Served::Closed),
                Err(error) => return Err(error),
            };
            if let Some(reply) = self.apply(received.message, received.fds)? {
                match reply.send(socket) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                    result => result?,
                }
            }
        }
    }

    fn apply(&mut self, request: HoldRequest, fds: Vec<OwnedFd>) -> io::Result<Option<Packet>> {
        match request {
            HoldRequest::Hold { id, part } => {
                if self.descriptors.len() < HELD_PARTS && id.0.len() <= PROCESS_ID_BYTES {
                    self.descriptors.insert((id, part), fds);
                }
                Ok(None)
            }
            HoldRequest::Release { id, part } => {
                self.descriptors.remove(&(id, part));
                Ok(None)
            }
            HoldRequest::Show { index } => self.show(index).map(Some),
        }
    }

    fn show(&self, index: usize) -> io::Result<Packet> {
        let Some(((id, part), descriptors)) = self.descriptors.iter().nth(index) else {
            return Packet::new(&HoldReply::End, Vec::new());
        };
        let copies = descriptors
            .iter()
            .map(|descriptor| descriptor.as_fd().try_clone_to_owned())
            .collect::<Result<_, _>>()?;
        Packet::new(&HoldReply::Held { id: id.clone(), part: *part }, copies)
    }
}
