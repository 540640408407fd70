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

#[cfg(test)]
mod tests {
    use super::*;

    fn say(
        held: &mut Held,
        request: &HoldRequest,
        fds: Vec<OwnedFd>,
    ) -> Option<packets::Received<HoldReply>> {
        let (ours, theirs) = packets::pair().unwrap();
        Packet::new(request, fds).unwrap().send(ours.as_fd()).unwrap();
        assert_eq!(held.serve(theirs.as_fd()).unwrap(), Served::Everything);
        packets::receive(ours.as_fd()).ok().flatten()
    }

    fn hold(held: &mut Held, id: &str, part: Part) {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert!(say(held, &HoldRequest::Hold { id: ProcessId(id.into()), part }, vec![read]).is_none());
    }

    fn shown(held: &mut Held) -> Vec<(String, Part, usize)> {
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
        let mut held = Held::default();
        hold(&mut held, "a", Part::Output);
        hold(&mut held, "a", Part::Input);
        hold(&mut held, "b", Part::Output);
        assert_eq!(shown(&mut held).len(), 3);
        say(&mut held, &HoldRequest::Release { id: ProcessId("a".into()), part: Part::Input }, Vec::new());
        let expected = [("a".to_owned(), Part::Output, 1), ("b".to_owned(), Part::Output, 1)];
        assert_eq!(shown(&mut held), expected);
        assert_eq!(shown(&mut held), expected);
    }

    #[test]
    fn no_more_is_held_than_the_bound() {
        let mut held = Held::default();
        for number in 0..HELD_PARTS + 5 {
            hold(&mut held, &number.to_string(), Part::Output);
        }
        assert_eq!(held.descriptors.len(), HELD_PARTS);
    }

    #[test]
    fn a_keepers_last_words_count() {
        let (mut held, (ours, theirs)) = (Held::default(), packets::pair().unwrap());
        let request = HoldRequest::Hold { id: ProcessId::main(), part: Part::Output };
        Packet::new(&request, Vec::new()).unwrap().send(ours.as_fd()).unwrap();
        drop(ours);
        assert_eq!(held.serve(theirs.as_fd()).unwrap(), Served::Closed);
        assert_eq!(held.descriptors.len(), 1);
    }
}
