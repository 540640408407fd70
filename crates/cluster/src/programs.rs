//! The programs of PostgreSQL, run as a user that it accepts: it refuses root.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the database's superuser, whoever runs the server.
pub(crate) const SUPERUSER: &str = "sandyard";

/// Settings of a server that forgets everything anyway: no syncs, and enough connections for a whole suite.
const SETTINGS: &str = "-c listen_addresses= -c fsync=off -c max_connections=200 -c shared_buffers=32MB";

/// User of Debian's package, whose programs are there if the user is.
const PACKAGE_USER: &str = "postgres";

/// Folders of versions on Debian, and of other systems.
const PLACES: [&str; 2] = ["/usr/lib/postgresql", "/usr/local"];

#[derive(Debug, Clone)]
pub(crate) struct Programs {
    folder: PathBuf,
    /// Set if this process is root.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Looks for the newest installed version.
    pub(crate) fn find() -> Option<Self> {
        let [versions, other] = PLACES.map(PathBuf::from);
        let mut found: Vec<(u32, PathBuf)> = fs::read_dir(versions)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .collect();
        found.sort_unstable();
        let candidates = found.into_iter().rev().map(|(_, path)| path).chain([other.join("bin")]);
        let folder = candidates.into_iter().find(|folder| folder.join("initdb").exists())?;
        let is_root = rustix::process::geteuid().is_root();
        Some(Self { folder, user: is_root.then(unprivileged_user) })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives a path to the server's user.
    pub(crate) fn own(&self, path: &Path) -> io::Result<()> {
        match self.user {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    /// Makes the files of a server.
    pub(crate) fn init(&self, data: &Path) -> bool {
        let mut command = self.command("initdb");
        command.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER]);
        succeeds(command.arg("--pgdata").arg(data))
    }

    /// Runs `pg_ctl` for a server.
    pub(crate) fn control(&self, data: &Path, folder: &Path, arguments: &[&str]) -> bool {
        let options = format!("{SETTINGS} -c unix_socket_directories={}", folder.display());
        let mut command = self.command("pg_ctl");
        command.args(arguments).args(["--wait", "--silent", "--options", &options]);
        succeeds(command.arg("--log").arg(folder.join("log")).arg("--pgdata").arg(data))
    }

    /// Runs a client of the server in a folder.
    pub(crate) fn run(&self, program: &str, folder: &Path, arguments: &[&str]) -> bool {
        succeeds(
            self.command(program).arg("--host").arg(folder).args(["--username", SUPERUSER]).args(arguments),
        )
    }

    /// Runs a client of the server in a folder and returns what it prints.
    pub(crate) fn output(&self, program: &str, folder: &Path, arguments: &[&str]) -> String {
        let mut command = self.command(program);
        command.arg("--host").arg(folder).args(["--username", SUPERUSER]).args(arguments);
        let output = command.stdout(Stdio::piped()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

/// A shell in a session of its own, with this process's user: it outlives the test.
pub(crate) fn detached_shell(script: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--fork", "sh", "-c", script, "keeper"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

/// The package's user, or nobody.
fn unprivileged_user() -> (u32, u32) {
    const NOBODY: (u32, u32) = (65_534, 65_534);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        let (user, group) = (parts.nth(1)?.parse().ok()?, parts.next()?.parse().ok()?);
        (name == PACKAGE_USER).then_some((user, group))
    });
    user.unwrap_or(NOBODY)
}
