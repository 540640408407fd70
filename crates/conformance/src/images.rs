//! Images for tests: trees anywhere on the host, under digests that the contract can name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_sandbox::driver::{ImageDigest, LocalImages};

/// Trees that a driver under test can start sandboxes from. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TestImages {
    trees: Arc<Mutex<Vec<(ImageDigest, PathBuf)>>>,
}

impl TestImages {
    /// Creates a set with one tree, which is also the probe image.
    pub fn of(tree: &Path) -> Self {
        let images = Self::default();
        images.add(tree);
        images
    }

    /// Adds a tree and returns its digest: that of the image store if the tree is in one, otherwise an
    /// invented one.
    pub fn add(&self, tree: &Path) -> ImageDigest {
        let mut trees = self.trees();
        let stored =
            tree.parent().and_then(Path::file_name).and_then(|name| ImageDigest::parse(name.to_str()?));
        let digest = stored.unwrap_or_else(|| numbered(trees.len() + 1));
        trees.push((digest.clone(), tree.to_owned()));
        digest
    }

    fn trees(&self) -> MutexGuard<'_, Vec<(ImageDigest, PathBuf)>> {
        self.trees.lock()
    }
}

impl LocalImages for TestImages {
    fn tree(&self, image: &ImageDigest) -> Option<PathBuf> {
        self.trees().iter().find(|(digest, _)| digest == image).map(|(_, tree)| tree.clone())
    }

    fn probe_image(&self) -> Option<ImageDigest> {
        self.trees().first().map(|(digest, _)| digest.clone())
    }
}

/// Returns the digest of an image that does not exist, for drivers that read none.
pub fn unread_image() -> ImageDigest {
    numbered(0)
}

#[expect(clippy::expect_used, reason = "64 decimal digits are a digest")]
fn numbered(number: usize) -> ImageDigest {
    ImageDigest::parse(&format!("{number:064}")).expect("64 digits")
}
