//! The conformance suite against the qemu driver, on machines without hardware support.

mod qemu_yard;

use qemu_yard::QemuYard;
use sandyard_sandbox::conformance::{failures, lifecycle, probe, resources};

const NONE: Vec<String> = Vec::new();

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = lifecycle(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    yard.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_right_from_inside() {
    let Some(yard) = QemuYard::open() else { return };
    let directory = std::fs::File::open("/").unwrap();
    let _leaked: Vec<_> = (0..50).map(|_| rustix::io::dup(&directory).unwrap()).collect();
    let outcomes = probe(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
    assert!(outcomes.len() > 100, "only {} checks ran", outcomes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let Some(yard) = QemuYard::open() else { return };
    let outcomes = resources(&yard.subject()).await.unwrap();
    assert_eq!(failures(&outcomes), NONE);
}
