//! Which images of the cache some process of this machine uses: sandboxes have the tree mounted, virtual machines hold the disk beside
//! it open or have it mounted in their jail, and whoever makes another form reads it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sandyard_sandbox::image::{Image, ImageDigest};

/// Those of `images` that are in use. A process whose tables can't be read, because it is another user's, is not counted.
pub(crate) fn of(images: &[Image]) -> Vec<ImageDigest> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let traces: BTreeSet<String> = processes.flat_map(|process| traces_of(&process.path())).collect();
    let is_used = |image: &&Image| traces.iter().any(|trace| trace.contains(image.digest.as_str()));
    images.iter().filter(is_used).map(|image| image.digest.clone()).collect()
}

/// What a process has mounted, and what it holds open.
fn traces_of(process: &Path) -> Vec<String> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let open = open.map(|path| path.to_string_lossy().into_owned());
    open.chain(fs::read_to_string(process.join("mountinfo")).ok()).collect()
}
