//! Programs that come before others on the job's PATH and explain what to do instead of a command that can't work in a sandbox.
//!
//! A person or a model that works in the sandbox tries `apt install` and `sudo` first, and learns little from "can't open the lock
//! file". Commands that do work (`apt list`, `apt-cache`) are passed on.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Their directory below keeper's directory of scripts. It is on the PATH of every process.
const FOLDER: &str = "bin";

/// The names of each program, and its text.
const PROGRAMS: [(&[&str], &str); 2] = [
    (&["apt", "apt-get"], include_str!("command_hints/apt.sh")),
    (&["sudo"], include_str!("command_hints/sudo.sh")),
];

/// Writes the programs. Without them a job merely gets less helpful messages.
pub(super) fn write(scripts: &Path) -> io::Result<()> {
    let folder = scripts.join(FOLDER);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for (names, text) in PROGRAMS {
        for name in names {
            let path = folder.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_would_change_the_system_is_explained_and_the_rest_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        write(folder.path()).unwrap();
        let run = |name: &str, arguments: &[&str]| {
            let program = folder.path().join(FOLDER).join(name);
            let output = Command::new(program).args(arguments).env("PATH", "/usr/bin:/bin").output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        for (name, arguments) in [
            ("apt", &["install", "jq"][..]),
            ("apt-get", &["-y", "-o", "A::B=1", "install", "jq"]),
            ("apt-get", &["update"]),
            ("sudo", &["-E", "apt-get", "update"]),
        ] {
            let (code, message) = run(name, arguments);
            assert_eq!(code, Some(100), "{name} {arguments:?}");
            assert!(message.contains("image build --with"), "{message}");
        }
        let (code, message) = run("sudo", &["ls", "/"]);
        assert!(code == Some(1) && message.contains("no root"), "{message}");
    }
}
