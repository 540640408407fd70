//! Machines on another host: a server that can't tell whether they live neither gives them up nor starts others beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandyard_server::app::{FailureCode, JobState};
use sandyard_server::fail_points::FailPoints;
use sandyard_testkit::{TestYard, shell};

/// Longer than a server takes to link, look and decide.
const WHILE: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn an_unseen_machine_is_adopted_by_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let yard = TestYard::remote(|_| {}).await.unwrap();
    let script = format!("echo begun; while [ ! -e {0} ]; do sleep 0.02; done; echo went on", go.display());
    let id = yard.schedule(shell(&script)).await.unwrap();
    yard.wait(&id, "its first line", |status| status.stdout_tail == "begun\n").await.unwrap();
    yard.world.script(|faults| faults.unreachable = true);
    let yard = yard.crash().restart().await.unwrap();
    std::fs::write(&go, "").unwrap();
    // The link does not depend on the driver's view of the host.
    yard.wait(&id, "its last line", |status| status.stdout_tail == "begun\nwent on\n").await.unwrap();
    yard.world.script(|faults| faults.unreachable = false);
    let status = yard.ended(&id).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!(yard.world.started().len(), 1);
    assert_eq!(yard.world.breaches(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_died_unseen_is_given_up_only_when_that_is_known() {
    let yard = TestYard::remote(|_| {}).await.unwrap();
    let id = yard.schedule(shell("echo begun; sleep 60")).await.unwrap();
    yard.wait(&id, "its first line", |status| status.stdout_tail == "begun\n").await.unwrap();
    yard.world.script(|faults| faults.unreachable = true);
    yard.world.kill(&yard.sandboxes(&id)[0]).await;
    let yard = yard.crash().restart().await.unwrap();
    tokio::time::sleep(WHILE).await;
    yard.wait(&id, "still running", |status| status.state == JobState::Running).await.unwrap();
    yard.world.script(|faults| faults.unreachable = false);
    let status = yard.ended(&id).await.unwrap();
    assert_eq!(status.error.clone().map(|failure| failure.code), Some(FailureCode::SandboxDied));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_second_machine_is_started_beside_one_that_is_unseen() {
    let hit = Arc::new(AtomicBool::new(false));
    let reached = Arc::clone(&hit);
    let points = FailPoints::with(move |place| place == "started" && !reached.swap(true, Ordering::SeqCst));
    let yard = TestYard::remote(|config| config.fail_points = points).await.unwrap();
    let id = yard.schedule(shell("echo done")).await.unwrap();
    yard.wait_world("a machine runs", |world| world.alive().len() == 1).await.unwrap();
    yard.world.script(|faults| faults.unreachable = true);
    let yard = yard.crash().restart().await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(yard.world.started().len(), 1, "a second machine was started");
    yard.world.script(|faults| faults.unreachable = false);
    let status = yard.ended(&id).await.unwrap();
    assert_eq!(status.state, JobState::Succeeded, "{status:?}");
    assert_eq!(yard.world.started().len(), 1);
    assert_eq!(yard.world.breaches(), Vec::<String>::new());
}
