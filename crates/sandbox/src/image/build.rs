//! Makes an image: bootstrap or copy of the parent, the recipe's steps, the check of the tree, the move into
//! the store.
//!
//! Each image has one builder at a time: a second one waits and then finds it finished. A killed build leaves
//! a directory in `tmp/` that the next build removes. The parent is usable as soon as it is finished.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::build_error::BuildError;
use super::cancellation::Cancellation;
use super::host::HostSettings;
use super::lock::ImageLock;
use super::progress::{BuildProgress, Reporter};
use super::steps;
use super::store::{ImageStore, at};
use super::verify::{self, Census};
use super::work::{BuildPlan, BuildWork};
use super::{Image, ImageDigest, ImageFacts, ImageRequest, recipe};

/// Interval at which a waiting builder checks whether the other one is done.
const WAIT_CHECK: Duration = Duration::from_millis(300);

/// Builds the images of one store with the settings of one host.
#[derive(Debug, Clone)]
pub struct Builder {
    pub(super) store: ImageStore,
    pub(super) host: HostSettings,
    pub(super) clock: fn() -> SystemTime,
    pub(super) cancellation: Cancellation,
}

impl Builder {
    /// Creates a builder that `cancellation` can end; `clock` dates the images.
    pub fn new(
        store: ImageStore,
        host: HostSettings,
        clock: fn() -> SystemTime,
        cancellation: Cancellation,
    ) -> Self {
        Self { store, host, clock, cancellation }
    }

    /// Finds the image or makes it, its parent first. Blocks, also while another process makes it.
    pub fn ensure(
        &self,
        request: &ImageRequest,
        progress: &mut dyn FnMut(&BuildProgress),
    ) -> Result<Image, BuildError> {
        if let Some(name) = request.with.iter().find(|name| !is_package_name(name)) {
            return Err(BuildError::PackageName(name.clone()));
        }
        if let Some(image) = self.store.find(request)? {
            return Ok(image);
        }
        check_host()?;
        if !request.architecture.runs_here() {
            return Err(BuildError::Architecture(request.architecture));
        }
        let manifest = recipe::manifest(request.flavour)?;
        let parent = match manifest.parent {
            Some(flavour) => {
                let wanted = ImageRequest { flavour, with: Vec::new(), ..request.clone() };
                Some(self.ensure(&wanted, progress)?)
            }
            None => None,
        };
        let with = recipe::normalised(&request.with);
        let recipe = recipe::recipe_digest(request)?;
        let refresh = request.refresh.unwrap_or(0);
        let digest = recipe::image_digest(&recipe, parent.as_ref().map(|image| &image.digest), refresh);
        let _lock = match self.wait_for_lock(request, &digest, progress)? {
            BuildTurn::Ours(lock) => lock,
            BuildTurn::Finished(image) => return Ok(*image),
        };
        let dead = self.store.dead_builds(Some(&digest))?;
        let (flavour, architecture, snapshot) =
            (request.flavour, request.architecture, request.snapshot.clone());
        let plan =
            BuildPlan { flavour, architecture, manifest, recipe, digest, parent, with, refresh, snapshot };
        thread::scope(|scope| {
            // Beside the build: a busy disk can take half a minute to remove a tree. The next build finds
            // what is left.
            scope.spawn(|| dead.remove());
            self.build(plan, progress)
        })
    }

    fn wait_for_lock(
        &self,
        request: &ImageRequest,
        digest: &ImageDigest,
        progress: &mut dyn FnMut(&BuildProgress),
    ) -> Result<BuildTurn, BuildError> {
        let mut last = None;
        loop {
            // The lock is tried before the search: the other way round, an image that is finished in between
            // would be built again.
            let lock = self.store.try_lock(digest)?;
            if let Some(image) = self.store.find(request)? {
                return Ok(BuildTurn::Finished(Box::new(image)));
            }
            if let Some(lock) = lock {
                return Ok(BuildTurn::Ours(lock));
            }
            if self.cancellation.is_cancelled() {
                return Err(BuildError::Cancelled);
            }
            // Another process builds the image; its progress is reported as ours.
            let now = self.store.building(request.flavour);
            if let Some(report) = now.as_ref().filter(|_| now != last) {
                progress(report);
            }
            last = now;
            thread::park_timeout(WAIT_CHECK);
        }
    }

