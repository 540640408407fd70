//! Who has to leave.

use super::*;

fn crowd(connections: usize, connections_per_peer: usize) -> Arc<Crowd> {
    Crowd::new(&ServeLimits {
        connections,
        connections_per_peer,
        unwritten_bytes: 1000,
        ..ServeLimits::default()
    })
}

fn peer(last: u8) -> PeerNetwork {
    PeerNetwork::of(Some(IpAddr::from([192, 0, 2, last])))
}

fn leaves(member: &CrowdMember) -> bool {
    member.must_leave.load(Ordering::Relaxed)
}

#[test]
fn an_ipv6_network_is_one_peer() {
    let of = |text: &str| PeerNetwork::of(Some(text.parse().unwrap()));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
}

#[test]
fn f6_half_sent_heads_make_room_for_newcomers() {
    let crowd = crowd(8, 8);
    let used = crowd.enter(peer(1)).unwrap();
    used.set_turn(ConnectionTurn::NextHead);
    let half: Vec<_> = (0..7).map(|_| crowd.enter(peer(1)).unwrap()).collect();
    let newcomer = crowd.enter(peer(1)).unwrap();
    assert_eq!(newcomer.place, CrowdPlace::Ordinary);
    assert!(leaves(&half[0]) && !leaves(&half[6]), "the oldest leave");
    assert!(!leaves(&used), "an idle connection of a known client stays");
}

#[test]
fn f6_one_peer_never_pushes_out_others() {
    let crowd = crowd(8, 4);
    let other = crowd.enter(peer(2)).unwrap();
    let greedy: Vec<_> = (0..20).map(|_| crowd.enter(peer(1)).unwrap()).collect();
    assert!(!leaves(&other));
    let stays = greedy.iter().filter(|member| !leaves(member)).count();
    assert!(stays <= 4, "{stays}");
    assert_eq!(crowd.members.lock().by_number.len(), stays + 1);
}

#[test]
fn f6_where_everybody_works_health_has_places_of_its_own() {
    let crowd = crowd(4, 4);
    let busy: Vec<_> = (0..4).map(|_| crowd.enter(peer(1)).unwrap()).collect();
    busy.iter().for_each(|member| member.take_over());
    // Each is answered at once, so none of them can be pushed out by the next.
    let answered = || crowd.enter(peer(1)).inspect(|member| member.take_over());
    let reserved: Vec<_> = std::iter::from_fn(answered).take(100).collect();
    assert_eq!(reserved.len(), RESERVED_PLACES_PER_PEER);
    assert!(reserved.iter().all(|member| member.place == CrowdPlace::Reserved));
    assert!(!busy.iter().any(|member| leaves(member)));
    reserved[0].leave();
    assert!(crowd.enter(peer(1)).is_some());
    busy[0].leave();
    assert_eq!(crowd.enter(peer(1)).unwrap().place, CrowdPlace::Ordinary);
}

#[test]
fn d4_stalled_answers_beyond_the_budget_are_closed() {
    let mut crowd = crowd(8, 8);
    Arc::get_mut(&mut crowd).unwrap().start -= 2 * STALL_TIME;
    let stalled = crowd.enter(peer(1)).unwrap();
    // As if it had stalled at the crowd's start.
    stalled.turn.store(ConnectionTurn::Answer as u64, Ordering::Relaxed);
    stalled.set_unwritten(600);
    let moving = crowd.enter(peer(1)).unwrap();
    moving.take_over();
    crowd.relieve();
    assert!(!leaves(&stalled), "within the budget");
    moving.set_unwritten(600);
    crowd.relieve();
    assert!(leaves(&stalled) && !leaves(&moving));
    stalled.leave();
    assert_eq!(crowd.unwritten_bytes.load(Ordering::Relaxed), 600);
    assert_eq!(crowd.take_peak_unwritten_bytes(), 1200);
}
