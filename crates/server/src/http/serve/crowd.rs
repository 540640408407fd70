//! All connections of a listener, and who has to leave when there are too many.
//!
//! A connection is never left waiting in the kernel's queue. A newcomer beyond a bound takes the place of a connection whose
//! client has the turn: one that has sent no request yet, then an idle one, then one that stalls in a body or an answer. Of
//! several, the one of the peer with the most connections goes, and there the one that waits for the longest time. Where
//! nobody can leave, a few places are reserved for requests about the server's health.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use crate::http::ServeLimits;

/// A client that stalls in a body or an answer for less than this does not have to leave.
const STALL_TIME: Duration = Duration::from_secs(1);
/// Places for health beyond the bound, for all peers and for one of them.
const RESERVED_PLACES: usize = 32;
const RESERVED_PLACES_PER_PEER: usize = 8;
/// Connections that leave at once: a flood must not look through the whole crowd for each newcomer.
const MAX_LEAVING: usize = 32;

/// The sender's address. An IPv6 host usually has a whole /64, so it counts as one; a local socket has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PeerNetwork(Option<IpAddr>);

impl PeerNetwork {
    pub(super) fn of(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
            address => address,
        }))
    }
}

/// Whose turn it is on a connection. While it is the client's, the connection may have to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionTurn {
    /// The client has not completed its first request.
    FirstHead,
    /// The client may send another request.
    NextHead,
    /// The client sends a body.
    Body,
    /// The client takes an answer.
    Answer,
    /// The server works on a request, or both sides use a socket.
    Server,
}

impl ConnectionTurn {
    const ALL: [Self; 5] = [Self::FirstHead, Self::NextHead, Self::Body, Self::Answer, Self::Server];
}

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Crowd {
    max_connections: usize,
    max_per_peer: usize,
    max_unwritten_bytes: usize,
    start: Instant,
    members: Mutex<CrowdMembers>,
    /// Bytes of answers that stalled clients do not take.
    unwritten_bytes: AtomicUsize,
    peak_unwritten_bytes: AtomicUsize,
    /// Connections that had to leave and are not counted yet.
    dismissed: AtomicUsize,
}

#[derive(Debug, Default)]
struct CrowdMembers {
    next_number: u64,
    by_number: HashMap<u64, Arc<CrowdMember>>,
    taken: TakenPlaces,
    taken_by_peer: HashMap<PeerNetwork, TakenPlaces>,
}

#[derive(Debug, Default, Clone, Copy)]
struct TakenPlaces {
    ordinary: usize,
    reserved: usize,
}

/// The kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrowdPlace {
    /// For every request.
    Ordinary,
    /// For requests about the server's health only.
    Reserved,
}

/// One connection.
#[derive(Debug)]
pub(super) struct CrowdMember {
    crowd: Arc<Crowd>,
    number: u64,
    peer: PeerNetwork,
    pub(super) place: CrowdPlace,
    /// Milliseconds since the crowd's start, times eight, plus the index of the turn.
    turn: AtomicU64,
    unwritten_bytes: AtomicUsize,
    must_leave: AtomicBool,
    waker: AtomicWaker,
}

impl Crowd {
    pub(super) fn new(limits: &ServeLimits) -> Arc<Self> {
        Arc::new(Self {
            max_connections: limits.connections,
            max_per_peer: limits.connections_per_peer,
            max_unwritten_bytes: limits.unwritten_bytes,
            start: Instant::now(),
            members: Mutex::default(),
            unwritten_bytes: AtomicUsize::new(0),
            peak_unwritten_bytes: AtomicUsize::new(0),
            dismissed: AtomicUsize::new(0),
        })
    }

