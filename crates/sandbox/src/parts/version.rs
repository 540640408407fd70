//! Versions of runtimes, and whether one is new enough.

use std::fmt;

/// Major, minor, patch. Dates, as gVisor numbers its releases, are year, month, day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// From its numbers.
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version in the first line of what a runtime says of itself: `runc version 1.3.6`, `kata-runtime  : 3.2.0`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        Self::parse(text.lines().next()?.split_whitespace().nth(2)?)
    }

    /// `1.1.5+ds1`, `1.4.0-rc.2`, `release-20250113.0`. A version that is not finished counts as the one before it.
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
        Some(if word.contains("-rc") { version.before() } else { version })
    }

    fn before(self) -> Self {
        match (self.minor, self.patch) {
            (0, 0) => Self::new(self.major.saturating_sub(1), u32::MAX, u32::MAX),
            (minor, 0) => Self::new(self.major, minor - 1, u32::MAX),
            (minor, patch) => Self::new(self.major, minor, patch - 1),
        }
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
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
