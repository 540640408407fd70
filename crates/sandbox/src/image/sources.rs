//! Sources of Debian's packages: the host's own mirrors, if it has them for the wanted release.
//!
//! Reads both forms of apt's source files. Entries of third parties are left out: they may serve a suite of
//! the same name, but not Debian. A host of another Debian release lends its mirrors; any other host gets
//! Debian's own.

use std::fs;
use std::path::{Path, PathBuf};

/// Debian's own keyring, on Debian and on hosts with the package `debian-archive-keyring`.
pub(super) const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Names under which a host's sources may have another release of Debian.
const OTHER_RELEASES: [&str; 8] =
    ["trixie", "forky", "bullseye", "stable", "oldstable", "testing", "sid", "unstable"];

/// One repository for one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageSource {
    pub(super) uri: String,
    pub(super) suite: String,
    pub(super) components: Vec<String>,
    pub(super) keyring: Option<Keyring>,
    pub(super) trusted: bool,
}

/// Key of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Keyring {
    /// A file on the host.
    File(PathBuf),
    /// The key itself, in the source file.
    Inline(String),
}

impl PackageSource {
    /// Returns a line for `sources.list`, with the path at which the reader finds the keyring.
    pub(super) fn line(&self, keyring: Option<&Path>) -> String {
        let mut options = Vec::new();
        if let Some(keyring) = keyring {
            options.push(format!("signed-by={}", keyring.display()));
        }
        if self.trusted {
            options.push("trusted=yes".to_owned());
        }
        let options = if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
        format!("deb {options}{} {} {}", self.uri, self.suite, self.components.join(" "))
    }

    fn is_debian(&self) -> bool {
        match &self.keyring {
            None | Some(Keyring::Inline(_)) => true,
            Some(Keyring::File(path)) => {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("debian-archive"))
            }
        }
    }

    fn for_suite(&self, suite: &str) -> Self {
        Self { suite: suite.to_owned(), components: vec!["main".to_owned()], ..self.clone() }
    }
}

/// Returns the sources to build `suite` from, given the host's.
pub(super) fn choose(host: &[PackageSource], suite: &str) -> Vec<PackageSource> {
    let suites = [suite.to_owned(), format!("{suite}-updates"), format!("{suite}-security")];
    let usable: Vec<_> =
        host.iter().filter(|source| source.components.iter().any(|name| name == "main")).collect();
    let serving = |name: &str| {
        let serves = |source: &&&PackageSource| source.suite == name;
        usable.iter().filter(serves).find(|source| source.is_debian()).or_else(|| usable.iter().find(serves))
    };
    if serving(suite).is_some() {
        return suites.iter().filter_map(|name| Some(serving(name)?.for_suite(name))).collect();
    }
    let debian = |suffix: &str| {
        let names = OTHER_RELEASES.map(|release| format!("{release}{suffix}"));
        usable.iter().find(|source| source.is_debian() && names.contains(&source.suite)).copied()
    };
    match (debian(""), debian("-security")) {
        (Some(archive), Some(security)) => {
            vec![archive.for_suite(&suites[0]), archive.for_suite(&suites[1]), security.for_suite(&suites[2])]
        }
        _ => debian_defaults(&suites),
    }
}

fn debian_defaults(suites: &[String; 3]) -> Vec<PackageSource> {
    let source = |path: &str, suite: &String| PackageSource {
        uri: format!("http://deb.debian.org/{path}"),
        suite: suite.clone(),
        components: vec!["main".to_owned()],
        keyring: Some(Keyring::File(PathBuf::from(DEBIAN_KEYRING))),
        trusted: false,
    };
    vec![source("debian", &suites[0]), source("debian", &suites[1]), source("debian-security", &suites[2])]
}

/// Returns every source in the host's apt configuration below `apt` (`/etc/apt`). Unreadable files count as
/// absent.
pub(super) fn of_host(apt: &Path) -> Vec<PackageSource> {
    let mut files: Vec<_> = fs::read_dir(apt.join("sources.list.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    files.insert(0, apt.join("sources.list"));
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => sources.extend(parse_deb822(&text)),
            Some("list") => sources.extend(text.lines().filter_map(parse_line).flatten()),
            _ => {}
        }
    }
    sources.into_iter().filter_map(resolve_mirror_list).collect()
}

