//! The hosts that a job may reach: names are compared label by label, ports exactly; everything else is denied.

use std::fmt;
use std::net::IpAddr;

use super::presets;

/// Ports of a rule that names none.
const WEB_PORTS: [u16; 2] = [80, 443];
/// Longest DNS name (RFC 1035).
const MAX_NAME_BYTES: usize = 253;
/// Longest label of a DNS name (RFC 1035).
const MAX_LABEL_BYTES: usize = 63;

/// Host and port that a sandbox asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EgressTarget {
    /// Lower case, without a final dot.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A host that is not a plain DNS name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHost {
    /// A literal address. Policies are about names.
    #[error("addresses can't be connected to, only names")]
    Address,
    /// Not a valid DNS name.
    #[error("the host is not a valid name")]
    Malformed,
}

impl EgressTarget {
    /// Makes a target from a host in any case, with or without a final dot.
    pub(crate) fn new(host: &str, port: u16) -> Result<Self, BadHost> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        // Before the name: resolvers accept spellings of addresses that look like names, and an address has no rule.
        if is_address(&host) {
            return Err(BadHost::Address);
        }
        if !is_name(&host) || port == 0 {
            return Err(BadHost::Malformed);
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for EgressTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// True for everything that a resolver might read as an address, also `127.1`, `0x7f000001` and `2130706433`.
fn is_address(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let last = host.rsplit('.').next().unwrap_or_default();
    let number = last.strip_prefix("0x").map_or_else(
        || last.bytes().all(|byte| byte.is_ascii_digit()),
        |digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
    );
    bare.parse::<IpAddr>().is_ok() || (!last.is_empty() && number)
}

fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= MAX_LABEL_BYTES
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    !host.is_empty() && host.len() <= MAX_NAME_BYTES && host.split('.').all(label)
}

/// One rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EgressRule {
    /// The name, without a leading `*.`.
    host: String,
    /// True for `*.host`: names below the host, not the host itself.
    below: bool,
    port: Option<u16>,
}

/// The text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `host`, `host:port`, `*.host` or a preset such as `packages`")]
pub(crate) struct BadEgressRule(String);

impl EgressRule {
    fn parse(text: &str) -> Result<Self, BadEgressRule> {
        let bad = || BadEgressRule(text.chars().take(80).collect());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let (host, below) = host.strip_prefix("*.").map_or((host, false), |host| (host, true));
        let target = EgressTarget::new(host, port.unwrap_or(1)).map_err(|_| bad())?;
        // `*.com` would allow almost everything.
        if below && !target.host.contains('.') {
            return Err(bad());
        }
        Ok(Self { host: target.host, below, port })
    }

    fn allows(&self, target: &EgressTarget) -> bool {
        let host = match target.host.strip_suffix(&self.host) {
            Some("") => !self.below,
            // The rest must end with a dot, or `*.github.com` would allow `evilgithub.com`.
            Some(rest) => self.below && rest.ends_with('.'),
            None => false,
        };
        host && self.port.map_or_else(|| WEB_PORTS.contains(&target.port), |port| port == target.port)
    }
}

/// The hosts that a job may reach; by default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EgressPolicy {
    rules: Vec<EgressRule>,
}

impl EgressPolicy {
    /// Parses a list of rules and presets.
    pub(crate) fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, BadEgressRule> {
        let mut policy = Self::default();
        for text in rules {
            for rule in presets::hosts(text).unwrap_or_else(|| vec![text]) {
                policy.rules.push(EgressRule::parse(rule)?);
            }
        }
        Ok(policy)
    }

    /// True if a rule allows the target.
    pub(crate) fn allows(&self, target: &EgressTarget) -> bool {
        self.rules.iter().any(|rule| rule.allows(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rules: &[&str], host: &str, port: u16) -> bool {
        let policy = EgressPolicy::parse(rules.iter().copied()).unwrap();
        EgressTarget::new(host, port).is_ok_and(|target| policy.allows(&target))
    }

    #[test]
    fn n3_an_empty_list_denies_everything() {
        assert!(!allows(&[], "github.com", 443));
    }

    #[test]
    fn n4_names_match_label_by_label() {
        for (rule, host, port, expected) in [
            ("github.com", "github.com", 443, true),
            ("github.com", "GITHUB.com.", 443, true),
            ("github.com", "github.com", 80, true),
            ("github.com", "github.com", 22, false),
            ("github.com:22", "github.com", 22, true),
            ("github.com:22", "github.com", 443, false),
            ("github.com", "evil-github.com", 443, false),
            ("github.com", "github.com.evil", 443, false),
            ("github.com", "api.github.com", 443, false),
            ("*.github.com", "api.github.com", 443, true),
            ("*.github.com", "a.b.github.com", 443, true),
            ("*.github.com", "github.com", 443, false),
            ("*.github.com", "evilgithub.com", 443, false),
            ("bücher.example", "xn--bcher-kva.example", 443, false),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", 443, true),
        ] {
            let allowed = EgressPolicy::parse([rule]).is_ok() && allows(&[rule], host, port);
            assert_eq!(allowed, expected, "{rule} {host}:{port}");
        }
    }

    #[test]
    fn n2_n5_literal_addresses_are_no_names_in_any_spelling() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "[::1]",
            "::1",
            "[::ffff:7f00:1]",
            "1.2.3.0x4",
        ] {
            assert_eq!(EgressTarget::new(host, 80), Err(BadHost::Address), "{host}");
        }
    }

    #[test]
    fn malformed_hosts_and_rules_are_refused() {
        for host in ["", ".", "a..b", "-a.com", "a b", "a\0b", "a/b", "user@host", "a:80", &"a.".repeat(200)]
        {
            assert!(EgressTarget::new(host, 80).is_err(), "{host:?}");
        }
        for rule in [
            "",
            "*",
            "*.com",
            "https://github.com",
            "github.com:",
            "github.com:0",
            "github.com:99999",
            "10.0.0.1",
        ] {
            assert!(EgressPolicy::parse([rule]).is_err(), "{rule:?}");
        }
    }

    #[test]
    fn the_packages_preset_reaches_registries() {
        for host in ["pypi.org", "registry.npmjs.org", "index.crates.io", "raw.githubusercontent.com"] {
            assert!(allows(&["packages"], host, 443), "{host}");
        }
        assert!(!allows(&["packages"], "example.com", 443));
    }
}
