//! A moment of Debian's archive, for builds that can be repeated.
//!
//! Debian keeps every state of its archive at snapshot.debian.org. Sources of such a moment give the same versions on every
//! day, also versions that were replaced since.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::sources::{DEBIAN_KEYRING, Keyring, PackageSource};

/// Address below which the service keeps each archive, under its moments.
pub(super) const SERVICE: &str = "http://snapshot.debian.org/archive";

/// A moment of Debian's archive, as the service writes it: `20261101T000000Z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArchiveSnapshot(String);

impl ArchiveSnapshot {
    /// Parses a date (`20261101`, its first second) or a moment (`20261101T083000Z`).
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.strip_suffix('Z') {
            Some(moment) => moment.split_once('T')?,
            None => (text, "000000"),
        };
        let is_number = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(date, 8) || !is_number(time, 6) {
            return None;
        }
        let within = |text: &str, least: u8, greatest: u8| {
            text.parse().is_ok_and(|number: u8| (least..=greatest).contains(&number))
        };
        let is_moment = within(&date[4..6], 1, 12)
            && within(&date[6..], 1, 31)
            && within(&time[..2], 0, 23)
            && within(&time[2..4], 0, 59)
            && within(&time[4..], 0, 59);
        is_moment.then(|| Self(format!("{date}T{time}Z")))
    }

    /// Returns the moment as the service writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the sources of a suite at that moment. The service redirects to the last state before it.
    pub(super) fn sources(&self, suite: &str) -> Vec<PackageSource> {
        let source = |archive: &str, suite: String| PackageSource {
            uri: format!("{SERVICE}/{archive}/{self}/"),
            suite,
            components: vec!["main".to_owned()],
            keyring: Some(Keyring::File(PathBuf::from(DEBIAN_KEYRING))),
            trusted: false,
        };
        vec![
            source("debian", suite.to_owned()),
            source("debian", format!("{suite}-updates")),
            source("debian-security", format!("{suite}-security")),
        ]
    }

    /// Returns apt's options for these sources: lists of an old state have expired.
    pub(super) fn apt_options() -> [String; 1] {
        ["Acquire::Check-Valid-Until \"false\"".to_owned()]
    }
}

impl fmt::Display for ArchiveSnapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_and_a_moment_are_read() {
        let text = |text: &str| ArchiveSnapshot::parse(text).map(|snapshot| snapshot.to_string());
        assert_eq!(text("20261101").as_deref(), Some("20261101T000000Z"));
        assert_eq!(text("20261101T083000Z").as_deref(), Some("20261101T083000Z"));
        for wrong in [
            "",
            "2026-11-01",
            "20261301",
            "20261132",
            "20261101T2500Z",
            "20261101T250000Z",
            "20261101Z",
            "２０２６１１０１",
        ] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sources_are_those_of_the_moment() {
        let lines: Vec<_> = ArchiveSnapshot::parse("20261101")
            .unwrap()
            .sources("bookworm")
            .iter()
            .map(|source| source.line(None))
            .collect();
        assert_eq!(
            lines,
            [
                "deb http://snapshot.debian.org/archive/debian/20261101T000000Z/ bookworm main",
                "deb http://snapshot.debian.org/archive/debian/20261101T000000Z/ bookworm-updates main",
                "deb http://snapshot.debian.org/archive/debian-security/20261101T000000Z/ bookworm-security main",
            ]
        );
    }
}
