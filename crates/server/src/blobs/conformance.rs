//! The contract of [`Blobs`] as tests, for every kind of storage. A new kind adds one line at the end.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandyard_protocol::OutputStream;
use tokio::sync::oneshot;

use super::*;

/// Empty blobs, and the folders they need for as long as the test runs.
struct EmptyBlobs {
    blobs: Arc<dyn Blobs>,
    scratch: Scratch,
    data: tempfile::TempDir,
}

fn folder() -> EmptyBlobs {
    let data = tempfile::tempdir().unwrap();
    let scratch = Scratch::open(data.path()).unwrap();
    let blobs = Arc::new(FolderBlobs::open(data.path(), scratch.clone()).unwrap());
    EmptyBlobs { blobs, scratch, data }
}

fn memory() -> EmptyBlobs {
    let data = tempfile::tempdir().unwrap();
    let scratch = Scratch::open(data.path()).unwrap();
    EmptyBlobs { blobs: Arc::new(MemoryBlobs::default()), scratch, data }
}

/// In a bucket of a double of S3, which ends with the test's runtime.
fn objects() -> EmptyBlobs {
    let data = tempfile::tempdir().unwrap();
    let scratch = Scratch::open(data.path()).unwrap();
    let (_, blobs) = super::objects::s3_double::S3Double::start();
    EmptyBlobs { blobs: Arc::new(blobs), scratch, data }
}

fn job(number: u8) -> JobId {
    JobId::from_random([number; 16])
}

fn result(number: u8) -> BlobKey {
    BlobKey::new(&job(number), BlobNoun::ResultArchive)
}

fn chunk(number: u64) -> BlobKey {
    BlobKey::new(&job(1), BlobNoun::Chunk(OutputStream::Stdout, number))
}

fn pieces(pieces: &[&'static str]) -> BlobStream {
    stream::iter(pieces.to_vec()).map(|piece| Ok(Bytes::from(piece))).boxed()
}

/// Bytes for a put that come in two pieces, the second one when the test says so.
struct GatedSource {
    taken: (Option<oneshot::Sender<()>>, oneshot::Receiver<()>),
    last: (Option<oneshot::Sender<Bytes>>, Option<oneshot::Receiver<Bytes>>),
}

impl GatedSource {
    fn new() -> Self {
        let ((taken, is_taken), (last, given)) = (oneshot::channel(), oneshot::channel());
        Self { taken: (Some(taken), is_taken), last: (Some(last), Some(given)) }
    }

    fn stream(&mut self) -> BlobStream {
        let (taken, last) = (self.taken.0.take().unwrap(), self.last.1.take().unwrap());
        let last = stream::once(async move {
            // Asked for the second piece: the first one has been taken.
            taken.send(()).unwrap();
            last.await.map_err(io::Error::other)
        });
        pieces(&["first "]).chain(last).boxed()
    }

    async fn half_taken(&mut self) {
        (&mut self.taken.1).await.unwrap();
    }

    fn finish(&mut self) {
        self.last.0.take().unwrap().send(Bytes::from("last")).unwrap();
    }
}

impl EmptyBlobs {
    async fn put(&self, key: &BlobKey, text: &'static str) {
        self.blobs.put(key, pieces(&[text]), Durability::Synced).await.unwrap();
    }

    async fn text(&self, key: &BlobKey) -> Option<String> {
        match self.blobs.read(key, BlobRange::Whole).await {
            Ok(bytes) => Some(String::from_utf8(bytes.into()).unwrap()),
            Err(error) => {
                assert_eq!(error.kind, BlobErrorKind::NotFound);
                None
            }
        }
    }

    async fn all(&self, scope: &BlobScope) -> Vec<BlobKey> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.blobs.list(scope, after.as_ref()).await.unwrap();
            let Some(last) = page.last().cloned() else { return all };
            all.extend(page);
            after = Some(last);
        }
    }
}

async fn every_kind_of_put_stores_the_bytes(it: EmptyBlobs) {
    for durability in [Durability::Synced, Durability::Copy] {
        it.blobs.put(&result(1), pieces(&["ab", "", "cd"]), durability).await.unwrap();
        it.blobs.put_all(vec![(chunk(0), "ef".into()), (chunk(1), Bytes::new())], durability).await.unwrap();
    }
    let file = it.scratch.file().unwrap();
    file.handle().unwrap().write_all(b"gh").unwrap();
    it.blobs.put_file(&result(2), file).await.unwrap();
    it.blobs.put_all(Vec::new(), Durability::Synced).await.unwrap();
    for (key, text) in [(result(1), "abcd"), (chunk(0), "ef"), (chunk(1), ""), (result(2), "gh")] {
        assert_eq!(it.text(&key).await.as_deref(), Some(text));
        assert_eq!(it.blobs.length(&key).await.unwrap(), Some(text.len() as u64));
    }
    assert_eq!(std::fs::read_dir(it.data.path().join("scratch")).unwrap().count(), 0);
}

