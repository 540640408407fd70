//! Workspaces in memory, as the kernel lists them: the mounts of the yard's namespace are the only record of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::super::launcher::messages::MEMORY_SOURCE;

/// Returns the folders of workspaces with their first ids, from `/proc/<pid>/mountinfo`;
/// proc_pid_mountinfo(5) has the fields.
pub(super) fn parse(mountinfo: &str) -> BTreeMap<PathBuf, u32> {
    let workspace = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let source = file_system.split(' ').nth(1)?;
        let base = source.strip_prefix(MEMORY_SOURCE)?.parse().ok()?;
        Some((unescape(mount.split(' ').nth(4)?), base))
    };
    mountinfo.lines().filter_map(workspace).collect()
}

/// Decodes the kernel's escapes: space, tab, newline and backslash are a backslash and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = text.bytes();
    let mut path = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits = bytes.by_ref().take(3);
            path.push(digits.fold(0, |value: u8, digit| value.wrapping_mul(8) + (digit & 7)));
        } else {
            path.push(byte);
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_are_told_from_other_mounts() {
        let text = "\
22 1 0:5 / /proc rw - proc proc rw
30 22 0:40 / /home/ann/jobs/a\\040b\\134/workspace rw,nosuid - tmpfs sandyard:9 rw,size=4096k
31 22 0:41 / /tmp rw - tmpfs tmpfs rw
32 22 0:42 / /x rw - tmpfs sandyard:x rw
";
        let found = parse(text);
        assert_eq!(found, BTreeMap::from([(PathBuf::from("/home/ann/jobs/a b\\/workspace"), 9)]));
    }
}
