//! Makes the boot files of machines and reports the progress: the disk of a large image takes half a minute.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::interval;

use crate::driver::{ImageDigest, LocalImages, PrepareImageError, ReportProgress, tree_of};
use crate::image::vm::{VmImage, VmImageError, VmImages};

/// Interval between two progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Makes the missing boot files with `make`, and reports the progress.
pub(crate) async fn prepare(
    images: &VmImages,
    trees: &dyn LocalImages,
    image: &ImageDigest,
    report: ReportProgress<'_>,
    make: fn(&VmImages, &Path) -> Result<VmImage, VmImageError>,
) -> Result<(), PrepareImageError> {
    let failed =
        |source| PrepareImageError { step: format!("make a machine's disk of image {image}"), source };
    let image_root = tree_of(trees, image).map_err(failed)?;
    let (makers, root) = (images.clone(), image_root.clone());
    let mut making = tokio::task::spawn_blocking(move || make(&makers, &root));
    let mut looks = interval(REPORT_INTERVAL);
    let made = loop {
        // The finished disk is returned before the next report. The timer only reports; skipping a tick loses
        // nothing. Dropping this future does not stop the blocking task, which finishes its disk for the next
        // caller.
        tokio::select! {
            biased;
            made = &mut making => break made,
            _ = looks.tick() => report(format!("disk of machines {} %", images.percent_of(&image_root))),
        }
    };
    made.map_err(io::Error::other).and_then(|made| made.map_err(io::Error::other)).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use super::*;
    use crate::guest_programs::GuestPrograms;
    use crate::image::ImageStore;

    #[expect(
        clippy::disallowed_methods,
        reason = "stands for work that takes its time, on a thread of its own"
    )]
    fn written_half(_: &VmImages, image_root: &Path) -> Result<VmImage, VmImageError> {
        fs::write(image_root.with_file_name("root.ext4.new"), vec![1; 512 * 1024]).unwrap();
        std::thread::sleep(REPORT_INTERVAL * 3);
        Err(VmImageError::NoKernel)
    }

    #[tokio::test]
    async fn whoever_waits_is_told_how_far_it_is() {
        let cache = tempfile::tempdir().unwrap();
        let digest = ImageDigest::parse(&"1".repeat(64)).unwrap();
        let folder = cache.path().join("images").join(digest.as_str());
        fs::create_dir_all(folder.join("root")).unwrap();
        let manifest = serde_json::json!({
            "flavour": "base", "recipe": "0".repeat(64), "parent": null, "with": [], "refresh": 0, "created_s": 1,
            "build_s": 1, "size_bytes": 1024 * 1024, "entries": 1, "packages": 1,
        });
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        let told = Mutex::new(Vec::new());
        let tell = |word: String| told.lock().unwrap().push(word);
        let failed = prepare(
            &VmImages::new(
                ImageStore::new(cache.path()),
                GuestPrograms { guest: b"", agent: b"", reader: b"" },
            ),
            &ImageStore::new(cache.path()),
            &digest,
            &tell,
            written_half,
        )
        .await;
        assert!(failed.is_err());
        let told = told.into_inner().unwrap();
        assert_eq!(told.last().map(String::as_str), Some("disk of machines 50 %"), "{told:?}");
    }
}
