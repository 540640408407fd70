//! The fake driver keeps the same contract as the real ones; it has no wall, so only the life cycle is held to it.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sandyard_conformance::fake::{FakeDriver, FakeWorld};
use sandyard_conformance::{Session, Subject, TestImages, binding, failures, lifecycle};
use sandyard_sandbox::driver::{Driver, InboundLinks, Limits, Liveness, NetworkIsolation, SandboxId};

fn subject(folder: &std::path::Path) -> Subject {
    let world = FakeWorld::new(&folder.join("world"));
    std::fs::create_dir_all(folder.join("world")).unwrap();
    Subject {
        open: Box::new(move || Arc::new(FakeDriver::new(world.clone())) as Arc<dyn Driver>),
        images: TestImages::default(),
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

/// Machines on another host: no image on this one, links through a door, each server with a door of its own.
fn remote(folder: &std::path::Path) -> (Subject, Arc<FakeWorld>) {
    let subject = subject(folder);
    let world = FakeWorld::new(&folder.join("world"));
    let shared = world.clone();
    let open =
        move || Arc::new(FakeDriver::remote(shared.clone(), InboundLinks::default())) as Arc<dyn Driver>;
    (Subject { open: Box::new(open), ..subject }, world)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_of_remote_machines_can_keep_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let (subject, _) = remote(folder.path());
    assert_eq!((subject.open)().isolation().network, NetworkIsolation::Policy);
    let outcomes = lifecycle(&subject).await.unwrap();
    assert_eq!(failures(&outcomes), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_host_is_away_is_neither_alive_nor_dead() {
    let folder = tempfile::tempdir().unwrap();
    let (subject, world) = remote(folder.path());
    let spec = subject.spec("far-1", Limits::default()).unwrap();
    let session = Session::start((subject.open)(), spec.clone()).await.unwrap();
    world.script(|faults| faults.unreachable = true);
    assert_eq!(session.driver.liveness(&spec.id).await.unwrap(), Liveness::Unknown);
    world.kill(&spec.id).await;
    let dead = tokio::time::timeout(Duration::from_millis(100), session.driver.wait_dead(&spec.id)).await;
    assert!(dead.is_err(), "a machine that nobody can see was called dead");
    world.script(|faults| faults.unreachable = false);
    session.driver.wait_dead(&spec.id).await;
    assert_eq!(session.driver.liveness(&spec.id).await.unwrap(), Liveness::Dead);
    session.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_bound_after_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (subject, world) = remote(folder.path());
    let outcomes = binding(&subject).await.unwrap();
    assert_eq!(failures(&outcomes), Vec::<String>::new());
    let bound = world.bound_limits(&SandboxId::parse("bind-1").unwrap()).unwrap();
    assert_eq!(bound.memory_mib, 128);
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
