//! Confines a server that was root, beyond its user: files by Landlock, system calls by seccomp. Called before the process has a
//! second thread.
//!
//! The server writes to its yard, reads what name resolution and TLS need, and executes nothing but this program, for workers that
//! inherit all of this. It may open connections anywhere: the gateways that judge them are in this process.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use sandyard_sys::seccomp::{self, FilterProfile};

/// The newest version of Landlock whose rights were reviewed.
const NEWEST: ABI = ABI::V7;
/// Folders that are read: names and certificates, libraries that resolve names, and facts of the host. Whole folders, because
/// programs replace the files in them, and a rule would stay with the old one.
const READ: [&str; 7] = ["/etc", "/usr/lib", "/usr/share", "/lib", "/lib64", "/proc", "/sys"];
/// File with the host's name servers.
const RESOLVER: &str = "/etc/resolv.conf";
/// Devices that are read and written.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/urandom", "/dev/random"];
/// This program, and the loaders that the kernel executes for it.
const EXECUTED: [&str; 5] = [
    "/proc/self/exe",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Confines this process, its threads and its children. `writable` are its own folders and files, `readable` certificates and
/// keys that the operator put elsewhere. Needs no-new-privileges.
pub(super) fn confine(writable: &[&Path], readable: &[&Path]) -> io::Result<()> {
    match restrict(writable, readable)? {
        RulesetStatus::NotEnforced => {
            tracing::warn!(
                "this kernel has no Landlock: only its user keeps the server from files of others"
            );
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
    }
    // Last, because it refuses some of the calls above.
    seccomp::install(FilterProfile::Server).map_err(io::Error::other)
}

fn restrict(writable: &[&Path], readable: &[&Path]) -> io::Result<RulesetStatus> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let executed = AccessFs::ReadFile | AccessFs::Execute;
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all);
    let rules = rules.and_then(|rules| rules.scope(Scope::from_all(NEWEST)));
    let mut rules = rules.and_then(landlock::Ruleset::create).map_err(io::Error::other)?;
    for path in writable {
        rules = allow(rules, path, all)?;
    }
    // A link on many hosts, into a folder of the program that writes it.
    let resolver = std::fs::canonicalize(RESOLVER).ok();
    let resolver = resolver.as_deref().and_then(Path::parent);
    for path in readable.iter().copied().chain(resolver) {
        rules = allow(rules, path, read)?;
    }
    let lists: [(&[&str], BitFlags<AccessFs>); 3] =
        [(&READ, read), (&DEVICES, device), (&EXECUTED, executed)];
    for (paths, access) in lists {
        for path in paths {
            rules = allow(rules, Path::new(path), access)?;
        }
    }
    Ok(rules.restrict_self().map_err(io::Error::other)?.ruleset)
}

/// Allows the access to a path, if it is there. Rights that only folders have are left out for a file.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let Ok(parent) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(parent, access)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::net::{UnixListener, UnixStream};

    use sandyard_sandbox::warden::ServerUser;

    use super::super::privileges;
    use super::*;

    const SERVER: ServerUser = ServerUser { uid: 65_530, gid: 65_530 };

    fn refused<T>(tried: io::Result<T>) -> Option<io::ErrorKind> {
        tried.err().map(|error| error.kind())
    }

    /// On a thread of its own, which keeps nothing of root: the filter and the rules are a thread's too.
    #[test]
    fn a_confined_server_reaches_its_yard_and_nothing_else() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let denied = Some(io::ErrorKind::PermissionDenied);
        let home = tempfile::tempdir().unwrap();
        // Open to everybody but for Landlock.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (data, engine) = (home.path().join("data"), home.path().join("engine.sock"));
        fs::create_dir(&data).unwrap();
        chown(&data, Some(SERVER.uid), Some(SERVER.gid)).unwrap();
        fs::write(home.path().join("others"), "secret").unwrap();
        let root_certificate = home.path().join("root.pem");
        fs::write(&root_certificate, "certificate").unwrap();
        // As an engine's: for root and its group.
        let _listener = UnixListener::bind(&engine).unwrap();
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o660)).unwrap();
        let path = home.path().to_owned();
        let inside = std::thread::spawn(move || {
            privileges::become_user(SERVER).unwrap();
            confine(&[&data], &[&root_certificate]).unwrap();
            assert_eq!(fs::read_to_string(&root_certificate).unwrap(), "certificate");
            assert_eq!(refused(fs::write(&root_certificate, "")), denied);
            fs::write(data.join("yard.db"), "kept").unwrap();
            fs::create_dir(data.join("jobs")).unwrap();
            fs::rename(data.join("yard.db"), data.join("jobs/renamed")).unwrap();
            fs::read_to_string("/etc/hosts").unwrap();
            fs::read_to_string("/proc/meminfo").unwrap();
            assert_eq!(refused(fs::read("/etc/shadow")), denied);
            assert_eq!(refused(fs::read(path.join("others"))), denied);
            assert_eq!(refused(fs::write(path.join("made"), "")), denied);
            assert_eq!(refused(fs::read_dir("/root")), denied);
            assert_eq!(refused(UnixStream::connect(&engine)), denied);
            assert_eq!(refused(std::process::Command::new("/usr/bin/id").output()), denied);
            assert_eq!(
                refused(rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(Into::into)),
                denied
            );
            assert_eq!(refused(rustix::process::chroot("/").map_err(Into::into)), denied);
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.lines().any(|line| line == "Seccomp:\t2"), "{status}");
        });
        inside.join().unwrap();
    }
}
