//! Kernels in the cache: `kernels/<digest>/{vmlinuz,modules/,kernel.json}`, named by their content, put in
//! place by rename.
//!
//! `modules/` holds only the modules that a machine loads before it has a root file system, numbered in the
//! order of loading. Machines boot the newest kernel.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::modules;
use crate::image::ImageDigest;
use crate::image::store::{ImageStore, ImageStoreError, at};

/// A kernel that machines can boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmKernel {
    /// Digest of the kernel and its modules.
    pub digest: ImageDigest,
    pub(super) folder: PathBuf,
    /// Time from which machines boot it, in seconds since 1970.
    since_s: u64,
}

/// Facts about a kernel.
#[derive(Debug, Serialize, Deserialize)]
struct KernelFacts {
    since_s: u64,
}

impl VmKernel {
    /// Returns the path of the kernel.
    pub fn file(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Returns the modules in the order of loading.
    pub(super) fn modules(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = fs::read_dir(self.folder.join("modules"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        files.sort();
        Ok(files)
    }
}

/// Source files of a kernel.
pub(super) struct KernelFiles {
    pub(super) kernel: PathBuf,
    /// Directory `lib/modules/<release>`; `None` if the kernel needs no module.
    pub(super) modules: Option<PathBuf>,
}

pub(super) fn newest(cache: &Path) -> Result<Option<VmKernel>, ImageStoreError> {
    let folder = cache.join("kernels");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(at("list", &folder))?,
    };
    let read = |name: &str| {
        let digest = ImageDigest::parse(name)?;
        let folder = folder.join(name);
        let facts: KernelFacts = serde_json::from_slice(&fs::read(folder.join("kernel.json")).ok()?).ok()?;
        Some(VmKernel { digest, folder, since_s: facts.since_s })
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| read(&name)).max_by_key(|kernel| kernel.since_s))
}

/// Puts a kernel into the cache and makes it the newest.
pub(super) fn keep(store: &ImageStore, files: &KernelFiles, now_s: u64) -> Result<VmKernel, ImageStoreError> {
    let modules = match &files.modules {
        Some(folder) => modules::select(folder).map_err(at("read the modules in", folder))?,
        None => Vec::new(),
    };
    let digest = digest(&files.kernel, &modules)?;
    let _lock = store.try_lock(&digest)?;
    let built = store.make_temporary(&digest)?;
    let copied = copy(&built, files, &modules, now_s).and_then(|()| place(store, &built, &digest));
    // After a success the directory was renamed and is gone.
    drop(fs::remove_dir_all(&built));
    Ok(VmKernel { folder: copied?, digest, since_s: now_s })
}

fn copy(built: &Path, files: &KernelFiles, modules: &[PathBuf], now_s: u64) -> Result<(), ImageStoreError> {
    let target = built.join("vmlinuz");
    fs::copy(&files.kernel, &target).map_err(at("copy", &files.kernel))?;
    // Every machine runs as a user of its own and must be able to read the file.
    fs::set_permissions(&target, fs::Permissions::from_mode(0o444)).map_err(at("open up", &target))?;
    let folder = built.join("modules");
    fs::create_dir_all(&folder).map_err(at("make", &folder))?;
    for (number, module) in modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        fs::copy(module, folder.join(format!("{number:03}-{name}"))).map_err(at("copy", module))?;
    }
    let file = built.join("kernel.json");
    let text = serde_json::to_vec(&KernelFacts { since_s: now_s })
        .map_err(|error| at("write", &file)(error.into()))?;
    fs::write(&file, text).map_err(at("write", &file))?;
    // Synced before the rename: after a power cut the name must not show half a kernel.
    let opened = File::open(built).map_err(at("open", built))?;
    rustix::fs::syncfs(&opened).map_err(|error| at("flush", built)(error.into()))
}

/// Renames a finished kernel into the cache. If it is there already, only its date is replaced.
fn place(store: &ImageStore, built: &Path, digest: &ImageDigest) -> Result<PathBuf, ImageStoreError> {
    let kernels = store.cache().join("kernels");
    fs::create_dir_all(&kernels).map_err(at("make", &kernels))?;
    let target = kernels.join(digest.as_str());
    if target.exists() {
        let facts = target.join("kernel.json");
        fs::rename(built.join("kernel.json"), &facts).map_err(at("replace", &facts))?;
        return Ok(target);
    }
    fs::rename(built, &target).map_err(at("move into place", &target))?;
    Ok(target)
}

fn digest(kernel: &Path, modules: &[PathBuf]) -> Result<ImageDigest, ImageStoreError> {
    let mut hash = Sha256::new();
    for path in [kernel].into_iter().chain(modules.iter().map(PathBuf::as_path)) {
        let content = fs::read(path).map_err(at("read", path))?;
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(&content);
    }
    Ok(ImageDigest::of_hash(hash.finalize().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(folder: &Path, content: &str) -> KernelFiles {
        let kernel = folder.join("bzImage");
        fs::write(&kernel, content).unwrap();
        KernelFiles { kernel, modules: None }
    }

    #[test]
    fn the_last_one_kept_is_booted_also_if_it_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let store = ImageStore::new(folder.path().join("cache"));
        assert_eq!(newest(store.cache()).unwrap(), None);
        let one = keep(&store, &kernel(folder.path(), "one"), 10).unwrap();
        let two = keep(&store, &kernel(folder.path(), "two"), 20).unwrap();
        assert_ne!(one.digest, two.digest);
        assert_eq!(newest(store.cache()).unwrap(), Some(two));
        let again = keep(&store, &kernel(folder.path(), "one"), 30).unwrap();
        assert_eq!(newest(store.cache()).unwrap(), Some(again.clone()));
        assert_eq!(again.digest, one.digest);
        assert_eq!(fs::read_to_string(again.file()).unwrap(), "one");
        assert_eq!(fs::read_dir(store.cache().join("tmp")).unwrap().count(), 0);
    }
}