    fn build(&self, plan: BuildPlan, progress: &mut dyn FnMut(&BuildProgress)) -> Result<Image, BuildError> {
        let directory = self.store.make_temporary(&plan.digest)?;
        let result = self.build_in(&directory, plan, progress);
        // The next build removes what can't be removed now, as it does after a killed build.
        drop(fs::remove_dir_all(&directory));
        result
    }

    fn build_in(
        &self,
        directory: &Path,
        plan: BuildPlan,
        progress: &mut dyn FnMut(&BuildProgress),
    ) -> Result<Image, BuildError> {
        let started = Instant::now();
        let built = directory.join("out");
        fs::create_dir_all(&built).map_err(at("make", &built))?;
        let recipe = directory.join("recipe");
        recipe::write_out(&recipe).map_err(at("write", &recipe))?;
        let staged = self
            .host
            .stage(directory, &plan.manifest.suite, plan.snapshot.as_ref())
            .map_err(BuildError::Host)?;
        let log = self.store.log_file(plan.flavour.as_str())?;
        let log = File::create(&log).map_err(at("make", &log))?;

        let reporter = Reporter::new(plan.flavour, &directory.join("progress"), progress);
        let (root, scratch) = (built.join("root"), directory.join("scratch"));
        let mut work = BuildWork {
            cancellation: &self.cancellation,
            plan: &plan,
            root: &root,
            scratch: &scratch,
            recipe: &recipe,
            staged: &staged,
            log,
            reporter,
        };
        work.make_tree()?;
        work.run_steps()?;
        // The overlay that the steps ran on leaves this attribute on some kernels.
        _ = rustix::fs::removexattr(&root, "trusted.overlay.uuid");
        work.reporter.begin(&plan.manifest.save);
        // Before `finish`: a tree that fails the check never appears in the store.
        let census = verify::verify(&root, &staged.marks)
            .map_err(|source| BuildError::Unfit { flavour: plan.flavour, source })?;
        let facts = self.facts(&plan, census, started);
        Ok(self.store.finish(&built, plan.digest, facts)?)
    }

    fn facts(&self, plan: &BuildPlan, census: Census, started: Instant) -> ImageFacts {
        ImageFacts {
            flavour: plan.flavour,
            architecture: plan.architecture,
            recipe: plan.recipe.clone(),
            parent: plan.parent.as_ref().map(|parent| parent.digest.clone()),
            with: plan.with.clone(),
            refresh: plan.refresh,
            snapshot: plan.snapshot.clone(),
            created_s: (self.clock)().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            build_s: started.elapsed().as_secs(),
            size_bytes: census.size_bytes,
            entries: census.entries,
            packages: census.packages,
        }
    }
}

/// Result of waiting for the lock.
enum BuildTurn {
    Ours(ImageLock),
    Finished(Box<Image>),
}

pub(super) fn check_host() -> Result<(), BuildError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BuildError::NotRoot);
    }
    match steps::missing_packages() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(BuildError::MissingTools(missing.join(" "))),
    }
}

/// Checks a name by Debian policy 5.6.1, without architecture or version. apt reads no such name as an
/// option.
fn is_package_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    name.len() >= 2 && name.bytes().all(allowed) && name.as_bytes()[0].is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::super::ImageFlavour;
    use super::*;

    #[test]
    fn package_names_are_checked_before_anything_is_done() {
        for good in ["vim", "g++", "libc6", "python3.11", "0ad"] {
            assert!(is_package_name(good), "{good}");
        }
        for bad in ["", "x", "-o", "a b", "../x", "A", "x;y", "vim=1", "vim/sid"] {
            assert!(!is_package_name(bad), "{bad}");
        }
        let cache = tempfile::tempdir().unwrap();
        let store = ImageStore::new(cache.path());
        let builder = Builder::new(store, HostSettings::default(), || UNIX_EPOCH, Cancellation::default());
        let request = ImageRequest { with: vec!["-o".to_owned()], ..ImageRequest::plain(ImageFlavour::Base) };
        let result = builder.ensure(&request, &mut |_| {});
        assert!(matches!(result, Err(BuildError::PackageName(name)) if name == "-o"));
    }

    #[test]
    fn missing_tools_come_with_the_line_to_type() {
        let error = BuildError::MissingTools("mmdebstrap".to_owned());
        assert_eq!(error.hint().as_deref(), Some("apt-get install mmdebstrap"));
    }
}
