//! Kernel threads that tick for machines with KVM, `kvm-pit/<pid>` (R22).
//!
//! KVM makes one for each machine, on behalf of its monitor but outside of all control groups, so its
//! processor time would be charged to no sandbox. Its name has the monitor's pid as the monitor itself sees
//! it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Returns the timer threads of monitors that see themselves under this pid.
pub(crate) fn of(pid: i32) -> io::Result<BTreeSet<i32>> {
    named(&format!("kvm-pit/{pid}"), Path::new("/proc"))
}

fn named(name: &str, proc: &Path) -> io::Result<BTreeSet<i32>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The thread may have ended since.
        if fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.insert(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_their_whole_name() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name) in
            [("7", "kvm-pit/1\n"), ("8", "kvm-pit/17\n"), ("9", "bash\n"), ("self", "kvm-pit/1\n")]
        {
            fs::create_dir(proc.path().join(pid)).unwrap();
            fs::write(proc.path().join(pid).join("comm"), name).unwrap();
        }
        fs::create_dir(proc.path().join("10")).unwrap();
        assert_eq!(named("kvm-pit/1", proc.path()).unwrap(), BTreeSet::from([7]));
    }
}