async fn a_range_is_exact_and_one_beyond_the_end_is_damage(it: EmptyBlobs) {
    let key = result(1);
    it.put(&key, "0123456789").await;
    for (start, length, text) in [(0, 10, "0123456789"), (3, 4, "3456"), (9, 1, "9"), (10, 0, ""), (0, 0, "")]
    {
        let range = BlobRange::Bytes { start, length };
        assert_eq!(it.blobs.read(&key, range).await.unwrap(), text);
        let content = it.blobs.get(&key, range).await.unwrap();
        assert_eq!(content.length, length);
        assert_eq!(collect(content).await.unwrap(), text);
    }
    for (start, length) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 2)] {
        let range = BlobRange::Bytes { start, length };
        assert_eq!(it.blobs.read(&key, range).await.unwrap_err().kind, BlobErrorKind::Damaged);
        assert_eq!(it.blobs.get(&key, range).await.err().unwrap().kind, BlobErrorKind::Damaged);
    }
}

async fn a_large_blob_arrives_in_pieces_and_whole(it: EmptyBlobs) {
    let piece = Bytes::from((0..=255).cycle().take(300_000).collect::<Vec<u8>>());
    let pieces: Vec<io::Result<Bytes>> = (0..10).map(|_| Ok(piece.clone())).collect();
    it.blobs.put(&result(1), stream::iter(pieces).boxed(), Durability::Synced).await.unwrap();
    let whole = piece.repeat(10);
    let range = BlobRange::Bytes { start: 1_234_567, length: 1_000_001 };
    let content = it.blobs.get(&result(1), range).await.unwrap();
    assert!(collect(content).await.unwrap() == whole[1_234_567..2_234_568]);
    assert!(it.blobs.read(&result(1), BlobRange::Whole).await.unwrap() == whole);
}

async fn an_absent_blob_is_not_found(it: EmptyBlobs) {
    let range = BlobRange::Bytes { start: 0, length: 0 };
    for range in [BlobRange::Whole, range] {
        assert_eq!(it.blobs.read(&result(1), range).await.unwrap_err().kind, BlobErrorKind::NotFound);
        assert_eq!(it.blobs.get(&result(1), range).await.err().unwrap().kind, BlobErrorKind::NotFound);
    }
    assert_eq!(it.blobs.length(&result(1)).await.unwrap(), None);
    assert_eq!(it.all(&BlobScope::Job(job(1))).await, []);
    assert_eq!(it.blobs.jobs(None).await.unwrap(), []);
    it.blobs.remove(vec![result(1)]).await.unwrap();
    it.blobs.remove_all(&BlobScope::Job(job(1))).await.unwrap();
    it.blobs.remove_all(&BlobScope::Start(job(1))).await.unwrap();
}

async fn a_put_replaces_the_whole_blob(it: EmptyBlobs) {
    it.put(&result(1), "long and old").await;
    it.put(&result(1), "new").await;
    assert_eq!(it.text(&result(1)).await.as_deref(), Some("new"));
    it.blobs.put_all(vec![(result(1), "newer".into())], Durability::Copy).await.unwrap();
    assert_eq!(it.text(&result(1)).await.as_deref(), Some("newer"));
    let file = it.scratch.file().unwrap();
    file.handle().unwrap().write_all(b"newest").unwrap();
    it.blobs.put_file(&result(1), file).await.unwrap();
    assert_eq!(it.text(&result(1)).await.as_deref(), Some("newest"));
}

async fn an_open_blob_is_read_to_its_end(it: EmptyBlobs) {
    it.put(&result(1), "first").await;
    let replaced = it.blobs.get(&result(1), BlobRange::Whole).await.unwrap();
    it.put(&result(1), "second").await;
    let removed = it.blobs.get(&result(1), BlobRange::Whole).await.unwrap();
    it.blobs.remove_all(&BlobScope::Job(job(1))).await.unwrap();
    assert_eq!(collect(replaced).await.unwrap(), "first");
    assert_eq!(collect(removed).await.unwrap(), "second");
}

async fn an_interrupted_put_changes_nothing(it: EmptyBlobs) {
    let broken = || {
        let pieces = [Ok(Bytes::from("half")), Err(io::Error::other("the source broke"))];
        stream::iter(pieces).boxed()
    };
    assert!(it.blobs.put(&result(1), broken(), Durability::Synced).await.is_err());
    assert_eq!(it.text(&result(1)).await, None);
    it.put(&result(1), "old").await;
    assert!(it.blobs.put(&result(1), broken(), Durability::Synced).await.is_err());
    // A put that is cancelled while it waits for its source.
    let (mut source, key) = (GatedSource::new(), result(1));
    let put = it.blobs.put(&key, source.stream(), Durability::Synced);
    tokio::select! {
        put = put => panic!("the put is over: {put:?}"),
        () = source.half_taken() => {}
    }
    assert_eq!(it.text(&result(1)).await.as_deref(), Some("old"));
    assert_eq!(it.all(&BlobScope::Job(job(1))).await, [result(1)]);
    assert_eq!(std::fs::read_dir(it.data.path().join("scratch")).unwrap().count(), 0);
}

