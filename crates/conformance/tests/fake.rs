//! The fake driver keeps the same contract as the real ones; it has no wall, so only the life cycle is held to it.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sandyard_conformance::fake::{FakeDriver, FakeWorld, Faults};
use sandyard_conformance::{DriverSubject, SandboxSession, TestImages, binding, failures, lifecycle};
use sandyard_sandbox::driver::{
    Driver, InboundLinks, Limits, LinkError, Liveness, NetworkIsolation, SandboxId,
};

fn subject(folder: &std::path::Path) -> DriverSubject {
    let world = FakeWorld::new(&folder.join("world"));
    std::fs::create_dir_all(folder.join("world")).unwrap();
    DriverSubject {
        open: Box::new(move || Arc::new(FakeDriver::new(world.clone())) as Arc<dyn Driver>),
        images: TestImages::default(),
        workspaces: folder.join("workspaces"),
        disk_in_memory: false,
        own_kernel: false,
        host_devices: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_drivers_contract() {
    let folder = tempfile::tempdir().unwrap();
    let outcomes = lifecycle(&subject(folder.path())).await.unwrap();
    assert_eq!(failures(&outcomes), Vec::<String>::new());
}

/// Machines on another host: no image on this one, links through a door, each server with a door of its own that can't tell at
/// first which machines live.
fn remote(folder: &std::path::Path) -> (DriverSubject, Arc<FakeWorld>) {
    let subject = subject(folder);
    let world = FakeWorld::new(&folder.join("world"));
    let shared = world.clone();
    let open = move || {
        shared.script(|faults| faults.unknown_lists = 3);
        Arc::new(FakeDriver::remote(shared.clone(), InboundLinks::default())) as Arc<dyn Driver>
    };
    (DriverSubject { open: Box::new(open), ..subject }, world)
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
    let session = SandboxSession::start((subject.open)(), spec.clone()).await.unwrap();
    world.script(|faults| *faults = Faults { unreachable: true, ..Faults::default() });
    assert_eq!(session.driver.find(&spec.id).await.unwrap(), Some(Liveness::Unknown));
    assert!(session.driver.stop(&spec.id).await.is_err(), "a machine out of reach was stopped");
    world.kill(&spec.id).await;
    let moment = Duration::from_millis(100);
    let dead = tokio::time::timeout(moment, session.driver.wait_dead(&spec.id)).await;
    assert!(dead.is_err(), "a machine that nobody can see was called dead");
    let link = tokio::time::timeout(moment, session.driver.next_link(&spec.id)).await;
    assert!(link.is_err(), "a machine that nobody can see was called dead, or linked");
    world.script(|faults| faults.unreachable = false);
    session.driver.wait_dead(&spec.id).await;
    assert!(matches!(session.driver.next_link(&spec.id).await, Err(LinkError::NotRunning(_))));
    assert_eq!(session.driver.find(&spec.id).await.unwrap(), Some(Liveness::Dead));
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
    let session = SandboxSession::start((subject.open)(), spec).await.unwrap();
    session.upload("large", &vec![7; 3 * 1024 * 1024]).await.unwrap();
    assert_eq!(session.machine.stat("large").await.unwrap().size, 3 * 1024 * 1024);
    session.stop().await.unwrap();
}
