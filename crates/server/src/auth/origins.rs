//! Names in `Host` and `Origin` headers. Names are compared, not ports, so that a tunnel on another port works.

use std::net::IpAddr;

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

/// The name in an `Origin` header; `None` for `null` and everything that is not a web page's origin.
pub fn name_of_origin(origin: &str) -> Option<String> {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    name_of_authority(authority)
}

/// A name folded for comparison: lower case, no final dot, an address in its shortest form.
pub fn host_name(name: &str) -> String {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
    }
}

/// Whether a folded name always means this machine.
pub fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a folded name is an origin of a sandbox's port, `<port>-<job>.…`, whose pages are the job's.
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
    fn job_origins_are_recognised() {
        assert!(is_job_origin("8888-k5c7jq3l2m4n6o7p2q3r4s5t6u.localhost"));
        assert!(is_job_origin("5173-abc.yard.example"));
        assert!(!is_job_origin("localhost"));
        assert!(!is_job_origin("my-yard.example"));
    }
}
