//! Which Firecracker is there: its programs, their version, and whether that may be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    /// The machine monitor.
    pub(super) firecracker: PathBuf,
    /// What locks it up.
    pub(super) jailer: PathBuf,
    /// Their version.
    pub(super) version: Version,
}

/// `major.minor.patch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// Why they can't be used, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lack {
    /// What is missing.
    pub(super) detail: String,
    /// What a person can do about it.
    pub(super) fix: String,
}

/// Where to get it: no distribution has a package of it.
const GET_IT: &str =
    "put a release of Firecracker, 1.14.1 or later, on the PATH, or name it: drivers.firecracker.program";

impl Lack {
    /// A program that is nowhere to be found.
    pub(super) fn program(name: &str) -> Self {
        Self { detail: format!("{name} is not on the PATH"), fix: GET_IT.to_owned() }
    }
}

impl Version {
    /// Reads `Firecracker v1.16.1` and the like.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
        let numbers = word.split(|letter: char| !letter.is_ascii_digit());
        let mut numbers = numbers.map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { major: next()?, minor: next()?, patch: next()? })
    }

    /// Whether it can be told how fast a guest may write to its console.
    pub(super) fn limits_console(self) -> bool {
        self >= Self { major: 1, minor: 16, patch: 0 }
    }

    /// Whether its jailer can be led by planted links to overwrite files of the host (CVE-2026-1386, fixed in 1.13.2 and 1.14.1).
    pub(super) fn is_outdated(self) -> bool {
        match (self.major, self.minor) {
            (1, 13) => self.patch < 2,
            _ => self < Self { major: 1, minor: 14, patch: 1 },
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Programs {
    /// Asks the programs themselves.
    pub(super) fn find(firecracker: &Path, jailer: &Path) -> Result<Self, Lack> {
        let (version, jailers) = (version_of(firecracker)?, version_of(jailer)?);
        if version.is_outdated() {
            return Err(Lack {
                detail: format!(
                    "Firecracker {version} is outdated: its jailer follows planted links (CVE-2026-1386)"
                ),
                fix: GET_IT.to_owned(),
            });
        }
        if jailers != version {
            return Err(Lack {
                detail: format!("jailer is of version {jailers} and Firecracker of {version}"),
                fix: "install both of one release".to_owned(),
            });
        }
        let whole = |path: &Path| std::fs::canonicalize(path).map_err(|error| lack(path, &error));
        Ok(Self { firecracker: whole(firecracker)?, jailer: whole(jailer)?, version })
    }

    /// The name that the jailer gives to the program and to the folder of its jails.
    pub(super) fn name(&self) -> &str {
        self.firecracker.file_name().and_then(|name| name.to_str()).unwrap_or("firecracker")
    }
}

fn version_of(program: &Path) -> Result<Version, Lack> {
    let asked = Command::new(program).arg("--version").env_clear().stdin(Stdio::null()).output();
    let output = asked.map_err(|error| lack(program, &error))?;
    Version::parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| Lack {
        detail: format!("{} --version tells no version ({})", program.display(), output.status),
        fix: GET_IT.to_owned(),
    })
}

fn lack(program: &Path, error: &io::Error) -> Lack {
    let detail = match error.kind() {
        io::ErrorKind::NotFound => format!("{} is not installed", program.display()),
        _ => format!("{}: {error}", program.display()),
    };
    Lack { detail, fix: GET_IT.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_read_with_and_without_a_suffix() {
        let parsed = |text| Version::parse(text).map(|version| version.to_string());
        assert_eq!(parsed("Firecracker v1.16.1\n").as_deref(), Some("1.16.1"));
        assert_eq!(parsed("Jailer v1.17.0-dev").as_deref(), Some("1.17.0"));
        assert_eq!(parsed("Firecracker v1.x"), None);
        assert_eq!(parsed("usage: firecracker"), None);
    }

    #[test]
    fn the_floor_is_where_the_jailer_was_mended() {
        let outdated = |text: &str| Version::parse(text).unwrap().is_outdated();
        for old in ["v0.25.0", "v1.12.9", "v1.13.1", "v1.14.0"] {
            assert!(outdated(old), "{old}");
        }
        for mended in ["v1.13.2", "v1.14.1", "v1.16.1", "v2.0.0"] {
            assert!(!outdated(mended), "{mended}");
        }
    }

    #[test]
    fn each_lack_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho {text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let (good, jailer) =
            (program("firecracker", "Firecracker v1.16.1"), program("jailer", "Jailer v1.16.1"));
        let told =
            |firecracker: &Path, jailer: &Path| Programs::find(firecracker, jailer).unwrap_err().detail;
        assert!(told(&folder.path().join("none"), &jailer).ends_with("none is not installed"));
        assert!(told(&program("old", "Firecracker v1.14.0"), &jailer).contains("outdated"));
        assert!(told(&program("mute", ""), &jailer).contains("tells no version"));
        assert!(
            told(&good, &program("other", "Jailer v1.15.0")).contains("1.15.0 and Firecracker of 1.16.1")
        );
        assert!(Programs::find(&good, &jailer).is_ok());
    }
}
