use std::os::unix::fs::PermissionsExt;

use sandyard_protocol::OutputStream;

use super::super::{BlobErrorKind, BlobNoun, WorkspaceFolders};
use super::*;

fn open_blobs(data: &Path) -> FolderBlobs {
    FolderBlobs::open(data, Scratch::open(data).unwrap()).unwrap()
}

fn keys(job: &JobId) -> Vec<(BlobKey, &'static str)> {
    let key = |noun| BlobKey::new(job, noun);
    vec![
        (key(BlobNoun::RequestText), "input.txt"),
        (key(BlobNoun::ResultArchive), "output.zip"),
        (key(BlobNoun::LastScreenshot), "screenshot.png"),
        (key(BlobNoun::StartPack), "start/pack"),
        (key(BlobNoun::StartTree), "start/tree"),
        (key(BlobNoun::Log(OutputStream::Stdout)), "logs/stdout.log"),
        (key(BlobNoun::Chunk(OutputStream::Stderr, 12)), "logs/stderr/12"),
    ]
}

/// Data folders of earlier releases are read by their names.
#[tokio::test]
async fn every_blob_has_its_place_and_is_for_this_user_alone() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, job) = (open_blobs(data.path()), JobId::from_random([1; 16]));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (key, place) in keys(&job) {
        blobs.put_all(vec![(key, place.into())], Durability::Synced).await.unwrap();
        let path = data.path().join("jobs").join(job.as_str()).join(place);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), place);
        assert_eq!(mode(&path), 0o600, "{place}");
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{place}");
    }
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed_when_the_yard_is_opened() {
    let data = tempfile::tempdir().unwrap();
    let scratch = Scratch::open(data.path()).unwrap();
    // A crash runs no destructors.
    std::mem::forget(scratch.file().unwrap());
    let scratch_folder = data.path().join("scratch");
    std::fs::write(scratch_folder.join("17"), "half").unwrap();
    assert_eq!(std::fs::read_dir(&scratch_folder).unwrap().count(), 2);
    open_blobs(data.path());
    assert_eq!(std::fs::read_dir(&scratch_folder).unwrap().count(), 0);
}

#[tokio::test]
async fn the_workspace_and_foreign_names_are_no_blobs() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, job) = (open_blobs(data.path()), JobId::from_random([1; 16]));
    let workspaces = WorkspaceFolders::new(data.path(), None);
    let disk = workspaces.make(&job).await.unwrap();
    std::fs::write(disk.join("input.txt"), "the driver's").unwrap();
    let folder = disk.parent().unwrap();
    std::fs::write(folder.join("output.partial"), "of an earlier release").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("output.zip")).unwrap();
    std::fs::create_dir(data.path().join("jobs/lost+found")).unwrap();
    let scope = BlobScope::Job(job.clone());
    assert_eq!(blobs.list(&scope, None).await.unwrap(), []);
    assert_eq!(blobs.jobs(None).await.unwrap(), std::slice::from_ref(&job));
    assert_eq!(workspaces.jobs().await.unwrap(), std::slice::from_ref(&job));

    blobs.remove_all(&scope).await.unwrap();
    assert!(disk.join("input.txt").exists(), "the disk is removed by its owner");
    assert!(!folder.join("output.partial").exists());
    assert!(Path::new("/etc/passwd").exists());
    workspaces.remove(&job).await.unwrap();
    workspaces.remove(&job).await.unwrap();
    blobs.remove_all(&scope).await.unwrap();
    assert!(!folder.exists());
    assert!(data.path().join("jobs/lost+found").exists());
}

#[tokio::test]
async fn a_folder_that_can_not_be_written_is_a_passing_error() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, job) = (open_blobs(data.path()), JobId::from_random([1; 16]));
    // A file where the job's folder should be: an error for every user, root too.
    std::fs::write(data.path().join("jobs").join(job.as_str()), "").unwrap();
    let key = BlobKey::new(&job, BlobNoun::ResultArchive);
    let error = blobs.put_all(vec![(key, "x".into())], Durability::Copy).await.unwrap_err();
    assert_eq!(error.kind, BlobErrorKind::Transient);
    assert_eq!(error.to_string(), format!("blob {job}/output.zip can't be read or written now"));
}
