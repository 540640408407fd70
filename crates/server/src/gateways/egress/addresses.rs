//! Resolves a name once, checks every address, and connects to the checked addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::policy::EgressTarget;

/// Longest time to resolve a name; the host's resolver may try several servers.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to connect to one address; a name may have several.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// A private address that the operator lets jobs reach, by one host name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateException {
    /// Host name, compared whole and in lower case. No wildcards.
    pub host: String,
    /// Port of the exception. Other ports of the host stay refused.
    pub port: u16,
    /// Address to which the name must resolve.
    pub address: IpAddr,
}

/// Why a target can't be connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EgressConnectError {
    /// The host's resolver knows no address.
    #[error("the name can't be resolved")]
    Unresolved,
    /// An address belongs to this machine, to its network, or is not routable.
    #[error("the name leads to a private address")]
    Private,
    /// No address accepted the connection.
    #[error("the host can't be connected to")]
    Unreachable(#[source] io::Error),
}

/// Connects to a target whose name is allowed.
pub(crate) async fn connect(
    target: &EgressTarget,
    exceptions: &[PrivateException],
) -> Result<TcpStream, EgressConnectError> {
    let lookup = tokio::net::lookup_host((target.host.as_str(), target.port));
    let found = match tokio::time::timeout(RESOLVE_TIMEOUT, lookup).await {
        Ok(Ok(found)) => found.take(MAX_ADDRESSES).collect::<Vec<_>>(),
        Ok(Err(_)) | Err(_) => return Err(EgressConnectError::Unresolved),
    };
    // The checked addresses are connected to, not the name: a second lookup could give another answer (DNS rebinding).
    let allowed = permitted(target, &found, exceptions)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in allowed {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(EgressConnectError::Unreachable(last))
}

/// Returns the addresses that may be connected to. One private address rejects the name, because a mixture is a sign of DNS
/// rebinding.
fn permitted(
    target: &EgressTarget,
    found: &[SocketAddr],
    exceptions: &[PrivateException],
) -> Result<Vec<SocketAddr>, EgressConnectError> {
    if found.is_empty() {
        return Err(EgressConnectError::Unresolved);
    }
    let excepted = |address: &SocketAddr| {
        exceptions.iter().any(|exception| {
            exception.host == target.host
                && exception.port == target.port
                && exception.address == address.ip()
        })
    };
    let fine = |address: &SocketAddr| is_public(address.ip()) || excepted(address);
    // One bad address refuses all, so that a name can't be retried until the resolver puts a private address first.
    if found.iter().all(fine) { Ok(found.to_vec()) } else { Err(EgressConnectError::Private) }
}

/// True if an address is on the public internet. Ranges for documentation count as public: resolvers of closed networks answer
/// with them.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let benchmarks = a == 198 && (18..20).contains(&b);
    let protocol = a == 192 && b == 0 && c == 0;
    !(a == 0
        || a >= 240
        || shared
        || benchmarks
        || protocol
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast())
}

/// Returns the IPv4 address inside a mapped, compatible, NAT64, 6to4 or Teredo address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        // `::` and `::1` are addresses of their own and no embedded IPv4; the rule for IPv6 refuses them.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] if (high, low) != (0, 0) && (high, low) != (0, 1) => {
            Some(of(high, low))
        }
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        [0x2001, 0, .., high, low] => Some(of(!high, !low)),
        _ => None,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    // Global unicast is 2000::/3. Everything else is local, multicast or unassigned, also NAT64 for local use, 64:ff9b:1::/48.
    (0x2000..0x4000).contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n5_n6_addresses_of_this_machine_and_its_networks_are_not_public() {
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:0:1:2:3:4:80ff:fffe",
            "64:ff9b:1::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn others_are_public() {
        for text in
            ["1.1.1.1", "140.82.112.3", "192.0.2.10", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn n5_one_private_address_among_public_ones_condemns_the_name() {
        let target = EgressTarget::new("rebind.example", 80).unwrap();
        let found = ["1.1.1.1:80".parse().unwrap(), "127.0.0.1:80".parse().unwrap()];
        assert!(matches!(permitted(&target, &found, &[]), Err(EgressConnectError::Private)));
        assert!(permitted(&target, &found[..1], &[]).is_ok());
    }

    #[test]
    fn an_operator_excepts_one_host_port_and_address() {
        let target = EgressTarget::new("mirror.internal", 8080).unwrap();
        let exception = PrivateException {
            host: "mirror.internal".into(),
            port: 8080,
            address: "10.0.0.7".parse().unwrap(),
        };
        let exceptions = std::slice::from_ref(&exception);
        assert!(permitted(&target, &["10.0.0.7:8080".parse().unwrap()], exceptions).is_ok());
        assert!(permitted(&target, &["10.0.0.8:8080".parse().unwrap()], exceptions).is_err());
        let other = EgressTarget::new("mirror.internal", 80).unwrap();
        assert!(permitted(&other, &["10.0.0.7:80".parse().unwrap()], exceptions).is_err());
    }
}