async fn a_blob_is_invisible_until_its_put_is_over(it: EmptyBlobs) {
    let (mut source, blobs) = (GatedSource::new(), Arc::clone(&it.blobs));
    let stream = source.stream();
    let put = tokio::spawn(async move { blobs.put(&result(1), stream, Durability::Synced).await });
    source.half_taken().await;
    assert_eq!(it.text(&result(1)).await, None);
    assert_eq!(it.all(&BlobScope::Job(job(1))).await, []);
    source.finish();
    put.await.unwrap().unwrap();
    assert_eq!(it.text(&result(1)).await.as_deref(), Some("first last"));
}

async fn of_puts_at_the_same_time_one_wins_whole(it: EmptyBlobs) {
    let texts: Vec<String> = (0..16).map(|number| format!("{number:02}").repeat(40_000)).collect();
    let puts = texts.iter().map(|text| {
        let (first, second) = text.split_at(30_000);
        let pieces = [first, second].map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes())));
        let blobs = Arc::clone(&it.blobs);
        tokio::spawn(
            async move { blobs.put(&result(1), stream::iter(pieces).boxed(), Durability::Copy).await },
        )
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.unwrap().unwrap();
    }
    let stored = it.text(&result(1)).await.unwrap();
    assert!(texts.contains(&stored), "a mixture of {} bytes", stored.len());
}

async fn a_listing_has_pages_in_order_of_names(it: EmptyBlobs) {
    let count = PAGE_KEYS as u64 + 7;
    let chunks = (0..count).map(|number| (chunk(number), Bytes::new())).collect();
    it.blobs.put_all(chunks, Durability::Copy).await.unwrap();
    for key in [result(1), result(2), BlobKey::new(&job(1), BlobNoun::Log(OutputStream::Stdout))] {
        it.put(&key, "x").await;
    }
    let scope = BlobScope::Chunks(job(1), OutputStream::Stdout);
    assert_eq!(it.blobs.list(&scope, None).await.unwrap().len(), PAGE_KEYS);
    let listed: Vec<String> = it.all(&scope).await.iter().map(BlobKey::name).collect();
    let mut expected: Vec<String> = (0..count).map(|number| chunk(number).name()).collect();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(it.all(&BlobScope::Job(job(1))).await.len() as u64, count + 2);
    assert_eq!(it.all(&BlobScope::Chunks(job(1), OutputStream::Stderr)).await, []);
    assert_eq!(it.blobs.jobs(None).await.unwrap(), [job(1), job(2)]);
    assert_eq!(it.blobs.jobs(Some(&job(1))).await.unwrap(), [job(2)]);
    assert_eq!(it.blobs.jobs(Some(&job(2))).await.unwrap(), []);
}

async fn removal_takes_its_scope_and_no_more(it: EmptyBlobs) {
    let (pack, tree) =
        (BlobKey::new(&job(1), BlobNoun::StartPack), BlobKey::new(&job(1), BlobNoun::StartTree));
    let keys = [result(1), chunk(0), chunk(1), pack, tree, result(2)];
    for key in &keys {
        it.put(key, "x").await;
    }
    it.blobs.remove(vec![chunk(0), chunk(7)]).await.unwrap();
    assert_eq!(it.text(&chunk(0)).await, None);
    it.blobs.remove_all(&BlobScope::Start(job(1))).await.unwrap();
    assert_eq!(it.all(&BlobScope::Job(job(1))).await, [chunk(1), result(1)]);
    it.blobs.remove_all(&BlobScope::Chunks(job(1), OutputStream::Stdout)).await.unwrap();
    assert_eq!(it.all(&BlobScope::Job(job(1))).await, [result(1)]);
    for _ in 0..2 {
        it.blobs.remove_all(&BlobScope::Job(job(1))).await.unwrap();
        assert_eq!(it.blobs.jobs(None).await.unwrap(), [job(2)]);
    }
    assert_eq!(it.text(&result(2)).await.as_deref(), Some("x"));
}

async fn a_removed_job_can_be_stored_again(it: EmptyBlobs) {
    it.put(&chunk(0), "old").await;
    it.blobs.remove_all(&BlobScope::Job(job(1))).await.unwrap();
    it.put(&chunk(0), "new").await;
    assert_eq!(it.text(&chunk(0)).await.as_deref(), Some("new"));
}

macro_rules! conformance {
    ($($case:ident),+ $(,)?) => {
        mod folder_conforms {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() { super::$case(super::folder()).await })+
        }
        mod objects_conform {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() { super::$case(super::objects()).await })+
        }
        mod memory_conforms {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() { super::$case(super::memory()).await })+
        }
    };
}

conformance!(
    every_kind_of_put_stores_the_bytes,
    a_range_is_exact_and_one_beyond_the_end_is_damage,
    a_large_blob_arrives_in_pieces_and_whole,
    an_absent_blob_is_not_found,
    a_put_replaces_the_whole_blob,
    an_open_blob_is_read_to_its_end,
    an_interrupted_put_changes_nothing,
    a_blob_is_invisible_until_its_put_is_over,
    of_puts_at_the_same_time_one_wins_whole,
    a_listing_has_pages_in_order_of_names,
    removal_takes_its_scope_and_no_more,
    a_removed_job_can_be_stored_again,
);
