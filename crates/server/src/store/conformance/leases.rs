//! Leases and fences: one owner at a time, and no write of an earlier one.

use super::{StoreHarness, TTL_MS, claim, claimed, new_job, over, queued, row_of, to};
use crate::job::JobState;
use crate::job::samples::entry;
use crate::store::JobClaim;

pub(crate) async fn a_write_of_an_earlier_owner_is_refused_and_changes_nothing(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    store.release_all("a").await.unwrap();
    let taken = store.claim_orphans("b", TTL_MS).await.unwrap();
    assert_eq!(taken.iter().map(|row| row.epoch).collect::<Vec<_>>(), [2]);
    let refused = store.commit(&row.fence(), vec![to(JobState::Running)]).await.unwrap_err();
    assert!(refused.is_stale() && !refused.is_transient());
    assert!(store.requeue(&row.fence(), "full".into()).await.unwrap_err().is_stale());
    assert!(store.remove(&row.fence()).await.unwrap_err().is_stale());
    assert_eq!(row_of(store.as_ref(), &row.id).await, taken[0]);
    assert!(store.renew("a", TTL_MS).await.unwrap().is_empty());
    assert_eq!(store.renew("b", TTL_MS).await.unwrap(), [taken[0].fence()]);
}

pub(crate) async fn a_lease_that_ran_out_can_not_be_renewed(harness: &impl StoreHarness) {
    let store = harness.open();
    let claim = JobClaim { ttl_ms: 0, ..claim("a") };
    store.insert(new_job(), Some(claim)).await.unwrap();
    assert!(store.renew("a", TTL_MS).await.unwrap().is_empty());
    assert_eq!(store.claim_orphans("a", TTL_MS).await.unwrap().len(), 1);
    assert!(store.claim_orphans("b", TTL_MS).await.unwrap().is_empty(), "it is held now");
}

pub(crate) async fn a_job_is_claimed_once(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = queued(store.as_ref()).await;
    let owners: Vec<String> = (0..20).map(|number| format!("owner {number}")).collect();
    let claims = owners.iter().map(|owner| store.claim_queued(&row.id, claim(owner)));
    let taken = futures_util::future::join_all(claims).await;
    assert_eq!(taken.into_iter().filter(|taken| taken.as_ref().unwrap().is_some()).count(), 1);
    let row = row_of(store.as_ref(), &row.id).await;
    assert_eq!((row.epoch, row.incarnation, row.state), (1, 1, JobState::Starting));
    assert_eq!(store.sandboxes().await.unwrap().len(), 1, "a claim that lost leaves no sandbox");
}

pub(crate) async fn orphans_are_begun_jobs_without_an_owner(harness: &impl StoreHarness) {
    let store = harness.open();
    let (waits, deleted) = (queued(store.as_ref()).await, queued(store.as_ref()).await);
    let (held, ended) = (claimed(store.as_ref()).await, over(store.as_ref()).await);
    store.request_delete(&deleted.id, entry()).await.unwrap().unwrap();
    let ids = |rows: Vec<crate::job::JobRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(store.claim_orphans("b", TTL_MS).await.unwrap()), [deleted.id]);
    store.release_all("a").await.unwrap();
    assert_eq!(ids(store.claim_orphans("b", TTL_MS).await.unwrap()), [held.id]);
    store.request_delete(&ended.id, entry()).await.unwrap().unwrap();
    assert_eq!(ids(store.claim_orphans("b", TTL_MS).await.unwrap()), [ended.id], "it is to be removed");
    assert_eq!(row_of(store.as_ref(), &waits.id).await, waits);
}

pub(crate) async fn the_queue_is_in_order_of_arrival(harness: &impl StoreHarness) {
    let store = harness.open();
    let mut rows = Vec::new();
    for _ in 0..4 {
        rows.push(queued(store.as_ref()).await);
    }
    store.claim_queued(&rows[1].id, claim("a")).await.unwrap().unwrap();
    let waiting = store.queued(0, 2).await.unwrap();
    assert_eq!(waiting, [rows[0].clone(), rows[2].clone()]);
    assert_eq!(store.queued(rows[2].number, 2).await.unwrap(), [rows[3].clone()]);
}

pub(crate) async fn a_requeued_job_is_free_again(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    store.requeue(&row.fence(), "the host is full".into()).await.unwrap();
    let back = row_of(store.as_ref(), &row.id).await;
    assert_eq!((back.state, back.reason.as_deref()), (JobState::Queued, Some("the host is full")));
    let again = store.claim_queued(&row.id, claim("b")).await.unwrap().unwrap();
    assert_eq!((again.epoch, again.attempts), (2, 2));
}

pub(crate) async fn leases_end_with_the_store(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    drop(store);
    let store = harness.open();
    let taken = store.claim_orphans("b", TTL_MS).await.unwrap();
    assert_eq!(taken.iter().map(|row| &row.id).collect::<Vec<_>>(), [&row.id]);
    assert_eq!(store.renew("b", TTL_MS).await.unwrap(), [taken[0].fence()]);
}
