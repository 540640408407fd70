//! Rows of sandboxes: written with their jobs, deleted once they are stopped.

use super::{StoreHarness, TTL_MS, claim, claimed, new_sandbox, queued, row_of, to};
use crate::job::samples::{self, entry};
use crate::job::{Change, JobState, Purpose, SandboxPhase, SandboxRow};
use crate::store::Store;

async fn sandbox_of(store: &dyn Store, row: &crate::job::JobRow) -> SandboxRow {
    store.sandbox(row.sandbox_id.as_ref().unwrap()).await.unwrap().unwrap()
}

pub(crate) async fn a_sandbox_is_committed_with_its_job_and_goes_once_stopped(harness: &impl StoreHarness) {
    let store = harness.open();
    let waits = queued(store.as_ref()).await;
    let row = store.claim_queued(&waits.id, claim("a")).await.unwrap().unwrap();
    let sandbox = sandbox_of(store.as_ref(), &row).await;
    assert_eq!((sandbox.phase, sandbox.job.as_ref()), (SandboxPhase::Bound, Some(&row.id)));
    assert!(sandbox.created_ms > 0 && sandbox.image.is_none());
    assert!(!sandbox.id.as_str().contains(row.id.as_str()));
    let image = sandyard_sandbox::driver::ImageDigest::parse(&"a".repeat(64)).unwrap();
    store.commit(&row.fence(), vec![Change::SandboxImage(image.clone())]).await.unwrap();
    drop(store);
    let store = harness.open();
    let read = sandbox_of(store.as_ref(), &row).await;
    assert_eq!(read, SandboxRow { image: Some(image), owner: None, ..sandbox.clone() });
    let row = store.claim_orphans("b", TTL_MS).await.unwrap().remove(0);
    let stopped = vec![Change::SandboxStopped(sandbox.id.clone())];
    let row = store.commit(&row.fence(), stopped.clone()).await.unwrap();
    assert_eq!((row.sandbox_id.as_ref(), row.incarnation), (None, 1));
    assert_eq!(store.sandbox(&sandbox.id).await.unwrap(), None);
    store.commit(&row.fence(), stopped).await.unwrap();
    assert!(store.sandboxes().await.unwrap().is_empty(), "twice is once");
}

pub(crate) async fn another_sandbox_leaves_the_one_before_to_be_stopped(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let (second, change) = new_sandbox(Purpose::Run);
    let after = store.commit(&row.fence(), vec![change.clone()]).await.unwrap();
    assert_eq!((after.sandbox_id.as_ref(), after.incarnation, after.attempts), (Some(&second), 2, 2));
    let before = sandbox_of(store.as_ref(), &row).await;
    assert_eq!((before.phase, before.job), (SandboxPhase::Leaving, None));
    let refused = store.commit(&row.fence(), vec![change]).await;
    assert!(refused.is_err(), "an id is never used twice");
    assert_eq!(sandbox_of(store.as_ref(), &after).await.phase, SandboxPhase::Bound, "it left nothing behind");
    let (third, change) = new_sandbox(Purpose::Rescue);
    let rescue = vec![Change::SandboxStopped(second.clone()), change];
    let after = store.commit(&row.fence(), rescue).await.unwrap();
    assert_eq!((after.sandbox_id.as_ref(), after.incarnation, after.attempts), (Some(&third), 3, 2));
    assert_eq!(store.sandbox(&second).await.unwrap(), None);
}

pub(crate) async fn a_job_that_closes_leaves_its_sandbox(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let changes = vec![to(JobState::Failed), Change::Closed];
    let closed = store.commit(&row.fence(), changes).await.unwrap();
    assert_eq!(closed.sandbox_id, None);
    assert_eq!(sandbox_of(store.as_ref(), &row).await.phase, SandboxPhase::Leaving);
    store.remove_sandbox(row.sandbox_id.as_ref().unwrap()).await.unwrap();
    store.remove_sandbox(row.sandbox_id.as_ref().unwrap()).await.unwrap();
    assert!(store.sandboxes().await.unwrap().is_empty());
}

pub(crate) async fn a_removed_job_leaves_its_sandbox(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    store.request_delete(&row.id, entry()).await.unwrap().unwrap();
    store.remove(&row.fence()).await.unwrap();
    let left = sandbox_of(store.as_ref(), &row).await;
    assert_eq!((left.phase, left.job), (SandboxPhase::Leaving, None));
}

pub(crate) async fn a_sandbox_changes_hands_with_its_job(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    store.release_all("a").await.unwrap();
    assert_eq!(sandbox_of(store.as_ref(), &row).await.owner, None);
    store.claim_orphans("b", TTL_MS).await.unwrap();
    assert_eq!(sandbox_of(store.as_ref(), &row).await.owner.as_deref(), Some("b"));
    drop(store);
    let store = harness.open();
    assert_eq!(sandbox_of(store.as_ref(), &row).await.owner, None, "its server is gone");
}

pub(crate) async fn a_parked_sandbox_has_no_job_and_stays(harness: &impl StoreHarness) {
    let store = harness.open();
    let parked = samples::parked_sandbox();
    harness.put_sandbox(&parked);
    let row = claimed(store.as_ref()).await;
    let gone = vec![to(JobState::Failed), Change::Closed];
    store.commit(&row.fence(), gone).await.unwrap();
    assert_eq!(store.sandbox(&parked.id).await.unwrap(), Some(parked.clone()));
    drop(store);
    let store = harness.open();
    assert_eq!(store.sandboxes().await.unwrap().first(), Some(&parked));
}

pub(crate) async fn a_requeued_job_has_no_sandbox(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    store.requeue(&row.fence(), "full".into()).await.unwrap();
    assert_eq!(row_of(store.as_ref(), &row.id).await.sandbox_id, None);
    assert!(store.sandboxes().await.unwrap().is_empty());
}
