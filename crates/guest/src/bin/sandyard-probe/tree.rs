//! Walks all files that the job can see and reports those that it could change and those that could give it rights.

use std::fs::{self, FileType};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{ProbeFinding, sys};

/// Directories that the job may write to.
const WRITABLE: [&str; 6] = ["/workspace", "/home/agent", "/tmp", "/var/tmp", "/dev/shm", "/run/user/1000"];
/// Not walked: entries of /proc belong to processes, and those of /dev are checked by name.
const APART: [&str; 2] = ["/proc", "/dev"];
/// An image has some hundred thousand names.
const MOST_NAMES: usize = 2_000_000;
/// Longest list in a finding; of a longer one, the beginning is reported.
const MOST_TOLD: usize = 20;

#[derive(Default)]
struct TreeFindings {
    writable: Vec<PathBuf>,
    set_user_id: Vec<PathBuf>,
    devices: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    names: usize,
}

pub(crate) fn all() -> Vec<ProbeFinding> {
    let mut found = TreeFindings::default();
    let mut left = vec![PathBuf::from("/")];
    while let Some(directory) = left.pop() {
        if WRITABLE.iter().chain(&APART).any(|place| directory == Path::new(place)) {
            continue;
        }
        if sys::may_write(&directory) {
            found.writable.push(directory.clone());
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            found.names += 1;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if !kind.is_symlink() => look(&entry.path(), kind, &mut found),
                _ => {}
            }
        }
        if found.names > MOST_NAMES {
            return vec![ProbeFinding::new("K3.tree", "too large")];
        }
    }
    vec![
        ProbeFinding::new("K13.writable_elsewhere", told(found.writable)),
        ProbeFinding::new("K3.set_user_id", told(found.set_user_id)),
        ProbeFinding::new("K15.devices_elsewhere", told(found.devices)),
        ProbeFinding::new("N11.sockets", told(found.sockets)),
        ProbeFinding::new("K13.writable_in_proc", told(writable_in_proc())),
        ProbeFinding::new("K3.tree", if found.names > 1000 { "walked" } else { "not seen" }),
    ]
}

fn look(path: &Path, kind: FileType, found: &mut TreeFindings) {
    if kind.is_char_device() || kind.is_block_device() {
        found.devices.push(path.to_owned());
    } else if kind.is_socket() {
        found.sockets.push(path.to_owned());
    } else if kind.is_file() && sys::may_write(path) {
        found.writable.push(path.to_owned());
    }
    if kind.is_file() && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.mode() & 0o6000 != 0) {
        found.set_user_id.push(path.to_owned());
    }
}

/// Files of proc that are no process's, all of `/proc/sys` among them. What is covered by the null device can be written, to no effect.
fn writable_in_proc() -> Vec<PathBuf> {
    let is_process =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok());
    let mut writable = Vec::new();
    let mut left = vec![PathBuf::from("/proc")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.metadata().map(|metadata| metadata.file_type()) {
                Ok(kind) if kind.is_dir() && !(directory == Path::new("/proc") && is_process(&path)) => {
                    left.push(path)
                }
                Ok(kind) if kind.is_file() && sys::may_write(&path) => writable.push(path),
                _ => {}
            }
        }
    }
    writable
}

fn told(mut paths: Vec<PathBuf>) -> String {
    paths.sort();
    paths.iter().take(MOST_TOLD).map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}
