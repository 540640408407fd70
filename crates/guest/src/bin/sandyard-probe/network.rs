//! Where a packet could go, asked of the kernel without sending one: connecting a datagram socket only looks for a route.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::{ProbeFinding, outcome};

/// Addresses by the attack that wants them: the world, clouds' metadata, private networks, a name server, multicast.
const PLACES: &[(&str, &str)] = &[
    ("N1.documentation", "192.0.2.1"),
    ("N1.documentation6", "2001:db8::1"),
    ("N1.world", "198.51.100.7"),
    ("N6.metadata", "169.254.169.254"),
    ("N6.metadata6", "fd00:ec2::254"),
    ("N6.private_10", "10.0.0.1"),
    ("N6.private_172", "172.17.0.1"),
    ("N6.private_192", "192.168.1.1"),
    ("N6.carrier", "100.64.0.1"),
    ("N6.local6", "fe80::1"),
    ("N7.name_server", "192.0.2.53"),
    ("N8.multicast", "224.0.0.251"),
    ("N8.multicast6", "ff02::fb"),
    ("N8.broadcast", "255.255.255.255"),
];

/// Tries to reach every address of the table.
pub(crate) fn all() -> Vec<ProbeFinding> {
    PLACES.iter().map(|(check, address)| ProbeFinding::new(*check, route_to(address))).collect()
}

fn route_to(address: &str) -> String {
    let routed = address.parse::<IpAddr>().map_err(std::io::Error::other).and_then(|address| {
        let any: SocketAddr =
            if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.set_broadcast(true)?;
        socket.connect((address, 53)).map(|()| "a route")
    });
    outcome(routed)
}
