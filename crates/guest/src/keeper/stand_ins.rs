//! Programs that stand before others on the job's PATH, and say what to do instead of what can't work in a sandbox.
//!
//! Whoever works here, a person or a model, tries `apt install` and `sudo` first, and learns little from a lock file that can't be
//! opened. What does work (`apt list`, `apt-cache`) is passed on.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Where they are, below keeper's folder of scripts; on the PATH of everything that runs.
const FOLDER: &str = "bin";

/// Each with the names it goes by.
const PROGRAMS: [(&[&str], &str); 2] =
    [(&["apt", "apt-get"], include_str!("stand_ins/apt.sh")), (&["sudo"], include_str!("stand_ins/sudo.sh"))];

/// Writes them. Without them nothing is lost but words.
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
            let (code, told) = run(name, arguments);
            assert_eq!(code, Some(100), "{name} {arguments:?}");
            assert!(told.contains("image build --with"), "{told}");
        }
        let (code, told) = run("sudo", &["ls", "/"]);
        assert!(code == Some(1) && told.contains("no root"), "{told}");
    }
}
