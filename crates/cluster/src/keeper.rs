//! Keeps a server while tests use it: each use is a shared lock on one file, and the keeper looks whether anybody has one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::programs::{self, Programs};

/// Ends the server once nobody has used it for five seconds. `$1` is the folder, `$2` the lock beside it. The lock is taken before the
/// last look, as every new user does, so that no server ends under a test that has just come.
const KEEP: &str = r#"
idle=0
while :; do
    sleep 0.5
    [ -d "$1" ] || exit
    if flock --exclusive --nonblock "$1/users" true; then idle=$((idle + 1)); else idle=0; fi
    [ "$idle" -ge 10 ] || continue
    exec 9<>"$2"
    flock 9
    if flock --exclusive --nonblock "$1/users" true; then
        server=$(head -n 1 "$1/data/postmaster.pid")
        kill -QUIT "$server" 2>/dev/null
        while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
        rm -rf "$1" "$2"
        exit
    fi
    exec 9>&-
    idle=0
done
"#;

/// The use of a server. It may end some seconds after the last one is dropped.
#[derive(Debug)]
pub(crate) struct ClusterUse {
    _lock: File,
}

/// Uses the server in a folder; starts it if it is not there.
pub(crate) fn enter(folder: &Path, programs: &Programs) -> io::Result<ClusterUse> {
    loop {
        let beside = lock_path(folder);
        let lock = lock_file(&beside)?;
        lock.lock()?;
        // The keeper removes the file with the server: a lock on a file without a name is none.
        if !is_same(&lock, &beside) {
            continue;
        }
        if !is_running(folder, programs) {
            start(folder, &beside, programs)?;
        }
        let users = lock_file(&folder.join("users"))?;
        users.lock_shared()?;
        return Ok(ClusterUse { _lock: users });
    }
}

/// The folder of a server's data.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |found: io::Result<fs::Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
    identity(file.metadata()).is_some_and(|here| identity(fs::metadata(path)) == Some(here))
}

fn is_running(folder: &Path, programs: &Programs) -> bool {
    folder.join("users").exists() && programs.run("pg_isready", folder, &["--quiet"])
}

fn start(folder: &Path, beside: &Path, programs: &Programs) -> io::Result<()> {
    // Left by a machine that stopped: no server runs in it.
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir(folder)?;
    programs.own(folder)?;
    let data = data(folder);
    let failed = |what| io::Error::other(format!("{what} failed; see {}/log", folder.display()));
    if !programs.init(&data) {
        return Err(failed("initdb"));
    }
    if !programs.control(&data, folder, &["start"]) {
        return Err(failed("pg_ctl start"));
    }
    drop(lock_file(&folder.join("users"))?);
    let started = programs::detached_shell(KEEP, &[folder, beside]).status()?;
    if started.success() { Ok(()) } else { Err(failed("the keeper's shell")) }
}
