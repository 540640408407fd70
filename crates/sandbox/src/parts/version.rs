//! Versions of runtimes, and whether one is new enough.

use std::fmt;

/// The oldest versions of runc without known holes, one for each line that is maintained (CVE-2026-41579).
pub(crate) const RUNC_FLOORS: &[Version] =
    &[Version::new(1, 3, 6), Version::new(1, 4, 3), Version::new(1, 5, 0)];
/// The same of crun (CVE-2026-88265).
pub(crate) const CRUN_FLOORS: &[Version] = &[Version::new(1, 30, 0)];

/// Major, minor, patch. Dates, as gVisor numbers its releases, are year, month, day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
    /// Candidates come before what they become.
    released: bool,
}

impl Version {
    /// From its numbers.
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch, released: true }
    }

    /// The version in the first line of what a runtime says of itself: `runc version 1.3.6`, `kata-runtime  : 3.2.0`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        Self::parse(text.lines().next()?.split_whitespace().nth(2)?)
    }

    /// `1.1.5+ds1`, `1.4.0-rc.2`, `release-20250113.0`.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let word = word.strip_prefix("release-").unwrap_or(word);
        let plain = word.split(['+', '-', '~']).next()?;
        let mut numbers = plain.split('.').map(str::parse::<u32>);
        let first = numbers.next()?.ok()?;
        if first >= 10_000_000 {
            return Some(Self::new(first / 10_000, first / 100 % 100, first % 100));
        }
        let mut next = || numbers.next().map_or(Some(0), Result::ok);
        let version = Self::new(first, next()?, next()?);
        Some(Self { released: !word.contains("-rc"), ..version })
    }

    /// Whether it is at or above the floor of its own line, or above all lines. Floors rise.
    pub(crate) fn meets(self, floors: &[Self]) -> bool {
        let line = |floor: &&Self| (floor.major, floor.minor) == (self.major, self.minor);
        match floors.iter().find(line) {
            Some(floor) => self >= *floor,
            None => floors.last().is_none_or(|newest| self > *newest),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let candidate = if self.released { "" } else { "-rc" };
        write!(formatter, "{}.{}.{}{candidate}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_runtimes_say() {
        let table = [
            ("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\n", Some((1, 1, 5))),
            ("crun version 1.30\ncommit: abc\n", Some((1, 30, 0))),
            ("runsc version release-20250113.0\nspec: 1.1.0-rc.1\n", Some((2025, 1, 13))),
            ("runsc version 0.0~20221219.0\nspec: 1.0.2\n", Some((0, 0, 0))),
            ("kata-runtime  : 3.2.0\n   commit   : abc\n   OCI specs: 1.0.2-dev\n", Some((3, 2, 0))),
            ("runc version", None),
            ("runc version one.two", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(major, minor, patch)| Version::new(major, minor, patch));
            assert_eq!(Version::find(text), expected, "{text}");
        }
    }

    #[test]
    fn only_versions_with_the_fixes_meet_the_floors() {
        let table = [
            (RUNC_FLOORS, "1.1.5", false),
            (RUNC_FLOORS, "1.1.15", false),
            (RUNC_FLOORS, "1.2.8", false),
            (RUNC_FLOORS, "1.3.5", false),
            (RUNC_FLOORS, "1.3.6", true),
            (RUNC_FLOORS, "1.4.2", false),
            (RUNC_FLOORS, "1.4.3", true),
            (RUNC_FLOORS, "1.5.0-rc.3", false),
            (RUNC_FLOORS, "1.5.0", true),
            (RUNC_FLOORS, "1.6.0", true),
            (RUNC_FLOORS, "2.0.0", true),
            (CRUN_FLOORS, "1.8.1", false),
            (CRUN_FLOORS, "1.28", false),
            (CRUN_FLOORS, "1.30", true),
            (CRUN_FLOORS, "1.31", true),
        ];
        for (floors, text, expected) in table {
            let version = Version::parse(text).unwrap();
            assert_eq!(version.meets(floors), expected, "{floors:?} {text}");
        }
    }
}
