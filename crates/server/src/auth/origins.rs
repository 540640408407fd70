//! Names in `Host` and `Origin` headers, and the origins of sandboxes' ports. Names of this server are compared without
//! their port, so that a tunnel on another port works. The origin of a page is compared whole: another port of the same
//! machine is another program.

use std::net::IpAddr;

use crate::job::JobId;

/// Job origins below this name always work on the machine itself: browsers resolve it to loopback without DNS.
pub const LOCAL_DOMAIN: &str = "localhost";

/// A port of a sandbox. The name of its origin is `<port>-<job>.<domain>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOrigin {
    /// The job whose sandbox has the port.
    pub job: JobId,
    /// A port on its sandbox's loopback.
    pub port: u16,
}

impl JobOrigin {
    /// Reads a folded name that ends in one of these domains.
    pub fn read(name: &str, domains: &[&str]) -> Option<Self> {
        let (label, domain) = name.split_once('.')?;
        let (port, job) = label.split_once('-')?;
        // One spelling for each port: `08888` and `8888` would be two origins with one meaning.
        let plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        if !domains.contains(&domain) || !plain {
            return None;
        }
        Some(Self { job: JobId::parse(job)?, port: port.parse().ok()? })
    }

    /// Returns the host name of the origin below a domain.
    pub fn name(&self, domain: &str) -> String {
        format!("{}-{}.{domain}", self.port, self.job)
    }
}

/// The domain of job origins: `name`, `http://name[:port]` or `https://name[:port]`. Every name below it must lead
/// to this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The domain's name in lower case, without a final dot.
    pub name: String,
    /// True if browsers come by TLS, which a proxy in front of this server terminates.
    pub tls: bool,
    /// The port in addresses; `None` takes that of the request, or the scheme's own with TLS.
    pub port: Option<u16>,
}

impl Domain {
    /// Reads a setting of the operator; `None` if it is no domain.
    pub fn parse(text: &str) -> Option<Self> {
        let (tls, authority) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return None,
            None => (false, text),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let name = name_of_authority(authority)?;
        let port = match authority.rsplit_once(':') {
            Some((_, port)) => Some(port.parse().ok()?),
            None => None,
        };
        (name.parse::<IpAddr>().is_err() && !is_job_origin(&name)).then_some(Self { name, tls, port })
    }
}

/// The name or address in an authority (`name[:port]`, `[v6][:port]`), folded; `None` if malformed.
pub fn name_of_authority(authority: &str) -> Option<String> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")))
        }
        None => match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, Some("")),
        },
    };
    let port_fits = port?.bytes().all(|byte| byte.is_ascii_digit());
    let clean = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    (port_fits && clean && !name.is_empty()).then(|| host_name(name))
}

/// The origin of a web page, as its `Origin` header names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOrigin {
    /// The folded name or address.
    pub name: String,
    tls: bool,
    port: u16,
}

impl PageOrigin {
    /// Reads an `Origin` header; `None` for `null` and everything that is not a web page's origin.
    pub fn parse(origin: &str) -> Option<Self> {
        let (tls, authority) = match origin.split_once("://")? {
            ("http", authority) => (false, authority),
            ("https", authority) => (true, authority),
            _ => return None,
        };
        let port = port_of(authority).unwrap_or(scheme_port(tls));
        Some(Self { name: name_of_authority(authority)?, tls, port })
    }

    /// True if requests with this `Host` go to the page's own origin. A `Host` without a port has that of the scheme.
    pub fn is_of(&self, host: &str) -> bool {
        name_of_authority(host).is_some_and(|name| name == self.name)
            && port_of(host).unwrap_or(scheme_port(self.tls)) == self.port
    }

    /// True if this is the domain's own origin.
    pub fn is_of_domain(&self, domain: &Domain) -> bool {
        let port = domain.port.unwrap_or(scheme_port(domain.tls));
        self.name == domain.name && self.tls == domain.tls && self.port == port
    }
}

fn scheme_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// The port in an authority.
fn port_of(authority: &str) -> Option<u16> {
    let end = authority.rsplit(']').next().unwrap_or_default();
    end.split_once(':').and_then(|(_, port)| port.parse().ok())
}

/// A name folded for comparison: lower case, no final dot, an address in its shortest form.
pub fn host_name(name: &str) -> String {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
    }
}

/// True if a folded name always means this machine.
pub fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// True if a folded name is the origin of a sandbox's port, `<port>-<job>.…`, whose pages come from the job.
pub fn is_job_origin(name: &str) -> bool {
    let label = name.split('.').next().unwrap_or_default();
    label.split_once('-').is_some_and(|(port, job)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !job.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_fold_to_names() {
        for (authority, name) in [
            ("localhost:8000", Some("localhost")),
            ("LocalHost.", Some("localhost")),
            ("[::1]:80", Some("::1")),
            ("[0:0:0:0:0:0:0:1]", Some("::1")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]x", None),
            ("[evil]", None),
            ("a/b", None),
            ("a:b", None),
        ] {
            assert_eq!(name_of_authority(authority).as_deref(), name, "{authority}");
        }
    }

    #[test]
    fn w14_a_job_origin_names_one_port_of_one_job_below_a_known_domain() {
        let job = "k5c7jq3l2m4n6o7p2q3r4s5t6u";
        let read = |name: &str| JobOrigin::read(&name.replace("JOB", job), &["localhost", "yard.example"]);
        for (name, port) in [("8888-JOB.localhost", 8888), ("1-JOB.yard.example", 1)] {
            let origin = read(name).unwrap();
            assert_eq!((origin.port, origin.job.as_str()), (port, job));
            assert_eq!(origin.name(name.split_once('.').unwrap().1), name.replace("JOB", job));
        }
        for name in [
            "0-JOB.localhost",
            "08-JOB.localhost",
            "65536-JOB.localhost",
            "+80-JOB.localhost",
            "-JOB.localhost",
            "80-JOBx.localhost",
            "80-JOB.evil.localhost",
            "80-JOB.localhost.evil",
            "80-JOB.evil.example",
            "80-JOB",
            "x.80-JOB.localhost",
            "80--JOB.localhost",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    #[test]
    fn domains_are_read_with_scheme_and_port() {
        let domain = |name: &str, tls, port| Some(Domain { name: name.into(), tls, port });
        assert_eq!(Domain::parse("Yard.Example"), domain("yard.example", false, None));
        assert_eq!(Domain::parse("https://yard.example/"), domain("yard.example", true, None));
        assert_eq!(Domain::parse("http://yard.example:8000"), domain("yard.example", false, Some(8000)));
        for text in ["", "ftp://x", "10.0.0.1", "[::1]", "a b", "https://", "80-x.example", "yard.example/x"]
        {
            assert_eq!(Domain::parse(text), None, "{text}");
        }
    }

    #[test]
    fn job_origins_are_recognised() {
        assert!(is_job_origin("8888-k5c7jq3l2m4n6o7p2q3r4s5t6u.localhost"));
        assert!(is_job_origin("5173-abc.yard.example"));
        assert!(!is_job_origin("localhost"));
        assert!(!is_job_origin("my-yard.example"));
    }
}
