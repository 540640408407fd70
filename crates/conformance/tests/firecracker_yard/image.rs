//! An image of which nothing boots: enough for the double.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Names by content, of which there is none.
const DIGEST: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A cache with a kernel and the disk of an image.
pub(crate) fn make(cache: &Path) {
    let kernel = cache.join("kernels").join(DIGEST);
    fs::create_dir_all(kernel.join("modules")).unwrap();
    fs::write(kernel.join("vmlinuz"), b"\x7fELF, but not much of it").unwrap();
    fs::write(kernel.join("kernel.json"), r#"{"since_s":1}"#).unwrap();
    let root = root(cache);
    fs::create_dir_all(&root).unwrap();
    fs::write(root.with_file_name("root.ext4"), vec![0; 4096]).unwrap();
}

/// The tree of the image.
pub(crate) fn root(cache: &Path) -> PathBuf {
    cache.join("images").join(DIGEST).join("root")
}
