//! Boot files of virtual machines: a kernel, an initrd with the guest, and an image's tree as a read-only
//! disk.
//!
//! The kernel is Debian's, from the host's mirrors, or the operator's own; the rest is made here. Drivers use
//! `VmImages`; [`Builder::ensure_kernel`] fetches the kernel.

mod cpio;
mod errors;
mod initrd;
mod kernel;
mod modules;
mod packed;
mod root_disk;
mod unfinished;
mod vmlinux;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

pub use errors::VmImageError;
pub use kernel::VmKernel;
pub use root_disk::root_disk_of;

use super::build::Builder;
use super::build_error::BuildError;
use super::steps;
use super::store::{ImageStore, ImageStoreError, at};
use super::{ImageFlavour, ImageRequest, recipe};
use crate::guest_programs::GuestPrograms;
use kernel::KernelFiles;

/// Debian's kernel for virtual machines: a tenth of the modules of the ordinary one.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Source of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// The newest kernel in the cache, or Debian's if there is none.
    Cached,
    /// Debian's kernel of today.
    Debian,
    /// A kernel of the caller.
    Given {
        /// Path of the kernel file, packed or not.
        kernel: PathBuf,
        /// Directory `lib/modules/<release>` of the kernel; `None` if virtio and ext4 are built in.
        modules: Option<PathBuf>,
    },
}

/// Boot files of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmImage {
    /// Path of the kernel file.
    pub kernel: PathBuf,
    /// Path of the first root file system.
    pub initrd: PathBuf,
    /// Path of the image as an ext4 disk without partitions.
    pub root_disk: PathBuf,
}

/// Boot files of machines in one cache.
#[derive(Debug, Clone)]
pub struct VmImages {
    store: ImageStore,
    programs: GuestPrograms,
}

impl VmImages {
    /// Opens the images of a store, whose machines run these programs.
    pub fn new(store: ImageStore, programs: GuestPrograms) -> Self {
        Self { store, programs }
    }

    /// Returns the kernel that machines boot, if there is one.
    pub fn kernel(&self) -> Result<Option<VmKernel>, ImageStoreError> {
        kernel::newest(self.store.cache())
    }

    /// Returns the boot files of a machine on the tree `image_root`. Makes missing files, which blocks:
    /// seconds for a disk.
    pub fn of(&self, image_root: &Path) -> Result<VmImage, VmImageError> {
        let kernel = self.kernel()?.ok_or(VmImageError::NoKernel)?;
        let initrd = initrd::ensure(&kernel, &self.programs).map_err(VmImageError::Initrd)?;
        let root_disk = root_disk::ensure(image_root)
            .map_err(|source| VmImageError::RootDisk { tree: image_root.to_owned(), source })?;
        Ok(VmImage { kernel: kernel.file(), initrd, root_disk })
    }

    /// Returns roughly how much of the disk of `image_root` is made, by the space that it takes on the host's
    /// disk.
    pub fn percent_of(&self, image_root: &Path) -> u64 {
        root_disk::percent(image_root).unwrap_or(0)
    }

    /// Returns the boot files with an unpacked kernel, for a program that boots no other.
    pub fn unpacked(&self, image_root: &Path) -> Result<VmImage, VmImageError> {
        let image = self.of(image_root)?;
        let kernel = vmlinux::ensure(&image.kernel).map_err(VmImageError::Unpack)?;
        Ok(VmImage { kernel, ..image })
    }
}

impl Builder {
    /// Puts the kernel into the cache, unless it is there.
    pub fn ensure_kernel(&self, source: &KernelSource) -> Result<VmKernel, BuildError> {
        let now_s = (self.clock)().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match source {
            KernelSource::Cached => match kernel::newest(self.store.cache())? {
                Some(kernel) => Ok(kernel),
                None => self.fetch_kernel(now_s),
            },
            KernelSource::Debian => self.fetch_kernel(now_s),
            KernelSource::Given { kernel, modules } => {
                let files = KernelFiles { kernel: kernel.clone(), modules: modules.clone() };
                Ok(kernel::keep(&self.store, &files, now_s)?)
            }
        }
    }

    fn fetch_kernel(&self, now_s: u64) -> Result<VmKernel, BuildError> {
        super::build::check_host()?;
        let suite = recipe::manifest(ImageFlavour::Base)?.suite;
        let request =
            ImageRequest { with: vec![PACKAGE.to_owned()], ..ImageRequest::plain(ImageFlavour::Base) };
        let name = recipe::image_digest(&recipe::recipe_digest(&request)?, None, now_s);
        let _lock = self.store.try_lock(&name)?;
        let work = self.store.make_temporary(&name)?;
        let fetched = self.fetch_kernel_in(&work, &suite, now_s);
        // The next build removes what can't be removed now, as it does after a killed build.
        drop(fs::remove_dir_all(&work));
        fetched
    }

    fn fetch_kernel_in(&self, work: &Path, suite: &str, now_s: u64) -> Result<VmKernel, BuildError> {
        let staged = self.host.stage(work, suite, None).map_err(BuildError::Host)?;
        let tree = work.join("tree");
        let mut command = steps::isolated_command(Path::new("mmdebstrap"));
        command.args(["--mode=root", "--variant=extract", "--format=directory"]);
        command.arg(format!("--include={PACKAGE}"));
        command.args(["--skip=output/mknod,output/dev", "--dpkgopt=path-exclude=/*"]);
        command.args(["--dpkgopt=path-include=/boot/*", "--dpkgopt=path-include=/lib/modules/*"]);
        let options = fs::read_to_string(&staged.apt_options).map_err(BuildError::Host)?;
        command.args(options.lines().map(|option| format!("--aptopt={option}")));
        command.arg(suite).arg(&tree).arg(&staged.sources);
        command.envs(staged.variables.iter().cloned());
        let log = self.store.log_file("kernel")?;
        let mut log = File::create(&log).map_err(at("make", &log))?;
        match steps::run(command, "mmdebstrap", &mut log, &self.cancellation, &mut |_| {}) {
            Ok(()) => {}
            Err(steps::StepError::Cancelled) => return Err(BuildError::Cancelled),
            Err(source) => return Err(BuildError::Step { phase: "fetching the kernel".to_owned(), source }),
        }
        Ok(kernel::keep(&self.store, &find_kernel(&tree)?, now_s)?)
    }
}

/// Returns the kernel in an unpacked package.
fn find_kernel(tree: &Path) -> Result<KernelFiles, ImageStoreError> {
    let one = |folder: PathBuf, prefix: &str| {
        let entries = fs::read_dir(&folder).map_err(at("list", &folder))?.flatten();
        let mut found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        let missing = || at("find a kernel in", &folder)(io::ErrorKind::NotFound.into());
        found.next().map(|entry| entry.path()).ok_or_else(missing)
    };
    let kernel = one(tree.join("boot"), "vmlinuz-")?;
    let modules = one(tree.join("lib/modules"), "")?;
    Ok(KernelFiles { kernel, modules: Some(modules) })
}
