//! The modules that a machine needs before it has a root file system, in the order of loading.
//!
//! A package has no list of dependencies: it is made at installation. So each module's own entry is read,
//! unless the list `modules.dep` exists. A module that is built in needs no file. A missing module is an
//! error only if no machine starts without it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::packed;

/// A module by name, and whether a machine needs it.
struct Wanted {
    name: &'static str,
    needed: bool,
}

/// Modules of disks and serial lines for both buses, of the file system and its checksums, of sockets to the
/// host, and of random numbers.
const WANTED: [Wanted; 9] = [
    Wanted { name: "virtio_mmio", needed: true },
    Wanted { name: "virtio_pci", needed: false },
    Wanted { name: "virtio_blk", needed: true },
    Wanted { name: "virtio_console", needed: true },
    Wanted { name: "crc32c_generic", needed: false },
    Wanted { name: "crc32c_intel", needed: false },
    Wanted { name: "ext4", needed: true },
    Wanted { name: "vmw_vsock_virtio_transport", needed: false },
    Wanted { name: "virtio_rng", needed: false },
];
/// Prefix of a module's line with its dependencies.
const DEPENDS: &[u8] = b"\0depends=";
/// Longest chain of dependencies that is followed.
const MAX_DEPTH: usize = 16;

/// The modules of one kernel.
struct Modules {
    files: BTreeMap<String, PathBuf>,
    listed: Option<BTreeMap<String, Vec<String>>>,
}

/// Returns the files of all needed modules, dependencies first. `folder` is `lib/modules/<release>`.
pub(super) fn select(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let modules = Modules::read(folder)?;
    let builtin = fs::read_to_string(folder.join("modules.builtin"))?;
    let mut chosen = Vec::new();
    for module in &WANTED {
        let is_builtin = || builtin.lines().any(|path| name_of(path) == module.name);
        if modules.files.contains_key(module.name) {
            modules.choose(module.name, MAX_DEPTH, &mut chosen)?;
        } else if module.needed && !is_builtin() {
            return Err(missing(format!("the kernel in {} has no {}", folder.display(), module.name)));
        }
    }
    Ok(chosen)
}

impl Modules {
    fn read(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        find(folder, &mut files)?;
        let listed = match fs::read_to_string(folder.join("modules.dep")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(parse(&text?)),
        };
        Ok(Self { files, listed })
    }

    /// Adds a module behind those that it needs.
    fn choose(&self, name: &str, depth: usize, chosen: &mut Vec<PathBuf>) -> io::Result<()> {
        // A dependency without a file is built in.
        let Some(file) = self.files.get(name) else { return Ok(()) };
        if chosen.contains(file) {
            return Ok(());
        }
        let deeper = depth.checked_sub(1).ok_or_else(|| missing(format!("{name} needs itself")))?;
        for needed in self.needed_by(name, file)? {
            self.choose(&needed, deeper, chosen)?;
        }
        chosen.push(file.clone());
        Ok(())
    }

    fn needed_by(&self, name: &str, file: &Path) -> io::Result<Vec<String>> {
        match &self.listed {
            Some(listed) => Ok(listed.get(name).cloned().unwrap_or_default()),
            None => asked_file(file)?.ok_or_else(|| {
                missing(format!("{} does not say what it needs: run depmod for this kernel", file.display()))
            }),
        }
    }
}

/// Finds all modules below a folder.
fn find(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Links lead to sources and build folders.
        if entry.file_type()?.is_dir() {
            find(&entry.path(), files)?;
        } else if entry.file_name().to_string_lossy().contains(".ko") {
            files.insert(name_of(&entry.file_name().to_string_lossy()), entry.path());
        }
    }
    Ok(())
}

/// Returns the dependencies that a module names.
fn asked_file(file: &Path) -> io::Result<Option<Vec<String>>> {
    let content = fs::read(file)?;
    let unpacked = packed::unpack(&content)?;
    Ok(asked(unpacked.as_deref().unwrap_or(&content)))
}

fn asked(content: &[u8]) -> Option<Vec<String>> {
    let start = content.windows(DEPENDS.len()).position(|window| window == DEPENDS)? + DEPENDS.len();
    let rest = content.get(start..)?;
    let names = rest.get(..rest.iter().position(|&byte| byte == 0)?)?;
    let names = std::str::from_utf8(names).ok()?;
    Some(names.split(',').filter(|name| !name.is_empty()).map(name_of).collect())
}

/// Parses the list that depmod makes: lines `file: needed…`.
fn parse(text: &str) -> BTreeMap<String, Vec<String>> {
    let line = |line: &str| {
        let (file, needed) = line.split_once(':')?;
        // The nearest dependency comes first.
        Some((name_of(file), needed.split_whitespace().rev().map(name_of).collect()))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the name of a module's file: `a_b` for `kernel/net/a-b.ko.xz`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

fn missing(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel's folder with these modules, which need those.
    fn folder(modules: &[(&str, &str)], builtin: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("kernel")).unwrap();
        for (name, needed) in modules {
            let content = format!("ELF\0license=GPL\0depends={needed}\0name=x\0");
            fs::write(folder.path().join("kernel").join(name), content).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), builtin).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        select(folder).unwrap().iter().map(|path| name_of(&path.display().to_string())).collect()
    }

    const KERNEL: [(&str, &str); 6] = [
        ("virtio_mmio.ko", "virtio-ring,virtio"),
        ("virtio_ring.ko", "virtio"),
        ("virtio.ko", ""),
        ("virtio_blk.ko", "virtio_ring,virtio"),
        ("ext4.ko", "mbcache,jbd2"),
        ("mbcache.ko", ""),
    ];

    #[test]
    fn dependencies_come_first_and_once() {
        let folder = folder(&KERNEL, "kernel/virtio_console.ko\nkernel/jbd2.ko\n");
        let expected = ["virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "mbcache", "ext4"];
        assert_eq!(names(folder.path()), expected);
    }

    /// As newer distributions pack them, before anybody has run depmod.
    #[test]
    fn packed_modules_are_asked_too() {
        let folder = folder(&KERNEL, "kernel/virtio_console.ko\nkernel/jbd2.ko\n");
        for entry in fs::read_dir(folder.path().join("kernel")).unwrap() {
            let status = std::process::Command::new("gzip").arg(entry.unwrap().path()).status().unwrap();
            assert!(status.success());
        }
        let expected = ["virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "mbcache", "ext4"];
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn a_list_is_believed_where_there_is_one() {
        let folder = folder(&KERNEL, "kernel/virtio_console.ko\n");
        let list = "k/virtio_mmio.ko.xz: k/virtio_ring.ko k/virtio.ko\nk/ext4.ko: k/mbcache.ko\n";
        fs::write(folder.path().join("modules.dep"), list).unwrap();
        let expected = ["virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "mbcache", "ext4"];
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn what_is_needed_and_not_there_is_named() {
        let without_disks = folder(&KERNEL[..3], "kernel/ext4.ko\nkernel/virtio_console.ko\n");
        assert!(select(without_disks.path()).unwrap_err().to_string().contains("has no virtio_blk"));
        let circle = folder(&[("virtio_mmio.ko", "virtio"), ("virtio.ko", "virtio_mmio")], "");
        assert!(select(circle.path()).unwrap_err().to_string().contains("needs itself"));
    }
}
