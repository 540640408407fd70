//! The installed Firecracker: its programs, their version, and whether that version may be used.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use semver::Version;

use crate::host::version::{self, FIRECRACKER_FLOORS};

/// The programs of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirecrackerPrograms {
    pub(super) firecracker: PathBuf,
    pub(super) jailer: PathBuf,
    pub(super) version: Version,
}

/// Why the programs can't be used, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingProgram {
    pub(super) detail: String,
    /// A remedy for people.
    pub(super) fix: String,
}

/// Remedy for a missing Firecracker, which no distribution packages.
const GET_IT: &str =
    "put a release of Firecracker, 1.14.1 or later, on the PATH, or name it: drivers.firecracker.program";

impl MissingProgram {
    /// Reports a program that was not found.
    pub(super) fn program(name: &str) -> Self {
        Self { detail: format!("{name} is not on the PATH"), fix: GET_IT.to_owned() }
    }
}

impl FirecrackerPrograms {
    pub(super) fn find(firecracker: &Path, jailer: &Path) -> Result<Self, MissingProgram> {
        let (version, jailers) = (version_of(firecracker)?, version_of(jailer)?);
        if !version::meets(&version, FIRECRACKER_FLOORS) {
            return Err(MissingProgram {
                detail: format!(
                    "Firecracker {version} is outdated: its jailer follows planted links (CVE-2026-1386)"
                ),
                fix: GET_IT.to_owned(),
            });
        }
        if jailers != version {
            return Err(MissingProgram {
                detail: format!("jailer is of version {jailers} and Firecracker of {version}"),
                fix: "install both of one release".to_owned(),
            });
        }
        let whole = |path: &Path| std::fs::canonicalize(path).map_err(|error| lack(path, &error));
        Ok(Self { firecracker: whole(firecracker)?, jailer: whole(jailer)?, version })
    }

    /// Returns the name that the jailer gives to the program and to the folder of its jails.
    pub(super) fn name(&self) -> &str {
        self.firecracker.file_name().and_then(|name| name.to_str()).unwrap_or("firecracker")
    }
}

fn version_of(program: &Path) -> Result<Version, MissingProgram> {
    let asked = Command::new(program).arg("--version").env_clear().stdin(Stdio::null()).output();
    let output = asked.map_err(|error| lack(program, &error))?;
    parse_version(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| MissingProgram {
        detail: format!("{} --version tells no version ({})", program.display(), output.status),
        fix: GET_IT.to_owned(),
    })
}

/// Parses `Firecracker v1.16.1` and `Jailer v1.17.0-dev`.
pub(super) fn parse_version(text: &str) -> Option<Version> {
    version::parse(text.split_whitespace().find_map(|word| word.strip_prefix('v'))?)
}

fn lack(program: &Path, error: &io::Error) -> MissingProgram {
    let detail = match error.kind() {
        io::ErrorKind::NotFound => format!("{} is not installed", program.display()),
        _ => format!("{}: {error}", program.display()),
    };
    MissingProgram { detail, fix: GET_IT.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_read_with_and_without_a_suffix() {
        let parsed = |text| parse_version(text).map(|version| version.to_string());
        assert_eq!(parsed("Firecracker v1.16.1\n").as_deref(), Some("1.16.1"));
        assert_eq!(parsed("Jailer v1.17.0-dev").as_deref(), Some("1.17.0"));
        assert_eq!(parsed("Firecracker v1.x"), None);
        assert_eq!(parsed("usage: firecracker"), None);
    }

    #[test]
    fn the_floor_is_where_the_jailer_was_mended() {
        let outdated = |text: &str| !version::meets(&parse_version(text).unwrap(), FIRECRACKER_FLOORS);
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
        let told = |firecracker: &Path, jailer: &Path| {
            FirecrackerPrograms::find(firecracker, jailer).unwrap_err().detail
        };
        assert!(told(&folder.path().join("none"), &jailer).ends_with("none is not installed"));
        assert!(told(&program("old", "Firecracker v1.14.0"), &jailer).contains("outdated"));
        assert!(told(&program("mute", ""), &jailer).contains("tells no version"));
        assert!(
            told(&good, &program("other", "Jailer v1.15.0")).contains("1.15.0 and Firecracker of 1.16.1")
        );
        assert!(FirecrackerPrograms::find(&good, &jailer).is_ok());
    }
}