    /// A place for a new connection; `None` if nobody can leave and the reserved places are taken.
    pub(super) fn enter(self: &Arc<Self>, peer: PeerNetwork) -> Option<Arc<CrowdMember>> {
        let mut members = self.members.lock();
        let place = self.find_place(&mut members, peer)?;
        members.next_number += 1;
        let member = Arc::new(CrowdMember {
            crowd: Arc::clone(self),
            number: members.next_number,
            peer,
            place,
            turn: AtomicU64::new(self.pack(ConnectionTurn::FirstHead)),
            unwritten_bytes: AtomicUsize::new(0),
            must_leave: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        members.add(&member);
        Some(member)
    }

    fn find_place(&self, members: &mut CrowdMembers, peer: PeerNetwork) -> Option<CrowdPlace> {
        [CrowdPlace::Ordinary, CrowdPlace::Reserved].into_iter().find(|&place| {
            let (most, most_of_peer) = match place {
                CrowdPlace::Ordinary => (self.max_connections, self.max_per_peer),
                CrowdPlace::Reserved => (RESERVED_PLACES, RESERVED_PLACES_PER_PEER),
            };
            if members.peer(peer).of(place) >= most_of_peer {
                self.dismiss(members, |member| member.place == place && member.peer == peer) > 0
            } else if members.taken.of(place) >= most {
                self.dismiss(members, |member| member.place == place) > 0
            } else {
                true
            }
        })
    }

    /// Makes some connections leave, by the order of the module's text.
    fn dismiss(&self, members: &mut CrowdMembers, eligible: impl Fn(&CrowdMember) -> bool) -> usize {
        let now_ms = self.now_ms();
        let stall_ms = u64::try_from(STALL_TIME.as_millis()).unwrap_or(u64::MAX);
        let mut candidates: Vec<_> = members
            .by_number
            .values()
            .filter(|member| eligible(member))
            .filter_map(|member| {
                let (turn, since_ms) = member.turn();
                let may_leave = match turn {
                    ConnectionTurn::FirstHead | ConnectionTurn::NextHead => true,
                    ConnectionTurn::Body | ConnectionTurn::Answer => {
                        now_ms - since_ms.min(now_ms) >= stall_ms
                    }
                    ConnectionTurn::Server => false,
                };
                let crowd = members.peer(member.peer).ordinary;
                may_leave.then(|| (std::cmp::Reverse(crowd), turn, since_ms, member.number))
            })
            .collect();
        candidates.sort_unstable();
        // Of connections that never sent a request several leave at once; of others only as many as have to.
        let strangers = candidates.iter().take(MAX_LEAVING);
        let strangers = strangers.take_while(|(_, turn, ..)| *turn == ConnectionTurn::FirstHead).count();
        // The newest of them may be about to send its request.
        let leaving = (strangers / 2).max(1).min(candidates.len());
        for (.., number) in candidates.drain(..leaving) {
            members.dismiss(number);
        }
        leaving
    }

    /// Makes idle connections leave, because the process has no descriptors left. Returns how many.
    pub(super) fn free_descriptors(&self) -> usize {
        self.dismiss(&mut self.members.lock(), |_| true)
    }

    /// Closes answers that stall, the longest first, until the others are within the budget.
    pub(super) fn relieve(&self) {
        let mut unwritten = self.unwritten_bytes.load(Ordering::Relaxed);
        if unwritten <= self.max_unwritten_bytes {
            return;
        }
        let mut members = self.members.lock();
        let stalled_before_ms =
            self.now_ms().saturating_sub(STALL_TIME.as_millis().try_into().unwrap_or(u64::MAX));
        let mut stalled: Vec<_> = members
            .by_number
            .values()
            .map(|member| (member.turn(), member.unwritten_bytes.load(Ordering::Relaxed), member.number))
            .filter(|((turn, since_ms), ..)| {
                *turn == ConnectionTurn::Answer && *since_ms <= stalled_before_ms
            })
            .map(|((_, since_ms), bytes, number)| (since_ms, bytes, number))
            .collect();
        stalled.sort_unstable();
        for (_, bytes, number) in stalled {
            if unwritten <= self.max_unwritten_bytes {
                return;
            }
            members.dismiss(number);
            unwritten = unwritten.saturating_sub(bytes);
        }
    }

    /// Connections that had to leave since the last call.
    pub(super) fn take_dismissed(&self) -> usize {
        self.dismissed.swap(0, Ordering::Relaxed)
    }

    /// Bytes of answers that clients do not take.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes.load(Ordering::Relaxed)
    }

    /// Most bytes of stalled answers since the last call.
    pub(super) fn take_peak_unwritten_bytes(&self) -> usize {
        self.peak_unwritten_bytes.swap(0, Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn pack(&self, turn: ConnectionTurn) -> u64 {
        (self.now_ms() << 3) | turn as u64
    }
}

impl TakenPlaces {
    fn of(self, place: CrowdPlace) -> usize {
        match place {
            CrowdPlace::Ordinary => self.ordinary,
            CrowdPlace::Reserved => self.reserved,
        }
    }

    fn of_mut(&mut self, place: CrowdPlace) -> &mut usize {
        match place {
            CrowdPlace::Ordinary => &mut self.ordinary,
            CrowdPlace::Reserved => &mut self.reserved,
        }
    }
}

impl CrowdMembers {
    fn peer(&self, peer: PeerNetwork) -> TakenPlaces {
        self.taken_by_peer.get(&peer).copied().unwrap_or_default()
    }

    fn add(&mut self, member: &Arc<CrowdMember>) {
        *self.taken.of_mut(member.place) += 1;
        *self.taken_by_peer.entry(member.peer).or_default().of_mut(member.place) += 1;
        self.by_number.insert(member.number, Arc::clone(member));
    }

    fn remove(&mut self, number: u64) -> Option<Arc<CrowdMember>> {
        let member = self.by_number.remove(&number)?;
        *self.taken.of_mut(member.place) -= 1;
        let of_peer = self.taken_by_peer.entry(member.peer).or_default();
        *of_peer.of_mut(member.place) -= 1;
        if of_peer.ordinary + of_peer.reserved == 0 {
            self.taken_by_peer.remove(&member.peer);
        }
        Some(member)
    }

    /// The place is free at once; the connection notices when it is next polled.
    fn dismiss(&mut self, number: u64) {
        if let Some(member) = self.remove(number) {
            member.crowd.dismissed.fetch_add(1, Ordering::Relaxed);
            member.must_leave.store(true, Ordering::Release);
            member.waker.wake();
        }
    }
}

impl CrowdMember {
    /// Notes whose turn it is.
    pub(super) fn set_turn(&self, turn: ConnectionTurn) {
        self.turn.store(self.crowd.pack(turn), Ordering::Relaxed);
    }

    /// The server works now. Cheaper than a turn of the client: nothing asks since when.
    pub(super) fn take_over(&self) {
        self.turn.store(ConnectionTurn::Server as u64, Ordering::Relaxed);
    }

    pub(super) fn turn(&self) -> (ConnectionTurn, u64) {
        let packed = self.turn.load(Ordering::Relaxed);
        let index = usize::try_from(packed & 7).unwrap_or(0);
        (*ConnectionTurn::ALL.get(index).unwrap_or(&ConnectionTurn::Server), packed >> 3)
    }

    /// True if the connection must end. Else the task is woken when it has to.
    pub(super) fn must_leave(&self, waker: &std::task::Waker) -> bool {
        self.waker.register(waker);
        self.must_leave.load(Ordering::Acquire)
    }

    /// Notes how many bytes of an answer the client does not take.
    pub(super) fn set_unwritten(&self, bytes: usize) {
        let before = self.unwritten_bytes.swap(bytes, Ordering::Relaxed);
        let total = &self.crowd.unwritten_bytes;
        if bytes > before {
            let now = total.fetch_add(bytes - before, Ordering::Relaxed) + bytes - before;
            self.crowd.peak_unwritten_bytes.fetch_max(now, Ordering::Relaxed);
        } else {
            total.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    /// The connection is over.
    pub(super) fn leave(&self) {
        self.set_unwritten(0);
        self.crowd.members.lock().remove(self.number);
    }
}

#[cfg(test)]
#[path = "crowd_tests.rs"]
mod tests;
