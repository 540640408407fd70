//! The descriptors of running processes, held for the next keeper. Init never reads them and bounds their number.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use sandyard_protocol::ProcessId;

use super::messages::{HoldReply, HoldRequest, StreamPart};
use crate::limits::{HELD_PARTS, PROCESS_ID_BYTES};
use crate::packets::{self, LocalPacket};

/// The descriptors that init holds, by process.
#[derive(Debug, Default)]
pub struct HeldStreams {
    descriptors: BTreeMap<(ProcessId, StreamPart), Vec<OwnedFd>>,
}

/// The state of keeper's socket after its requests were served.
#[derive(Debug, PartialEq, Eq)]
pub enum KeeperTurn {
    /// No request is left for now.
    Everything,
    /// Keeper has closed its end.
    Closed,
}

impl HeldStreams {
    /// Serves all requests that have arrived. Also called once after keeper's death, for the requests it sent before.
    pub fn serve(&mut self, socket: BorrowedFd<'_>) -> io::Result<KeeperTurn> {
        loop {
            let received = match packets::receive(socket) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(KeeperTurn::Closed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(KeeperTurn::Everything),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(KeeperTurn::Closed);
                }
                Err(error) => return Err(error),
            };
            if let Some(reply) = self.apply(received.message, received.fds)? {
                match reply.send(socket) {
                    // Keeper died after it asked. Requests that it sent later are still in the socket and count.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                    result => result?,
                }
            }
        }
    }

    fn apply(&mut self, request: HoldRequest, fds: Vec<OwnedFd>) -> io::Result<Option<LocalPacket>> {
        match request {
            HoldRequest::Hold { id, part } => {
                // The bounds limit the damage of a defective keeper. Beyond them the descriptors are closed; the next keeper finds the
                // process without them and kills it.
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

    fn show(&self, index: usize) -> io::Result<LocalPacket> {
        let Some(((id, part), descriptors)) = self.descriptors.iter().nth(index) else {
            return LocalPacket::new(&HoldReply::End, Vec::new());
        };
        // Init keeps its own descriptors: a keeper that dies while it collects them must not take them along.
        let copies = descriptors
            .iter()
            .map(|descriptor| descriptor.as_fd().try_clone_to_owned())
            .collect::<Result<_, _>>()?;
        LocalPacket::new(&HoldReply::Held { id: id.clone(), part: *part }, copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(
        held: &mut HeldStreams,
        request: &HoldRequest,
        fds: Vec<OwnedFd>,
    ) -> Option<packets::ReceivedPacket<HoldReply>> {
        let (ours, theirs) = packets::pair().unwrap();
        LocalPacket::new(request, fds).unwrap().send(ours.as_fd()).unwrap();
        assert_eq!(held.serve(theirs.as_fd()).unwrap(), KeeperTurn::Everything);
        packets::receive(ours.as_fd()).ok().flatten()
    }

    fn hold(held: &mut HeldStreams, id: &str, part: StreamPart) {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert!(say(held, &HoldRequest::Hold { id: ProcessId(id.into()), part }, vec![read]).is_none());
    }

    fn shown(held: &mut HeldStreams) -> Vec<(String, StreamPart, usize)> {
        let mut all = Vec::new();
        loop {
            let reply = say(held, &HoldRequest::Show { index: all.len() }, Vec::new()).unwrap();
            match reply.message {
                HoldReply::Held { id, part } => all.push((id.0, part, reply.fds.len())),
                HoldReply::End => return all,
            }
        }
    }

    #[test]
    fn parts_are_held_until_released_and_shown_any_number_of_times() {
        let mut held = HeldStreams::default();
        hold(&mut held, "a", StreamPart::Output);
        hold(&mut held, "a", StreamPart::Input);
        hold(&mut held, "b", StreamPart::Output);
        assert_eq!(shown(&mut held).len(), 3);
        say(
            &mut held,
            &HoldRequest::Release { id: ProcessId("a".into()), part: StreamPart::Input },
            Vec::new(),
        );
        let expected = [("a".to_owned(), StreamPart::Output, 1), ("b".to_owned(), StreamPart::Output, 1)];
        assert_eq!(shown(&mut held), expected);
        assert_eq!(shown(&mut held), expected);
    }

    #[test]
    fn no_more_is_held_than_the_bound() {
        let mut held = HeldStreams::default();
        for number in 0..HELD_PARTS + 5 {
            hold(&mut held, &number.to_string(), StreamPart::Output);
        }
        assert_eq!(held.descriptors.len(), HELD_PARTS);
    }

    #[test]
    fn a_keepers_last_words_count() {
        let (mut held, (ours, theirs)) = (HeldStreams::default(), packets::pair().unwrap());
        let request = HoldRequest::Hold { id: ProcessId::main(), part: StreamPart::Output };
        LocalPacket::new(&request, Vec::new()).unwrap().send(ours.as_fd()).unwrap();
        drop(ours);
        assert_eq!(held.serve(theirs.as_fd()).unwrap(), KeeperTurn::Closed);
        assert_eq!(held.descriptors.len(), 1);
    }
}
