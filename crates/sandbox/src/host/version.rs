//! Versions of runtimes and virtual machine monitors, and the oldest that may be used.

use semver::{Prerelease, Version};

/// The oldest versions of runc without known holes, one for each line that is maintained (CVE-2026-41579).
pub(crate) const RUNC_FLOORS: &[Version] =
    &[Version::new(1, 3, 6), Version::new(1, 4, 3), Version::new(1, 5, 0)];
/// The oldest version of crun without known holes (CVE-2026-88265).
pub(crate) const CRUN_FLOORS: &[Version] = &[Version::new(1, 30, 0)];
/// The oldest versions of Firecracker whose jailer can't be led by planted links to overwrite files of the host (CVE-2026-1386).
pub(crate) const FIRECRACKER_FLOORS: &[Version] = &[Version::new(1, 13, 2), Version::new(1, 14, 1)];

/// Returns the version in the first line of a runtime's `--version`: `runc version 1.3.6`, `kata-runtime  : 3.2.0`.
pub(crate) fn find(text: &str) -> Option<Version> {
    parse(text.lines().next()?.split_whitespace().nth(2)?)
}

/// Parses `1.30`, `1.1.5+ds1`, `1.4.0-rc.2` and `release-20250113.0`, which semver's own parser rejects or reads differently.
/// Suffixes of distributions count for nothing. Dates, by which gVisor numbers its releases, are year, month and day.
pub(crate) fn parse(word: &str) -> Option<Version> {
    let word = word.strip_prefix("release-").unwrap_or(word);
    let plain = word.split(['+', '-', '~']).next()?;
    let mut numbers = plain.split('.').map(str::parse::<u64>);
    let first = numbers.next()?.ok()?;
    // Eight digits or more are a date.
    if first >= 10_000_000 {
        return Some(Version::new(first / 10_000, first / 100 % 100, first % 100));
    }
    let mut next = || numbers.next().map_or(Some(0), Result::ok);
    let mut version = Version::new(first, next()?, next()?);
    if word.contains("-rc") {
        // A release candidate comes before the release and lacks its fixes.
        version.pre = Prerelease::new("rc").ok()?;
    }
    Some(version)
}

/// Reports whether a version is at or above the floor of its own line, or above all lines. Floors rise.
pub(crate) fn meets(version: &Version, floors: &[Version]) -> bool {
    let line = |floor: &&Version| (floor.major, floor.minor) == (version.major, version.minor);
    match floors.iter().find(line) {
        Some(floor) => version >= floor,
        None => floors.last().is_none_or(|newest| version > newest),
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
            assert_eq!(find(text), expected, "{text}");
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
            let version = parse(text).unwrap();
            assert_eq!(meets(&version, floors), expected, "{floors:?} {text}");
        }
    }
}
