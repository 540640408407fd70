//! Machines that boot another guest than ours, which floods its console (R11): the worst that a job which has taken over its machine can
//! do there.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandyard_conformance::probe_program;
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, ImageDigest, SandboxSpec};
use sandyard_sandbox::image::ImageStore;
use sandyard_sandbox::image::vm::VmImages;
use tokio::time::{sleep, timeout};

/// Size of a console.
const CONSOLE_BYTES: usize = 64 * 1024;
/// Time for which the flood is watched once the console is full.
const FLOODED: Duration = Duration::from_secs(3);
/// Memory that a monitor may take meanwhile for other reasons than the flood.
const SPARE_KIB: u64 = 16 * 1024;

/// Copies the kernel of the real cache to one of the test's own.
pub(crate) fn copy_kernel(real: &Path, cache: &Path) {
    let kernel = VmImages::new(ImageStore::new(real), PROGRAMS).kernel().unwrap().unwrap().file();
    let from = kernel.parent().unwrap();
    let to = cache.join("kernels").join(from.file_name().unwrap());
    fs::create_dir_all(to.join("modules")).unwrap();
    for name in ["vmlinuz", "kernel.json"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Puts the hostile guest in the place of ours.
pub(crate) async fn plant(driver: &dyn Driver, image: &ImageDigest, cache: &Path) {
    driver.prepare_image(image, &|_| {}).await.unwrap();
    let kernel = VmImages::new(ImageStore::new(cache), PROGRAMS).kernel().unwrap().unwrap().file();
    let files = fs::read_dir(kernel.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_initrd = |path: &std::path::PathBuf| path.to_string_lossy().contains("/initrd-");
    let initrds: Vec<_> = files.filter(is_initrd).collect();
    assert_eq!(initrds.len(), 1, "{initrds:?}");
    fs::write(&initrds[0], initrd(&fs::read(probe_program()).unwrap())).unwrap();
}

/// An archive with one program in it (Documentation/driver-api/early-userspace/buffer-format.rst).
fn initrd(program: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, content) in [("init", 0o100_755, program), ("TRAILER!!!", 0, &[][..])] {
        let fields = [1, mode, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        archive.extend_from_slice(b"070701");
        archive.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        for bytes in [[name.as_bytes(), b"\0"].concat(), content.to_vec()] {
            archive.extend(bytes);
            archive.resize(archive.len().next_multiple_of(4), 0);
        }
    }
    archive
}

/// The console fills up and stays as it is; so does the monitor, which is `pid` to the host, and it can be ended.
pub(crate) async fn expect_bounded(
    driver: &dyn Driver,
    spec: &SandboxSpec,
    said: impl Fn() -> String,
    pid: impl Fn() -> i32,
) {
    driver.start(spec).await.unwrap();
    let full = async {
        // Lines are shown without their carriage returns, so a full console shows a little less than it holds.
        while said().len() < CONSOLE_BYTES * 9 / 10 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let filled = timeout(Duration::from_secs(60) + driver.boot_time(), full).await;
    assert!(filled.is_ok(), "it says no more than {} bytes: {:.600}", said().len(), said());
    let before = resident_kib(pid());
    sleep(FLOODED).await;
    assert!(said().len() <= CONSOLE_BYTES && said().contains("flood flood"), "{:.600}", said());
    let console = fs::metadata(format!("/proc/{}/fd/1", pid())).unwrap().len();
    assert_eq!(console, CONSOLE_BYTES as u64, "the console grew");
    let after = resident_kib(pid());
    assert!(before > 0 && after < before + SPARE_KIB, "{before} KiB grew to {after}");
    timeout(Duration::from_secs(60), driver.stop(&spec.id)).await.unwrap().unwrap();
    assert_eq!(driver.list().await.unwrap(), []);
}

fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
