//! The writable disk of a workspace: one sparse ext4 image that holds every place a sandbox may write and
//! keep.
//!
//! Formatting costs more than starting a sandbox, so blank images of the default size wait in `<data>/stock`
//! and are claimed by rename. The image's size caps bytes and inodes, whatever the host's disk has left.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;

use crate::host::layout::DISK_PLACES;

/// Folder of blank disks and of workspaces of start probes.
pub(crate) const STOCK: &str = "stock";
/// Name of the image in a workspace.
pub(crate) const FILE_NAME: &str = "disk.ext4";
/// One inode for each 16 KiB, ext4's own default, which node_modules trees stay within.
const BYTES_PER_INODE: u64 = 16 * 1024;
/// Fewest inodes, so that a small disk still holds a small project of small files.
const MIN_INODES: u64 = 16 * 1024;
/// Size of the journal, large enough for one user; ext4's least is 4 MiB.
const JOURNAL_MIB: u64 = 8;
/// Paths where distributions install the formatter; PATH of a service often lacks sbin.
const FORMATTERS: [&str; 3] = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4"];

/// Makes disks and keeps some blank ones.
#[derive(Debug, Clone)]
pub(crate) struct Disks {
    stock: PathBuf,
    /// Size of blank disks in MiB.
    blank_mib: u64,
}

impl Disks {
    /// Opens the stock, creates it if it is missing, and removes the remains of killed processes.
    pub(crate) fn open(data: &Path, blank_mib: u64) -> io::Result<Self> {
        let disks = Self { stock: data.join(STOCK), blank_mib };
        make_skeleton(&disks.skeleton())?;
        disks.tidy()?;
        Ok(disks)
    }

    /// Returns the disk of a workspace, made now if there is none.
    pub(crate) fn ensure(&self, workspace: &Path, size_mib: u64) -> io::Result<PathBuf> {
        let path = workspace.join(FILE_NAME);
        if path.try_exists()? || (size_mib == self.blank_mib && self.claim(&path)?) {
            return Ok(path);
        }
        // Formatted under another name: a crash in the middle must not leave half a disk under the name of a
        // whole one.
        let temporary = workspace.join("disk.ext4.new");
        self.format(&temporary, size_mib)?;
        fs::rename(&temporary, &path)?;
        Ok(path)
    }

    /// Makes a disk at `path` if there is none. Never takes one from the stock.
    pub(crate) fn ensure_at(&self, path: &Path, size_mib: u64) -> io::Result<()> {
        if path.try_exists()? {
            return Ok(());
        }
        let temporary = path.with_added_extension("new");
        self.format(&temporary, size_mib)?;
        fs::rename(&temporary, path)
    }

    /// Returns the disk of a workspace, and true if that is the one set aside.
    pub(crate) fn ensure_with(
        &self,
        set_aside: Option<SetAside>,
        workspace: &Path,
        size_mib: u64,
    ) -> io::Result<(PathBuf, bool)> {
        let path = workspace.join(FILE_NAME);
        let fits = size_mib == self.blank_mib && !path.try_exists()?;
        if fits && set_aside.is_some_and(|disk| disk.become_disk(&path)) {
            return Ok((path, true));
        }
        Ok((self.ensure(workspace, size_mib)?, false))
    }

    /// Takes a blank disk out of the stock for a slot, formatting one if there is none.
    pub(crate) fn set_aside(&self) -> io::Result<SetAside> {
        let path = self.stock.join(format!("aside-{:016x}", random()?));
        if !self.claim(&path)? {
            self.format(&path, self.blank_mib)?;
        }
        Ok(SetAside { path: Some(path) })
    }

