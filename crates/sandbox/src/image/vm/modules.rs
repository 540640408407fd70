//! Which modules of a kernel a machine needs before it has a root file system, in the order in which they are loaded.
//!
//! Read from `modules.dep` and `modules.builtin` of the kernel's own folder. What the kernel has built in needs no file;
//! what it has not at all is an error only for those without which nothing starts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A module by name, and whether a machine can do without.
struct Wanted {
    name: &'static str,
    needed: bool,
}

/// Disks and serial lines over either way a machine shows its devices, the file system, sockets to the host, and the sums
/// that ext4 asks for by name instead of by dependency.
const WANTED: [Wanted; 8] = [
    Wanted { name: "virtio_mmio", needed: true },
    Wanted { name: "virtio_pci", needed: false },
    Wanted { name: "virtio_blk", needed: true },
    Wanted { name: "virtio_console", needed: true },
    Wanted { name: "crc32c_generic", needed: false },
    Wanted { name: "crc32c_intel", needed: false },
    Wanted { name: "ext4", needed: true },
    Wanted { name: "vmw_vsock_virtio_transport", needed: false },
];

/// The files of all modules that are needed, dependencies first. `folder` is `lib/modules/<release>`.
pub(super) fn select(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let dependencies = parse(&fs::read_to_string(folder.join("modules.dep"))?);
    let builtin = fs::read_to_string(folder.join("modules.builtin"))?;
    let mut chosen = Vec::new();
    for module in &WANTED {
        match dependencies.get(module.name) {
            Some((file, before)) => {
                // modules.dep names the nearest dependency first.
                for path in before.iter().rev().chain([file]) {
                    let path = folder.join(path);
                    if !chosen.contains(&path) {
                        chosen.push(path);
                    }
                }
            }
            None if !module.needed || builtin.lines().any(|path| name_of(path) == module.name) => {}
            None => {
                let text = format!("the kernel in {} has no {}", folder.display(), module.name);
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
        }
    }
    Ok(chosen)
}

/// Modules by name: file and dependencies.
fn parse(text: &str) -> BTreeMap<String, (String, Vec<String>)> {
    let line = |line: &str| {
        let (file, before) = line.split_once(':')?;
        let before = before.split_whitespace().map(str::to_owned).collect();
        Some((name_of(file), (file.to_owned(), before)))
    };
    text.lines().filter_map(line).collect()
}

/// `kernel/net/a-b.ko.xz` is `a_b`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(dependencies: &str, builtin: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("modules.dep"), dependencies).unwrap();
        fs::write(folder.path().join("modules.builtin"), builtin).unwrap();
        folder
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let folder = folder(
            "k/virtio_mmio.ko: k/virtio_ring.ko k/virtio.ko\nk/virtio_blk.ko: k/virtio_ring.ko k/virtio.ko\n\
             k/ext4.ko.xz: k/mbcache.ko\nk/mbcache.ko:\nk/other.ko:\n",
            "k/virtio_console.ko\n",
        );
        let names: Vec<_> =
            select(folder.path()).unwrap().iter().map(|path| name_of(&path.display().to_string())).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "mbcache", "ext4"]);
    }

    #[test]
    fn a_kernel_without_disks_is_refused() {
        let folder = folder("k/virtio_mmio.ko:\n", "k/ext4.ko\nk/virtio_console.ko\n");
        assert!(select(folder.path()).unwrap_err().to_string().contains("has no virtio_blk"));
    }
}
