//! Texts that are kept behind journals.

use bytes::Bytes;
use futures_util::FutureExt;
use sandyard_memory::{ContentDigest, SourceOrigin};
use sandyard_protocol::{JournalEntry, limits};

use super::{StoreHarness, claimed, row_of, tasks};
use crate::job::{Change, NewText, NewTextBody, StoredText, TextRow};

fn text(path: &str, words: &'static str, body: NewTextBody) -> NewText {
    let digest = ContentDigest::of(words.as_bytes());
    let origin = SourceOrigin::File;
    NewText { origin, path: path.into(), digest, bytes: words.len() as u64, body }
}

fn inline(packed: &'static [u8]) -> NewTextBody {
    NewTextBody::Inline(Bytes::from_static(packed))
}

fn numbers(texts: &[TextRow]) -> Vec<(u64, u64)> {
    texts.iter().map(|text| (text.number, text.entry)).collect()
}

pub(crate) async fn texts_are_counted_named_by_their_content_and_outlive_the_store(
    harness: &impl StoreHarness,
) {
    let store = harness.open();
    let row = tasks::running_task(store.as_ref()).await;
    let mut watch = store.watch(&row.id);
    let first =
        vec![text("a.py", "one", inline(b"packed one")), text("b.py", "two", NewTextBody::Blob(70_000))];
    store.keep_texts(&row.id, Some(row.epoch), first).await.unwrap().unwrap();
    assert!(watch.changed().now_or_never().is_none(), "nobody is woken");
    let nudge = Box::new(JournalEntry::Nudge { text: "two".into() });
    store.append(&row.fence(), 2, nudge).await.unwrap();
    let again = vec![text("a.py", "one", NewTextBody::Known), text("a.py", "lost", NewTextBody::Known)];
    store.keep_texts(&row.id, None, again).await.unwrap().unwrap();
    drop(store);
    let store = harness.open();
    let all = store.texts(row.number, 1, 100).await.unwrap();
    // With an epoch they belong to the entry that follows, without one to the last.
    assert_eq!(numbers(&all), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    assert_eq!((all[0].path.as_str(), all[0].origin, all[0].bytes), ("a.py", SourceOrigin::File, 3));
    assert_eq!(numbers(&store.texts(row.number, 2, 2).await.unwrap()), [(2, 2), (3, 2)]);
    assert_eq!(numbers(&store.texts_at(row.number, 2, 3).await.unwrap()), [(1, 2), (2, 2), (3, 2)]);
    assert_eq!(numbers(&store.texts_of(row.number, "a.py", 3, 2).await.unwrap()), [(4, 2), (3, 2)]);
    assert_eq!(store.texts_of(row.number, "a.py", 2, 9).await.unwrap(), []);
    let stored = |words: &'static str| store.text(row.number, ContentDigest::of(words.as_bytes()));
    assert_eq!(stored("one").await.unwrap(), Some(StoredText::Inline(Bytes::from_static(b"packed one"))));
    assert_eq!(stored("two").await.unwrap(), Some(StoredText::Blob));
    assert_eq!(stored("lost").await.unwrap(), None);
    let after = row_of(store.as_ref(), &row.id).await;
    assert!(after.journal_bytes >= row.journal_bytes + 70_010 && after.texts == 4);
    assert!(after.revision > row.revision, "caches notice");
}

pub(crate) async fn texts_are_kept_for_jobs_of_every_kind_and_by_present_owners(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = claimed(store.as_ref()).await;
    let one = || vec![text("shell", "one", inline(b"1"))];
    store.keep_texts(&row.id, None, one()).await.unwrap().unwrap();
    assert_eq!(numbers(&store.texts(row.number, 1, 9).await.unwrap()), [(1, 0)], "there is no journal");
    let stale = store.keep_texts(&row.id, Some(row.epoch + 1), one()).await.unwrap_err();
    assert!(stale.is_stale());
    let unknown = crate::job::random_id().unwrap();
    assert_eq!(store.keep_texts(&unknown, None, one()).await.unwrap(), None);
}

pub(crate) async fn texts_leave_the_journal_its_room(harness: &impl StoreHarness) {
    let store = harness.open();
    let row = tasks::running_task(store.as_ref()).await;
    let large = NewTextBody::Blob(limits::JOURNAL_BYTES / 2);
    store.keep_texts(&row.id, None, vec![text("a", "large", large)]).await.unwrap().unwrap();
    let found = store.texts(row.number, 1, 9).await.unwrap();
    assert_eq!(numbers(&found), [(1, 1)], "it is named");
    assert_eq!(store.text(row.number, found[0].digest).await.unwrap(), None, "its bytes are lost");
    let nudge = JournalEntry::Nudge { text: "on".into() };
    store.commit(&row.fence(), vec![Change::Journal(Box::new(nudge))]).await.unwrap();
}