/// Parses `deb [signed-by=… arch=…] uri suite component…`.
fn parse_line(line: &str) -> Option<Vec<PackageSource>> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let (mut keyring, mut trusted) = (None, false);
    if let Some(inside) = rest.strip_prefix('[') {
        let (options, after) = inside.split_once(']')?;
        for option in options.split_whitespace() {
            match option.split_once('=') {
                Some(("signed-by", path)) => keyring = keyring_file(path),
                Some(("trusted", value)) => trusted = value == "yes",
                _ => {}
            }
        }
        rest = after.trim_start();
    }
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?.to_owned(), words.next()?.to_owned());
    let components = words.map(str::to_owned).collect();
    Some(vec![PackageSource { uri, suite, components, keyring, trusted }])
}

/// Parses stanzas of `Field: value`, separated by empty lines. A value continues in lines that begin with a
/// space.
fn parse_deb822(text: &str) -> Vec<PackageSource> {
    let mut sources = Vec::new();
    let text: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    for stanza in text.split("\n\n") {
        let field = |name: &str| field_of(stanza, name);
        let words = |name: &str| -> Vec<String> {
            field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let disabled = field("Enabled").is_some_and(|value| value.trim().eq_ignore_ascii_case("no"));
        if disabled || !words("Types").iter().any(|kind| kind == "deb") {
            continue;
        }
        let signed_by = field("Signed-By").unwrap_or_default();
        let keyring = match signed_by.contains("BEGIN PGP") {
            true => Some(Keyring::Inline(inline_key(&signed_by))),
            false => keyring_file(signed_by.trim()),
        };
        let trusted = field("Trusted").is_some_and(|value| value.trim() == "yes");
        for uri in words("URIs") {
            for suite in words("Suites") {
                let (uri, keyring) = (uri.clone(), keyring.clone());
                sources.push(PackageSource { uri, suite, components: words("Components"), keyring, trusted });
            }
        }
    }
    sources
}

fn field_of(stanza: &str, name: &str) -> Option<String> {
    let mut value: Option<String> = None;
    for line in stanza.lines() {
        match (&mut value, line.split_once(':')) {
            (Some(text), _) if line.starts_with([' ', '\t']) => {
                text.push('\n');
                text.push_str(line);
            }
            (Some(_), _) => break,
            (None, Some((key, rest))) if key.eq_ignore_ascii_case(name) => value = Some(rest.to_owned()),
            _ => {}
        }
    }
    value
}

/// Removes the indentation of one space; a lone dot stands for an empty line.
fn inline_key(value: &str) -> String {
    let lines = value.lines().map(str::trim).skip_while(|line| line.is_empty());
    lines.map(|line| if line == "." { "\n".to_owned() } else { format!("{line}\n") }).collect()
}

fn keyring_file(text: &str) -> Option<Keyring> {
    // Fingerprints are possible too; those keys are in the host's trusted set.
    let first = text.split([',', ' ']).next()?;
    first.starts_with('/').then(|| Keyring::File(PathBuf::from(first)))
}

/// Replaces a list of mirrors, as cloud images have, by its first mirror, since the list does not exist
/// inside the new root. Drops sources that are not on the network.
fn resolve_mirror_list(source: PackageSource) -> Option<PackageSource> {
    let uri = match source.uri.strip_prefix("mirror+file:") {
        Some(path) => {
            let path = format!("/{}", path.trim_start_matches('/'));
            let text = fs::read_to_string(path).ok()?;
            let lines = text.lines().map(|line| line.split(['#', '\t', ' ']).next().unwrap_or_default());
            lines.filter(|line| line.starts_with("http")).map(str::to_owned).next()?
        }
        None => source.uri.clone(),
    };
    (uri.starts_with("http://") || uri.starts_with("https://")).then_some(PackageSource { uri, ..source })
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
