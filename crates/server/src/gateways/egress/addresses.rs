//! Resolves a name once, checks every address, and connects to the checked addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::TcpStream;

use super::policy::EgressTarget;
use super::resolver::NameResolver;

/// Longest time to connect to one address; a name may have several.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A port for the question which route an address has. Nothing is sent to it.
const DISCARD_PORT: u16 = 9;

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
    resolver: &NameResolver,
    exceptions: &[PrivateException],
) -> Result<TcpStream, EgressConnectError> {
    let found = resolver.resolve(target).await;
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
    let fine = |address: &SocketAddr| is_elsewhere(address.ip()) || excepted(address);
    // One bad address refuses all, so that a name can't be retried until the resolver puts a private address first.
    if found.iter().all(fine) { Ok(found.to_vec()) } else { Err(EgressConnectError::Private) }
}

/// True if an address is on the public internet and not one of this machine's own.
fn is_elsewhere(address: IpAddr) -> bool {
    let inner = match address {
        IpAddr::V6(address) => embedded_v4(address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    is_public(address) && !is_own(address) && !inner.is_some_and(is_own)
}

/// True if the kernel delivers packets for an address to this machine. Its routing table knows that at every moment, for all
/// interfaces; a list of their addresses would have to be kept up to date. True also if the kernel can't say.
fn is_own(address: IpAddr) -> bool {
    match source_for(address) {
        // The route to an own address begins at the address itself, or at loopback for a whole range of own addresses.
        Ok(source) => source == address || source.is_loopback(),
        // No route, so nothing can be connected to: not an own address.
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::Unsupported
        ),
    }
}

/// Returns the address from which this machine would send to an address. A datagram socket that is connected gets a route and
/// sends nothing.
fn source_for(address: IpAddr) -> io::Result<IpAddr> {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect((address, DISCARD_PORT))?;
    Ok(socket.local_addr()?.ip())
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

    /// Public in its class, and an address of this machine in the network namespace of the next test.
    const OWN: [&str; 3] = ["192.0.2.7", "2001:db8::7", "203.0.113.77"];

    /// Set for the process that runs in that namespace.
    const INSIDE: &str = "SANDYARD_TEST_OWN_ADDRESSES";

    /// Runs the test below in a network namespace of its own, where this machine has public addresses.
    #[test]
    fn n24_an_own_address_is_refused_whatever_its_class() {
        // On `lo`, because a kernel may lack devices that are made at will.
        let setup = "ip link set lo up && ip address add 192.0.2.7/32 dev lo && \
                     ip address add 2001:db8::7/128 dev lo nodad && ip route add local 203.0.113.0/24 dev lo && exec \"$0\" \"$@\"";
        let mut inside = std::process::Command::new("unshare");
        inside.args(["--map-root-user", "--net", "sh", "-c", setup]).arg(std::env::current_exe().unwrap());
        inside.args(["--exact", "gateways::egress::addresses::tests::inside_with_public_addresses"]);
        inside.env(INSIDE, "1");
        let output = match inside.output() {
            Ok(output) => output,
            Err(error) => return eprintln!("skipped: needs unshare: {error}"),
        };
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.contains("running 1 test") {
            return eprintln!(
                "skipped: needs a network namespace: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        assert!(output.status.success(), "{said}");
    }

    #[test]
    fn inside_with_public_addresses() {
        if std::env::var_os(INSIDE).is_none() {
            return eprintln!(
                "skipped: n24_an_own_address_is_refused_whatever_its_class runs it in a namespace"
            );
        }
        let target = EgressTarget::new("own.example", 80).unwrap();
        for own in OWN {
            let address: IpAddr = own.parse().unwrap();
            assert!(is_public(address), "{own} is public in its class");
            let found = [SocketAddr::new(address, 80)];
            assert!(matches!(permitted(&target, &found, &[]), Err(EgressConnectError::Private)), "{own}");
            let exception = PrivateException { host: "own.example".into(), port: 80, address };
            assert!(permitted(&target, &found, &[exception]).is_ok(), "the operator's exception");
        }
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
        assert!(!is_elsewhere(mapped));
        for other in ["192.0.2.8", "198.51.100.1", "2001:db8::8", "2606:4700::1111"] {
            assert!(is_elsewhere(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn n24_addresses_of_interfaces_are_known_as_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        // The address that this machine would use, if it has a route outwards.
        if let Ok(source) = source_for("192.0.2.1".parse().unwrap()) {
            assert!(is_own(source), "{source}");
            assert!(!is_own("192.0.2.1".parse().unwrap()));
        }
    }
}
