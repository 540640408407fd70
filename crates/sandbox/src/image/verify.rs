//! Checks a finished tree: it holds nothing that a sandbox must not get, and everything that it needs.
//!
//! Runs on the host over a tree that our own recipe made, so it may walk it. Never follows a link.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directories on which a sandbox mounts. Each must be empty, and never a link that leads elsewhere.
const MOUNT_POINTS: [&str; 7] = ["proc", "sys", "dev", "run", "tmp", "workspace", "home/agent"];

/// Directories in which the host's settings would have stayed.
const SEARCHED: [&str; 9] = [
    "etc",
    "var",
    "root",
    "home",
    "opt",
    "srv",
    "usr/local/etc",
    "usr/local/share",
    "usr/share/ca-certificates",
];

/// Highest id that a sandbox maps.
const HIGHEST_ID: u32 = 65_535;

/// Largest file that is searched. A larger one is data, not settings.
const MAX_SEARCH_BYTES: u64 = 4 << 20;

/// Reason why a tree is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageFault {
    /// A mount point is missing, a link, or not empty.
    #[error("{} is not an empty directory", .0.display())]
    MountPoint(PathBuf),
    /// A file that would give privilege when executed.
    #[error("{} has a setuid or setgid bit or file capabilities", .0.display())]
    Privileged(PathBuf),
    /// An entry that is neither file, directory nor link.
    #[error("{} is a device, socket or pipe", .0.display())]
    Special(PathBuf),
    /// An entry that nobody in a sandbox could own.
    #[error("{} belongs to an id above 65535", .0.display())]
    Owner(PathBuf),
    /// A file holds a setting of the host.
    #[error("{} holds `{mark}`, which is the host's", path.display())]
    Leak {
        /// Path in the tree.
        path: PathBuf,
        /// Text that must not be there.
        mark: String,
    },
    /// A file that must be empty is not.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The bundle has a certificate that Debian's package does not.
    #[error("the certificate bundle holds {0} certificates that are not Debian's")]
    ForeignCertificates(usize),
    /// A user of the guest is missing.
    #[error("user `{0}` is missing or has another id")]
    User(&'static str),
    /// The tree could not be read.
    #[error("read {}", path.display())]
    Read {
        /// Path in the tree.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Counts of a tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) entries: u64,
    pub(super) size_bytes: u64,
    pub(super) packages: u64,
}

/// Checks the tree at `root`. Its settings must not contain `marks`.
pub(super) fn verify(root: &Path, marks: &[String]) -> Result<Census, ImageFault> {
    for place in MOUNT_POINTS {
        check_mount_point(&root.join(place))?;
    }
    check_users(root)?;
    for file in ["etc/resolv.conf", "etc/machine-id"] {
        let path = root.join(file);
        let length = fs::symlink_metadata(&path).map_or(0, |facts| facts.len());
        if length > 0 {
            return Err(ImageFault::NotEmpty(path));
        }
    }
    check_certificates(root)?;
    let mut census = Census { packages: installed_packages(root), ..Census::default() };
    walk(root, &mut |entry, facts| {
        census.entries += 1;
        census.size_bytes += if facts.is_file() { facts.len() } else { 0 };
        check_entry(&entry.path(), facts)
    })?;
    for place in SEARCHED {
        search(&root.join(place), marks)?;
    }
    Ok(census)
}

fn check_mount_point(path: &Path) -> Result<(), ImageFault> {
    let fault = || ImageFault::MountPoint(path.to_owned());
    let real = fs::symlink_metadata(path).map_err(|_| fault())?.is_dir();
    let empty = fs::read_dir(path).map_err(|_| fault())?.next().is_none();
    if real && empty { Ok(()) } else { Err(fault()) }
}

fn check_users(root: &Path) -> Result<(), ImageFault> {
    let text = fs::read_to_string(root.join("etc/passwd")).map_err(reading(&root.join("etc/passwd")))?;
    for (user, start) in [("agent", "agent:x:1000:1000:"), ("keeper", "keeper:x:990:990:")] {
        if !text.lines().any(|line| line.starts_with(start)) {
            return Err(ImageFault::User(user));
        }
    }
    Ok(())
}

fn check_entry(path: &Path, facts: &fs::Metadata) -> Result<(), ImageFault> {
    let kind = facts.file_type();
    if kind.is_block_device() || kind.is_char_device() || kind.is_fifo() || kind.is_socket() {
        return Err(ImageFault::Special(path.to_owned()));
    }
    if facts.uid() > HIGHEST_ID || facts.gid() > HIGHEST_ID {
        return Err(ImageFault::Owner(path.to_owned()));
    }
    let set_id = !kind.is_symlink() && facts.mode() & 0o6000 != 0;
    if set_id || (kind.is_file() && has_capabilities(path)) {
        return Err(ImageFault::Privileged(path.to_owned()));
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::lgetxattr(path, "security.capability", &mut value[..]).is_ok()
}

/// Checks that every certificate of the bundle is one of the package `ca-certificates`.
fn check_certificates(root: &Path) -> Result<(), ImageFault> {
    let Ok(bundle) = fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")) else {
        return Ok(());
    };
    let mut debian = String::new();
    let shipped = root.join("usr/share/ca-certificates");
    walk(&shipped, &mut |entry, facts| {
        if facts.is_file() {
            let path = entry.path();
            debian += &fs::read_to_string(&path).map_err(reading(&path))?;
        }
        Ok(())
    })?;
    let shipped: std::collections::BTreeSet<_> = certificates(&debian).collect();
    let foreign = certificates(&bundle).filter(|certificate| !shipped.contains(certificate)).count();
    if foreign == 0 { Ok(()) } else { Err(ImageFault::ForeignCertificates(foreign)) }
}

fn certificates(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    parts.map(|part| part.split("-----END").next().unwrap_or_default().split_whitespace().collect())
}

fn installed_packages(root: &Path) -> u64 {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap_or_default();
    status.lines().filter(|line| *line == "Status: install ok installed").count() as u64
}

fn search(place: &Path, marks: &[String]) -> Result<(), ImageFault> {
    if marks.is_empty() {
        return Ok(());
    }
    walk(place, &mut |entry, facts| {
        if !facts.is_file() || facts.len() > MAX_SEARCH_BYTES {
            return Ok(());
        }
        let path = entry.path();
        let text = fs::read(&path).map_err(reading(&path))?;
        match marks.iter().find(|mark| contains(&text, mark.as_bytes())) {
            Some(mark) => Err(ImageFault::Leak { path, mark: mark.clone() }),
            None => Ok(()),
        }
    })
}

fn contains(text: &[u8], mark: &[u8]) -> bool {
    let Some((&first, _)) = mark.split_first() else { return false };
    let starts = text.iter().enumerate().filter(|&(_, &byte)| byte == first);
    starts.map(|(start, _)| &text[start..]).any(|rest| rest.starts_with(mark))
}

/// Calls `visit` for every entry below `directory`, which may be missing.
fn walk(
    directory: &Path,
    visit: &mut dyn FnMut(&DirEntry, &fs::Metadata) -> Result<(), ImageFault>,
) -> Result<(), ImageFault> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(reading(directory))?,
    };
    for entry in entries {
        let entry = entry.map_err(reading(directory))?;
        // `DirEntry::metadata` does not follow links, so a link to a directory of the host is never entered.
        let facts = entry.metadata().map_err(reading(&entry.path()))?;
        visit(&entry, &facts)?;
        if facts.is_dir() {
            walk(&entry.path(), visit)?;
        }
    }
    Ok(())
}

fn reading(path: &Path) -> impl FnOnce(io::Error) -> ImageFault {
    let path = path.to_owned();
    move |source| ImageFault::Read { path, source }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