    /// Moves a blank disk to `path`; false if none is left or the stock is on another file system.
    fn claim(&self, path: &Path) -> io::Result<bool> {
        for blank in self.blanks()? {
            // Of two starts that see the same blank disk, rename lets only one take it.
            match fs::rename(&blank, path) {
                Ok(()) => return Ok(true),
                // Another start was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Formats blank disks until `wanted` are in stock.
    pub(crate) fn restock(&self, wanted: usize) -> io::Result<()> {
        for _ in self.blanks()?.len()..wanted {
            let name = random()?;
            let temporary = self.stock.join(format!("new-{name:016x}"));
            let formatted = self.format(&temporary, self.blank_mib);
            if formatted.is_err() {
                // The error to report is the one of `format`.
                let _ = fs::remove_file(&temporary);
            }
            formatted?;
            fs::rename(temporary, self.stock.join(format!("blank-{}-{name:016x}", self.blank_mib)))?;
        }
        Ok(())
    }

    /// Removes half-formatted and set-aside disks of killed processes, and blank disks of another size.
    fn tidy(&self) -> io::Result<()> {
        remove_unfinished(&self.stock)?;
        let blank = self.blank_prefix();
        for entry in fs::read_dir(&self.stock)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("blank-") && !name.starts_with(&blank) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn blanks(&self) -> io::Result<Vec<PathBuf>> {
        let prefix = self.blank_prefix();
        let mut blanks = Vec::new();
        for entry in fs::read_dir(&self.stock)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                blanks.push(entry.path());
            }
        }
        Ok(blanks)
    }

    fn blank_prefix(&self) -> String {
        format!("blank-{}-", self.blank_mib)
    }

    fn skeleton(&self) -> PathBuf {
        self.stock.join("skeleton")
    }

    fn format(&self, path: &Path, size_mib: u64) -> io::Result<()> {
        let size = size_mib.saturating_mul(1024 * 1024);
        let file = File::create(path)?;
        // The folder may be listed by a server without privileges, which must not open the disk.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(size)?;
        let output = Command::new(formatter()?)
            .env_clear()
            .args(["-q", "-F", "-m", "0", "-b", "4096"])
            .args(["-N", &inodes(size_mib).to_string()])
            .args(["-J", &format!("size={JOURNAL_MIB}")])
            // The disk never grows, so it reserves no room for that.
            .args(["-O", "^resize_inode"])
            // A new sparse file reads as zeros, so nothing has to be zeroed or discarded.
            .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"])
            .arg("-d")
            .arg(self.skeleton())
            .arg(path)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("mkfs.ext4 {}: {}", output.status, text.trim())))
    }
}

/// A blank disk that belongs to a slot. Removed when the slot is given up.
#[derive(Debug)]
pub(crate) struct SetAside {
    path: Option<PathBuf>,
}

impl SetAside {
    pub(crate) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Moves the disk to a workspace, still mounted. Returns false if that fails, as it does on another file
    /// system.
    fn become_disk(mut self, path: &Path) -> bool {
        let moved = self.path.as_deref().is_some_and(|from| fs::rename(from, path).is_ok());
        if moved {
            // From here on the disk belongs to the workspace; `drop` must not remove it.
            self.path = None;
        }
        moved
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // `tidy` removes it later if this fails.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the number of files that a disk of that size may hold.
pub(crate) fn inodes(size_mib: u64) -> u64 {
    (size_mib.saturating_mul(1024 * 1024) / BYTES_PER_INODE).max(MIN_INODES)
}

/// Removes the remains of killed processes from the stock, such as a probe's folder. Creates the stock if it is missing.
pub(crate) fn remove_unfinished(stock: &Path) -> io::Result<()> {
    fs::create_dir_all(stock)?;
    for entry in fs::read_dir(stock)? {
        let entry = entry?;
        let name = entry.file_name();
        if ["new-", "aside-"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file or folder, or finds it gone: helpers of a killed server remove their own at the same time.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn random() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::other)
}

/// Reports whether the disk is free. The loop device of a sandbox holds a lock on it for as long as the device exists.
pub(crate) fn is_released(workspace: &Path) -> io::Result<bool> {
    let file = match File::open(workspace.join(FILE_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the path of the program that formats disks.
pub(crate) fn formatter() -> io::Result<&'static str> {
    let found = FORMATTERS.into_iter().find(|path| Path::new(path).exists());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "mkfs.ext4 is not installed"))
}

/// Makes the directories that every disk begins with, with the owners they have inside.
fn make_skeleton(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for place in DISK_PLACES {
        let path = directory.join(place.source);
        fs::create_dir_all(&path)?;
        chown(&path, Some(place.owner()), Some(place.owner()))?;
        fs::set_permissions(&path, Permissions::from_mode(place.mode()))?;
    }
    Ok(())
}
