//! The cache of finished images.
//!
//! `images/<digest>/{root/,manifest.json}` holds only finished images: they arrive by rename and leave by
//! rename. `tmp/<digest>-<pid>` is a running build or the remains of a killed one; `locks/<digest>` tells the
//! two apart. `logs/` keeps the tools' output of the last build of each flavour.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::lock::ImageLock;
use super::manifest::ManifestError;
use super::progress::{self, BuildProgress};
use super::{Image, ImageDigest, ImageFacts, ImageFlavour, ImageRequest, recipe};
use crate::driver::LocalImages;

/// Images on this host.
#[derive(Debug, Clone)]
pub struct ImageStore {
    cache: PathBuf,
}

/// The cache could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ImageStoreError {
    /// A directory or file of the cache failed.
    #[error("{action} {}", path.display())]
    Path {
        /// Operation that failed, in the imperative.
        action: &'static str,
        /// Path that was used.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The recipe in this program is faulty.
    #[error("the recipe of the image is faulty")]
    Recipe(#[from] ManifestError),
}

impl ImageStore {
    /// Opens a store below `cache`, which is made on first use.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into() }
    }

    /// Returns the newest finished image that answers the request; with a refresh stamp, one at least as new.
    pub fn find(&self, request: &ImageRequest) -> Result<Option<Image>, ImageStoreError> {
        let recipe = recipe::recipe_digest(request)?;
        let images = self.list()?.into_iter().filter(|image| image.facts.recipe == recipe);
        let fresh = images.filter(|image| image.facts.refresh >= request.refresh.unwrap_or(0));
        Ok(fresh.max_by_key(|image| (image.facts.refresh, image.facts.created_s)))
    }

    /// Returns the image of that digest, if it is finished and exists.
    pub fn get(&self, digest: &ImageDigest) -> Option<Image> {
        let directory = self.images().join(digest.as_str());
        let facts = facts_in(&directory).ok()?;
        let root = directory.join("root");
        root.is_dir().then(|| Image { digest: digest.clone(), flavour: facts.flavour, root, facts })
    }

    /// Returns all finished images, oldest first.
    pub fn list(&self) -> Result<Vec<Image>, ImageStoreError> {
        let names = names_in(&self.images())?;
        let digests = names.iter().filter_map(|name| ImageDigest::parse(name));
        let mut images: Vec<_> = digests.filter_map(|digest| self.get(&digest)).collect();
        images.sort_by(|a, b| (a.facts.created_s, &a.digest).cmp(&(b.facts.created_s, &b.digest)));
        Ok(images)
    }

    /// Returns the progress of a flavour's build, whichever process does it. Returns `None` if nobody builds
    /// it.
    pub fn building(&self, flavour: ImageFlavour) -> Option<BuildProgress> {
        let names = names_in(&self.temporary()).ok()?;
        let live = names.iter().filter(|name| self.is_being_built(name));
        let mut reports =
            live.filter_map(|name| progress::read(&self.temporary().join(name).join("progress")));
        reports.find(|progress| progress.flavour == flavour)
    }

    /// Returns the digest of the image that a first build of the request would make.
    pub fn digest_of(&self, request: &ImageRequest) -> Result<ImageDigest, ImageStoreError> {
        let refresh = request.refresh.unwrap_or(0);
        let manifest = recipe::manifest(request.flavour)?;
        let parent = match manifest.parent {
            Some(flavour) => {
                Some(self.digest_of(&ImageRequest { flavour, with: Vec::new(), ..request.clone() })?)
            }
            None => None,
        };
        let recipe = recipe::recipe_digest(request)?;
        Ok(recipe::image_digest(&recipe, parent.as_ref(), refresh))
    }

    /// Removes every image except those in `keep`, and the remains of dead builds. Returns the digests of the
    /// removed images. The caller knows which images are in use. Leaves an image that is being built alone.
    pub fn prune(&self, keep: &[ImageDigest]) -> Result<Vec<ImageDigest>, ImageStoreError> {
        self.dead_builds(None)?.remove()?;
        let mut removed = Vec::new();
        for image in self.list()?.into_iter().filter(|image| !keep.contains(&image.digest)) {
            let Some(_lock) = self.try_lock(&image.digest)? else { continue };
            let origin = self.images().join(image.digest.as_str());
            let grave = self.make_temporary(&image.digest)?;
            let moved = grave.join("image");
            // Renamed before it is removed: a killed prune must not leave half an image under the name of a
            // whole one.
            fs::rename(&origin, &moved).map_err(at("move away", &origin))?;
            fs::remove_dir_all(&grave).map_err(at("remove", &grave))?;
            removed.push(image.digest);
        }
        Ok(removed)
    }

    /// Returns the remains of builders that no longer live. A caller that holds the lock of a digest and has
    /// not begun names it in `held`: everything of that image is dead too.
    pub(super) fn dead_builds(&self, held: Option<&ImageDigest>) -> Result<DeadBuilds, ImageStoreError> {
        let mut builds = Vec::new();
        for name in names_in(&self.temporary())? {
            let Some(digest) = digest_of_build(&name) else { continue };
            let lock = self.try_lock(&digest)?;
            if lock.is_some() || held == Some(&digest) {
                builds.push((self.temporary().join(&name), lock));
            }
        }
        Ok(DeadBuilds(builds))
    }

    pub(super) fn try_lock(&self, digest: &ImageDigest) -> Result<Option<ImageLock>, ImageStoreError> {
        let locks = self.cache.join("locks");
        ImageLock::try_take(&locks, digest.as_str()).map_err(at("lock", &locks.join(digest.as_str())))
    }

    /// Makes a new directory for a build. The caller holds the digest's lock.
    pub(super) fn make_temporary(&self, digest: &ImageDigest) -> Result<PathBuf, ImageStoreError> {
        let path = self.temporary().join(format!("{digest}-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(at("make", &path))?;
        Ok(path)
    }

    /// Makes a finished tree visible. `built` holds `root/`, and the facts are written beside it. All of it
    /// is on the disk before the rename, so not even a power cut shows a half image.
    pub(super) fn finish(
        &self,
        built: &Path,
        digest: ImageDigest,
        facts: ImageFacts,
    ) -> Result<Image, ImageStoreError> {
        let file = built.join("manifest.json");
        let text = serde_json::to_vec_pretty(&facts).map_err(|error| at("write", &file)(error.into()))?;
        fs::write(&file, text).map_err(at("write", &file))?;
        let opened = File::open(built).map_err(at("open", built))?;
        // The whole file system, because the tree has too many files to sync each of them.
        rustix::fs::syncfs(&opened).map_err(|error| at("flush", built)(error.into()))?;
        let images = self.images();
        fs::create_dir_all(&images).map_err(at("make", &images))?;
        let target = images.join(digest.as_str());
        fs::rename(built, &target).map_err(at("move into place", &target))?;
        // Without this a power cut could lose the rename although the caller was told of the image.
        let opened = File::open(&images).map_err(at("open", &images))?;
        opened.sync_all().map_err(at("flush", &images))?;
        Ok(Image { digest, flavour: facts.flavour, root: target.join("root"), facts })
    }

    /// Returns the path of the log of a build's tools.
    pub(super) fn log_file(&self, name: &str) -> Result<PathBuf, ImageStoreError> {
        let logs = self.cache.join("logs");
        fs::create_dir_all(&logs).map_err(at("make", &logs))?;
        Ok(logs.join(format!("{name}.log")))
    }

    pub(super) fn cache(&self) -> &Path {
        &self.cache
    }

    fn is_being_built(&self, name: &str) -> bool {
        digest_of_build(name).is_some_and(|digest| matches!(self.try_lock(&digest), Ok(None)))
    }

    fn images(&self) -> PathBuf {
        self.cache.join("images")
    }

    fn temporary(&self) -> PathBuf {
        self.cache.join("tmp")
    }
}

impl LocalImages for ImageStore {
    fn tree(&self, image: &ImageDigest) -> Option<PathBuf> {
        self.get(image).map(|image| image.root)
    }

    /// Returns the newest image of the smallest flavour.
    fn probe_image(&self) -> Option<ImageDigest> {
        self.find(&ImageRequest::plain(ImageFlavour::Base)).ok().flatten().map(|image| image.digest)
    }
}

/// Directories that nobody will finish, with the locks that keep others from starting the same builds.
pub(super) struct DeadBuilds(Vec<(PathBuf, Option<ImageLock>)>);

impl DeadBuilds {
    /// Removes the directories. Slow on a busy disk.
    pub(super) fn remove(self) -> Result<(), ImageStoreError> {
        for (path, _lock) in self.0 {
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(at("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Wraps an error of the file system with the operation and its path.
pub(super) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ImageStoreError {
    let path = path.to_owned();
    move |source| ImageStoreError::Path { action, path, source }
}

/// Reads the facts of the image in a folder of the store.
pub(super) fn facts_in(directory: &Path) -> io::Result<ImageFacts> {
    Ok(serde_json::from_slice(&fs::read(directory.join("manifest.json"))?)?)
}

fn digest_of_build(name: &str) -> Option<ImageDigest> {
    ImageDigest::parse(name.split_once('-')?.0)
}

fn names_in(directory: &Path) -> Result<Vec<String>, ImageStoreError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at("list", directory))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at("list", directory))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}
