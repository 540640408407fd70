//! Finds the images of the cache that a process of this machine uses. Sandboxes mount the tree; virtual machines hold the disk
//! beside it open or mount it in their jail; a process that converts an image reads it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sandyard_sandbox::image::{Image, ImageDigest};

/// Returns the `images` that are in use. A process of another user, whose tables can't be read, is not counted.
pub(crate) fn of(images: &[Image]) -> Vec<ImageDigest> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let traces: BTreeSet<String> = processes.flat_map(|process| traces_of(&process.path())).collect();
    let is_used = |image: &&Image| traces.iter().any(|trace| trace.contains(image.digest.as_str()));
    images.iter().filter(is_used).map(|image| image.digest.clone()).collect()
}

/// Returns the paths that a process has mounted or holds open.
fn traces_of(process: &Path) -> Vec<String> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let open = open.map(|path| path.to_string_lossy().into_owned());
    open.chain(fs::read_to_string(process.join("mountinfo")).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use sandyard_sandbox::image::ImageStore;

    use super::*;

    /// A QEMU machine mounts nothing: its disk is a descriptor.
    #[test]
    fn an_image_whose_disk_is_open_is_in_use_and_its_neighbour_is_not() {
        let cache = tempfile::tempdir().unwrap();
        for digit in ["a", "b"] {
            let folder = cache.path().join("images").join(digit.repeat(64));
            fs::create_dir_all(folder.join("root")).unwrap();
            fs::write(folder.join("root.ext4"), "").unwrap();
            let facts = serde_json::json!({"flavour": "base", "recipe": "0".repeat(64), "parent": null, "with": [],
                "refresh": 0, "created_s": 0, "build_s": 0, "size_bytes": 0, "entries": 0, "packages": 0});
            fs::write(folder.join("manifest.json"), facts.to_string()).unwrap();
        }
        let images = ImageStore::new(cache.path()).list().unwrap();
        assert_eq!((images.len(), of(&images)), (2, Vec::new()));
        let disk = File::open(images[0].root.with_file_name("root.ext4")).unwrap();
        assert_eq!(of(&images), [images[0].digest.clone()]);
        drop(disk);
        assert_eq!(of(&images), []);
    }
}
