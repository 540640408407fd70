//! Audits: one chain for each job, whoever adds to it, with a head that is signed in the same commit.

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::{StoreHarness, claimed, row_of, to};
use crate::audit::{AuditActor, AuditEntry, AuditFacts, CallerFacts, EgressFacts, PublicKey, YARD_CHAIN};
use crate::job::samples::entry;
use crate::job::{Change, JobId, JobState, NotedEntry, audit_head};
use crate::store::{AuditOf, Store};

/// NotedEntries of one kind that have a record each before they are folded; see `job/audit_row`.
const DETAILED_RECORDS: usize = 4000;

/// The whole audit of a job as text, with its head.
async fn audit_text(store: &dyn Store, id: &JobId) -> String {
    let row = row_of(store, id).await;
    let lines = store.audit(AuditOf::Job(row.number), 1, usize::MAX >> 1).await.unwrap();
    let head = audit_head(&row).unwrap();
    lines.into_iter().map(|line| line.text + "\n").collect::<String>() + &head.line()
}

/// The number of records of a sound audit.
fn records(text: &str) -> u64 {
    let head: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let key: PublicKey = head["head"]["key"].as_str().unwrap().parse().unwrap();
    let verdict = crate::audit::verify_lines(text, Some(key)).unwrap();
    assert!(verdict.faults.is_empty(), "{:?}", verdict.faults);
    verdict.records
}

pub(crate) async fn an_audit_is_one_chain_whoever_writes(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let noted = |count: usize| vec![entry(); count];
    let stale = store.note(&row.id, Some(row.epoch + 1), noted(1)).await.unwrap_err();
    assert!(stale.is_stale());
    // NotedEntries and commits at once, which a store may put into transactions of their own.
    let fence = row.fence();
    let owners = join_all((0..50).map(|_| store.note(&row.id, Some(row.epoch), noted(2))));
    let anyone = join_all((0..50).map(|_| store.note(&row.id, None, noted(1))));
    let commits = join_all((0..50).map(|_| store.commit(&fence, vec![Change::Audit(entry())])));
    let (owners, anyone, commits) = tokio::join!(owners, anyone, commits);
    assert!(owners.into_iter().chain(anyone).all(|noted| noted.unwrap().is_some()));
    assert!(commits.into_iter().all(|row| row.is_ok()));
    let text = audit_text(store.as_ref(), &row.id).await;
    // The first record, the claim's state, and what was written above.
    assert_eq!(records(&text), 2 + 100 + 50 + 50);
    drop(store);
    let store = harness.open();
    assert_eq!(audit_text(store.as_ref(), &row.id).await, text, "notes outlive a store");
    assert_eq!(store.audit(AuditOf::Job(row.number), 3, 2).await.unwrap()[1].number, 4);
    store.request_delete(&row.id, entry()).await.unwrap().unwrap();
    assert_eq!(store.note(&row.id, None, noted(1)).await.unwrap(), None, "a deleted job is unknown");
}

pub(crate) async fn the_yards_audit_names_who_removed_a_job_that_is_gone(harness: &impl StoreHarness) {
    let store = harness.open();
    let empty = store.yard_audit().await.unwrap().signed_head(YARD_CHAIN).line();
    assert_eq!(records(&empty), 0);
    let by = |who: &str| CallerFacts { by: who.to_owned(), over: None };
    let act = |facts| AuditEntry::new(AuditActor::Operator, facts);
    let row = claimed(store.as_ref()).await;
    store.request_cancel(&row.id, act(AuditFacts::Cancel(by("key:one")))).await.unwrap().unwrap();
    store.request_cancel(&row.id, act(AuditFacts::Cancel(by("key:again")))).await.unwrap().unwrap();
    let gone = store.request_delete(&row.id, act(AuditFacts::Delete(by("key:two")))).await.unwrap().unwrap();
    assert!(store.request_delete(&row.id, act(AuditFacts::Delete(by("key:late")))).await.unwrap().is_none());
    store.remove(&row.fence()).await.unwrap();
    drop(store);
    let store = harness.open();
    let end = store.yard_audit().await.unwrap();
    let lines = store.audit(AuditOf::Yard, 1, 10).await.unwrap();
    let text = lines.iter().map(|line| line.text.clone() + "\n").collect::<String>();
    assert_eq!(
        records(&(text + &end.signed_head(YARD_CHAIN).line())),
        2,
        "a request that changes nothing adds nothing"
    );
    let facts = |line: usize| -> serde_json::Value {
        let record: serde_json::Value = serde_json::from_str(&lines[line].text).unwrap();
        assert_eq!(record["facts"]["job"], row.id.as_str());
        record["facts"].clone()
    };
    assert_eq!((&facts(0)["by"], &facts(1)["by"]), (&"key:one".into(), &"key:two".into()));
    let head = gone.audit.unwrap().head;
    assert_eq!(facts(1)["audit"]["head"], head.as_str(), "a copy of the job's audit can be compared");
    assert_eq!(store.audit(AuditOf::Yard, 2, 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_refused_change_leaves_no_record(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let before = audit_text(store.as_ref(), &row.id).await;
    let illegal = vec![Change::Audit(entry()), to(JobState::Queued), to(JobState::Succeeded)];
    assert!(store.commit(&row.fence(), illegal).await.is_err());
    assert_eq!(audit_text(store.as_ref(), &row.id).await, before);
}

pub(crate) async fn notes_do_not_wake_and_are_folded(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let mut watch = store.watch(&row.id);
    let facts = AuditFacts::Egress(EgressFacts::allowed("host:443".to_owned()));
    let call = AuditEntry::new(AuditActor::Job, facts);
    let notes = store.note(&row.id, None, vec![call.clone(); DETAILED_RECORDS + 2]).await.unwrap().unwrap();
    assert_eq!((notes.noted[0], notes.is_over), (NotedEntry::Record(3), false));
    assert_eq!(notes.noted[DETAILED_RECORDS..], [NotedEntry::Folded, NotedEntry::Folded]);
    assert!(watch.changed().now_or_never().is_none());
    let folded = row_of(store.as_ref(), &row.id).await.audit.unwrap();
    drop(store);
    let store = harness.open();
    assert_eq!(row_of(store.as_ref(), &row.id).await.audit.unwrap(), folded, "an open fold is kept");
    assert_eq!(records(&audit_text(store.as_ref(), &row.id).await), 2 + DETAILED_RECORDS as u64);
    let failed = vec![to(JobState::Failed), Change::Closed];
    store.claim_orphans("b", 1000).await.unwrap();
    let row = row_of(store.as_ref(), &row.id).await;
    store.commit(&row.fence(), failed).await.unwrap();
    // The fold has its record before that of the last state.
    assert_eq!(records(&audit_text(store.as_ref(), &row.id).await), 4 + DETAILED_RECORDS as u64);
}
