//! The recipe, compiled into the program so that an installed `sandyard` needs no checkout, and the digests
//! that name its results.
//!
//! Each flavour's digest covers only the files that take part in making it, so a change to `full` leaves
//! `base` valid.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::manifest::{ManifestError, RecipeManifest};
use super::{ImageArchitecture, ImageDigest, ImageFlavour, ImageRequest};

/// Version of the builder. A change here gives every image a new digest.
const FORMAT: &str = "sandyard image 1";

/// A file of the recipe: its path below `images/agent/` and its text.
struct File {
    path: &'static str,
    text: &'static str,
}

macro_rules! recipe_files {
    ($($path:literal),+ $(,)?) => {
        [$(File {
            path: $path,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../images/agent/", $path)),
        }),+]
    };
}

/// Every file that a build reads; a test compares the list with the directory.
static FILES: &[File] = &recipe_files![
    "flavours/base/manifest",
    "flavours/base/node.lock",
    "flavours/base/packages",
    "flavours/base/python.lock",
    "flavours/dev/manifest",
    "flavours/dev/npm/package-lock.json",
    "flavours/dev/npm/package.json",
    "flavours/dev/packages",
    "flavours/dev/python.lock",
    "flavours/full/manifest",
    "flavours/full/npm/package-lock.json",
    "flavours/full/npm/package.json",
    "flavours/full/packages",
    "flavours/full/python.lock",
    "host/bootstrap-as.sh",
    "host/bootstrap.sh",
    "host/enter.sh",
    "host/mount-tree.sh",
    "scripts/10-packages.sh",
    "scripts/20-users.sh",
    "scripts/30-node.sh",
    "scripts/40-python.sh",
    "scripts/50-npm.sh",
    "scripts/60-jupyter.sh",
    "scripts/70-desktop.sh",
    "scripts/80-dev.sh",
    "scripts/90-finish.sh",
    "scripts/env.sh",
];

