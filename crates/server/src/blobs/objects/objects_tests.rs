//! What is true of object stores alone; the promises of all blobs are in `conformance`.

use std::io;
use std::time::Duration;

use sandyard_protocol::OutputStream;

use super::s3_double::S3Double;
use super::*;
use crate::blobs::{BlobNoun, collect};

fn result(number: u8) -> BlobKey {
    BlobKey::new(&JobId::from_random([number; 16]), BlobNoun::ResultArchive)
}

/// Of a bit more than three parts.
fn large() -> Vec<Bytes> {
    (0..27_u8).map(|number| Bytes::from(vec![number; 1024 * 1024])).collect()
}

fn pieces(pieces: Vec<Bytes>) -> BlobStream {
    stream::iter(pieces.into_iter().map(Ok)).boxed()
}

#[tokio::test]
async fn a_large_blob_goes_in_parts_and_is_whole() {
    let (double, blobs) = S3Double::start();
    blobs.put(&result(1), pieces(large()), Durability::Synced).await.unwrap();
    assert_eq!(double.names(), [format!("yard/below/here/{}", result(1).name())]);
    assert_eq!(double.unfinished_uploads(), 0);
    let whole = blobs.read(&result(1), BlobRange::Whole).await.unwrap();
    assert!(whole == large().concat());
    let range = BlobRange::Bytes { start: 8 * 1024 * 1024 - 5, length: 10 };
    let content = blobs.get(&result(1), range).await.unwrap();
    assert_eq!(collect(content).await.unwrap(), [vec![7; 5], vec![8; 5]].concat());
}

#[tokio::test]
async fn an_upload_that_breaks_is_given_up() {
    let (double, blobs) = S3Double::start();
    let broken = stream::iter([Err(io::Error::other("the source broke"))]);
    let broken = pieces(large()).chain(broken).boxed();
    assert!(blobs.put(&result(1), broken, Durability::Synced).await.is_err());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while double.unfinished_uploads() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "parts are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(double.names(), [""; 0]);
}

#[tokio::test]
async fn a_store_that_puts_requests_off_is_asked_again() {
    let (double, blobs) = S3Double::start();
    double.refuse_every(5);
    let job = JobId::from_random([1; 16]);
    let chunks = (0..30).map(|number| {
        let key = BlobKey::new(&job, BlobNoun::Chunk(OutputStream::Stdout, number));
        (key, Bytes::from(number.to_string()))
    });
    blobs.put_all(chunks.collect(), Durability::Synced).await.unwrap();
    blobs.put(&result(1), pieces(large()), Durability::Synced).await.unwrap();
    assert_eq!(blobs.list(&BlobScope::Job(job.clone()), None).await.unwrap().len(), 31);
    blobs.remove_all(&BlobScope::Job(job)).await.unwrap();
    assert_eq!(double.names(), [""; 0]);
}

#[tokio::test]
async fn objects_of_others_are_left_alone() {
    let (double, blobs) = S3Double::start();
    let name = blobs.below("lost+found/x");
    blobs.bucket.objects.put(&name, Bytes::from("y").into()).await.unwrap();
    assert_eq!(blobs.jobs(None).await.unwrap(), []);
    assert_eq!(double.names().len(), 1);
}
