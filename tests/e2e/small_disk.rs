//! A small ext4 file system of a test's own, unmounted whatever happens.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A file system in a file.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    pub(crate) fn new(mib: u64) -> Self {
        let folder = TempDir::with_prefix("disk-").unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        std::fs::create_dir(folder.path().join("mount")).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(folder.path().join("mount")));
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// Takes every byte there is; the file gives them back when it is removed.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
            let _ = file.sync_all();
        }
        path
    }

    /// Takes all but this much.
    pub(crate) fn fill_but(&self, left_mib: u64) -> PathBuf {
        let path = self.path().join("filler");
        let file = std::fs::File::create(&path).unwrap();
        let free = self.free_mib().saturating_sub(left_mib);
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free << 20).unwrap();
        path
    }

    pub(crate) fn free_mib(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.path()).unwrap();
        disk.f_bavail * disk.f_frsize >> 20
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}

/// A folder in which nobody can make a file, until this is dropped. A read-only mount would not do: the server has mounts of its
/// own, and would not see it.
pub(crate) struct ClosedFolder(PathBuf);

impl ClosedFolder {
    pub(crate) fn of(folder: &Path) -> Self {
        run(Command::new("chattr").arg("+i").arg(folder));
        Self(folder.to_owned())
    }
}

impl Drop for ClosedFolder {
    fn drop(&mut self) {
        run(Command::new("chattr").arg("-i").arg(&self.0));
    }
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
