//! The fake driver keeps the same contract as the real ones; it has no wall, so only the life cycle is held to it.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

use std::sync::Arc;

use sandyard_sandbox::conformance::{Session, Subject, failures, lifecycle};
use sandyard_sandbox::driver::{Driver, Limits};
use sandyard_sandbox::drivers::fake::{FakeDriver, FakeWorld};

fn subject(folder: &std::path::Path) -> Subject {
    let world = FakeWorld::new(&folder.join("world"));
    std::fs::create_dir_all(folder.join("world")).unwrap();
    Subject {
        open: Box::new(move || Arc::new(FakeDriver::new(world.clone())) as Arc<dyn Driver>),
        image_root: "/".into(),
        workspaces: folder.join("workspaces"),
        disk_in_memory: false,
        own_kernel: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let folder = tempfile::tempdir().unwrap();
    let outcomes = lifecycle(&subject(folder.path())).await.unwrap();
    assert_eq!(failures(&outcomes), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_a_file_larger_than_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let subject = subject(folder.path());
    let spec = subject.spec("large-1", Limits::default()).unwrap();
    let session = Session::start((subject.open)(), spec).await.unwrap();
    session.upload("large", &vec![7; 3 * 1024 * 1024]).await.unwrap();
    assert_eq!(session.machine.stat("large").await.unwrap().size, 3 * 1024 * 1024);
    session.stop().await.unwrap();
}
