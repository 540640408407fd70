//! The subordinate ids of a user: `/etc/subuid` and `/etc/subgid`, as subuid(5) describes them.

use std::fs;

use crate::host::sandboxes::ids::{IDS_PER_BLOCK, Supply};

/// Smallest number of sandboxes that a range of ids must allow at once.
const MIN_SANDBOXES: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdRange {
    /// First id, in the numbering of the host.
    pub(super) first: u32,
    pub(super) count: u32,
}

/// Users and groups that one user may map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SubordinateIds {
    pub(super) users: IdRange,
    pub(super) groups: IdRange,
}

impl SubordinateIds {
    /// Returns the ids that the sandboxes of a yard may use.
    pub(super) fn supply(&self) -> Supply {
        let count = self.users.count.min(self.groups.count);
        Supply::Subordinate { first: self.users.first, count }
    }
}

/// Returns the largest range that a file gives a user, if it is large enough for a yard.
pub(super) fn range_in(file: &str, user: u32) -> Option<IdRange> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    largest(&fs::read_to_string(file).unwrap_or_default(), user, name_of(&passwd, user))
}

fn largest(text: &str, user: u32, name: Option<&str>) -> Option<IdRange> {
    let number = user.to_string();
    let range = |line: &str| {
        let mut fields = line.trim().split(':');
        let owner = fields.next()?;
        let (first, count) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (owner == number || Some(owner) == name).then_some(IdRange { first, count })
    };
    let found = text.lines().filter_map(range).max_by_key(|range| range.count);
    found.filter(|range| range.count >= MIN_SANDBOXES * IDS_PER_BLOCK && range.first > 0)
}

fn name_of(passwd: &str, user: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_by_number_and_the_largest_is_taken() {
        let text = "root:1:65536\nann:100000:64\nann:300000:65536\n1001:500000:1000\n";
        assert_eq!(largest(text, 1000, Some("ann")), Some(IdRange { first: 300_000, count: 65_536 }));
        assert_eq!(largest(text, 1001, None), Some(IdRange { first: 500_000, count: 1000 }));
        assert_eq!(largest(text, 1002, Some("bob")), None);
        assert_eq!(largest("ann:100000:63\n", 1000, Some("ann")), None);
        assert_eq!(largest("ann:x:65536\nann\n", 1000, Some("ann")), None);
    }

    #[test]
    fn a_users_name_comes_from_its_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!((name_of(passwd, 1000), name_of(passwd, 7)), (Some("ann"), None));
    }
}