/// Writes the recipe below `directory`, scripts executable.
pub(super) fn write_out(directory: &Path) -> io::Result<()> {
    for file in FILES {
        let path = directory.join(file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, file.text)?;
        let mode = if file.path.ends_with(".sh") { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Returns the manifest of a flavour.
pub(super) fn manifest(flavour: ImageFlavour) -> Result<RecipeManifest, ManifestError> {
    let path = format!("flavours/{flavour}/manifest");
    let text = FILES.iter().find(|file| file.path == path).map_or("", |file| file.text);
    RecipeManifest::parse(text)
}

/// Returns the digest of a flavour's recipe with added packages and snapshot, independent of the day of the build.
pub(super) fn recipe_digest(request: &ImageRequest) -> Result<ImageDigest, ManifestError> {
    let flavour = request.flavour;
    let manifest = manifest(flavour)?;
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        // The length goes first, so that two lists with the same concatenation have different digests.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(FORMAT);
    add(request.architecture.as_str());
    add(flavour.as_str());
    if let Some(parent) = manifest.parent {
        let parent = ImageRequest { flavour: parent, with: Vec::new(), ..request.clone() };
        add(recipe_digest(&parent)?.as_str());
    }
    for package in normalised(&request.with) {
        add(&package);
    }
    // No name of a package has this form, and images without a snapshot keep their digest.
    if let Some(snapshot) = &request.snapshot {
        add(&format!("snapshot {snapshot}"));
    }
    for file in FILES.iter().filter(|file| takes_part(file.path, request, &manifest)) {
        add(file.path);
        add(file.text);
    }
    Ok(ImageDigest::of_hash(hash.finalize().into()))
}

/// Returns the digest of one image of a recipe, whose updates are those of `refresh` and of its parent.
pub(super) fn image_digest(recipe: &ImageDigest, parent: Option<&ImageDigest>, refresh: u64) -> ImageDigest {
    let mut hash = Sha256::new();
    hash.update(recipe.as_str());
    hash.update(parent.map_or("-", ImageDigest::as_str));
    hash.update(refresh.to_le_bytes());
    ImageDigest::of_hash(hash.finalize().into())
}

/// Sorts and deduplicates `--with`, so that order and repetition make no other image.
pub(super) fn normalised(with: &[String]) -> Vec<String> {
    let mut packages = with.to_vec();
    packages.sort();
    packages.dedup();
    packages
}

fn takes_part(path: &str, request: &ImageRequest, manifest: &RecipeManifest) -> bool {
    let flavour = request.flavour;
    if let Some(script) = path.strip_prefix("scripts/") {
        return script == "env.sh" || manifest.steps.iter().any(|step| step.script == script);
    }
    if path == "host/bootstrap-as.sh" {
        return request.architecture != ImageArchitecture::native();
    }
    path.starts_with("host/") || path.starts_with(&format!("flavours/{flavour}/"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::super::ArchiveSnapshot;
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|&word| word.to_owned()).collect()
    }

    fn files_below(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                files_below(&entry.path(), &format!("{path}/"), found);
            } else {
                found.insert(path);
            }
        }
    }

    #[test]
    fn the_program_carries_every_file_of_the_recipe() {
        let mut found = BTreeSet::new();
        files_below(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../images/agent"), "", &mut found);
        // People, `make-locks.sh` and `docker build` read these, but not a build of ours.
        let others = ["README.md", "make-locks.sh", "Dockerfile"];
        found.retain(|path| !path.ends_with(".in") && !others.contains(&path.as_str()));
        let carried: BTreeSet<_> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(carried, found);
    }

    #[test]
    fn every_step_of_a_manifest_exists() {
        for flavour in ImageFlavour::ALL {
            for step in manifest(flavour).unwrap().steps {
                let path = format!("scripts/{}", step.script);
                assert!(FILES.iter().any(|file| file.path == path), "{flavour} names {path}");
            }
        }
    }

    #[test]
    fn the_order_of_added_packages_does_not_matter_but_their_set_does() {
        let digest = |with: &[&str]| {
            let request = ImageRequest { with: words(with), ..ImageRequest::plain(ImageFlavour::Base) };
            recipe_digest(&request).unwrap()
        };
        assert_eq!(digest(&["b", "a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a"]), digest(&["a", "b"]));
        assert_ne!(digest(&["ab"]), digest(&["a", "b"]));
        assert_eq!(digest(&[]), digest(&[]));
    }

    #[test]
    fn flavours_parents_and_refreshes_make_different_images() {
        let base = recipe_digest(&ImageRequest::plain(ImageFlavour::Base)).unwrap();
        let full = recipe_digest(&ImageRequest::plain(ImageFlavour::Full)).unwrap();
        assert_ne!(base, full);
        let first = image_digest(&full, Some(&base), 0);
        assert_ne!(first, image_digest(&full, Some(&base), 1));
        assert_ne!(first, image_digest(&full, None, 0));
        assert_eq!(first, image_digest(&full, Some(&base), 0));
    }

    #[test]
    fn a_snapshot_makes_another_image_of_every_flavour() {
        for flavour in ImageFlavour::ALL {
            let digest = |date: Option<&str>| {
                let snapshot = date.map(|date| ArchiveSnapshot::parse(date).unwrap());
                recipe_digest(&ImageRequest { snapshot, ..ImageRequest::plain(flavour) }).unwrap()
            };
            assert_ne!(digest(None), digest(Some("20261101")));
            assert_ne!(digest(Some("20261101")), digest(Some("20261102")));
            assert_eq!(digest(Some("20261101")), digest(Some("20261101T000000Z")));
        }
    }

    #[test]
    fn an_architecture_makes_another_image() {
        let digest = |architecture| {
            recipe_digest(&ImageRequest { architecture, ..ImageRequest::plain(ImageFlavour::Full) }).unwrap()
        };
        assert_ne!(digest(ImageArchitecture::X86), digest(ImageArchitecture::Arm));
    }

    #[test]
    fn base_does_not_depend_on_what_only_full_uses() {
        let base = manifest(ImageFlavour::Base).unwrap();
        let request = ImageRequest::plain(ImageFlavour::Base);
        assert!(takes_part("scripts/30-node.sh", &request, &base));
        assert!(!takes_part("scripts/70-desktop.sh", &request, &base));
        assert!(!takes_part("flavours/full/packages", &request, &base));
    }

    #[test]
    fn the_recipe_names_no_registry() {
        for file in FILES.iter().filter(|file| file.path.ends_with(".json") || file.path.ends_with(".lock")) {
            assert!(!file.text.contains("://"), "{} holds an address", file.path);
        }
    }

    #[test]
    fn scripts_are_written_executable() {
        let directory = tempfile::tempdir().unwrap();
        write_out(directory.path()).unwrap();
        let mode =
            |path: &str| fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("scripts/10-packages.sh"), 0o755);
        assert_eq!(mode("flavours/base/packages"), 0o644);
    }
}
