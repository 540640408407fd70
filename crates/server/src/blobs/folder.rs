//! Blobs as files below the data directory: the blob `<job>/output.zip` is the file `jobs/<job>/output.zip`.
//!
//! Folders and files are for this user alone. A blob is written in the scratch folder, synced and renamed into its place, and
//! then its folder is synced: at every moment the place holds the old file, the new one, or none.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;

use super::{
    BlobContent, BlobError, BlobKey, BlobRange, BlobScope, BlobStream, Blobs, Durability, PAGE_KEYS, Scratch,
    ScratchFile, read_file,
};
use crate::disk;
use crate::job::JobId;

/// Stands for a key in errors that concern no single one.
const ALL: &str = "*";

/// The name of a workspace in the folder of its job. It is no blob, so it is passed over.
pub(super) const WORKSPACE: &str = "workspace";

/// Blobs in a folder of this host.
#[derive(Debug, Clone)]
pub(crate) struct FolderBlobs {
    jobs: PathBuf,
    scratch: Scratch,
}

impl FolderBlobs {
    /// The blobs below a data directory; makes their folder if it is missing.
    pub(crate) fn open(data: &Path, scratch: Scratch) -> io::Result<Self> {
        let jobs = data.join("jobs");
        disk::make_folder(&jobs)?;
        Ok(Self { jobs, scratch })
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.jobs.join(key.name())
    }

    /// Puts written files into their places: all syncs are requested before the first rename, and each folder is synced once.
    fn place(&self, files: Vec<(BlobKey, ScratchFile)>, durability: Durability) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for (key, file) in &files {
            // The bytes reach the disk before the name does: otherwise a power failure could leave a name without bytes.
            file.sync(durability)?;
            if let Some(folder) = self.path(key).parent() {
                folders.insert(folder.to_owned());
            }
        }
        for folder in &folders {
            // After the syncs, before the first rename: a failure up to here leaves no new name.
            disk::make_folder(folder)?;
        }
        for (key, file) in files {
            file.rename(&self.path(&key))?;
        }
        if durability == Durability::Synced {
            for folder in folders {
                // A rename is durable only once its folder is synced. Without it, a committed row could name a blob that a
                // power cut undid.
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(())
    }

    fn write_all(&self, blobs: &[(BlobKey, Bytes)], durability: Durability) -> io::Result<()> {
        let mut files = Vec::with_capacity(blobs.len());
        for (key, bytes) in blobs {
            let file = self.scratch.file()?;
            file.handle()?.write_all(bytes)?;
            files.push((key.clone(), file));
        }
        self.place(files, durability)
    }

    async fn write_stream(
        &self,
        key: BlobKey,
        mut bytes: BlobStream,
        durability: Durability,
    ) -> io::Result<()> {
        let blobs = self.clone();
        let file = disk::blocking(move || blobs.scratch.file()).await?;
        // A put that is cancelled from here on drops `file`, which removes the scratch file.
        let mut output = tokio::fs::File::from_std(file.handle()?);
        while let Some(piece) = bytes.next().await {
            output.write_all(&piece?).await?;
        }
        // tokio's file writes on another thread; without the flush the last write may still be under way, or its error unseen.
        output.flush().await?;
        let blobs = self.clone();
        disk::blocking(move || blobs.place(vec![(key, file)], durability)).await
    }

    /// Returns the keys in a scope, in order of their names. Never enters the workspace: its content belongs to the sandbox.
    fn keys(&self, scope: &BlobScope) -> io::Result<Vec<BlobKey>> {
        let mut names = Vec::new();
        let prefix = scope.prefix();
        self.collect_names(prefix.trim_end_matches('/'), &mut names)?;
        names.sort_unstable();
        // Files of other names are leftovers of earlier releases. They are removed with their job.
        Ok(names.iter().filter_map(|name| BlobKey::parse(name)).collect())
    }

    fn collect_names(&self, below: &str, names: &mut Vec<String>) -> io::Result<()> {
        for entry in entries(&self.jobs.join(below))? {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{below}/{name}");
            let kind = entry.file_type()?;
            if kind.is_file() {
                names.push(name);
            // `file_type` does not follow links, so a link can't lead the listing out of the job's folder.
            } else if kind.is_dir() && entry.file_name() != WORKSPACE {
                self.collect_names(&name, names)?;
            }
        }
        Ok(())
    }

    fn remove_scope(&self, scope: &BlobScope) -> io::Result<()> {
        let BlobScope::Job(job) = scope else {
            return disk::remove_tree(&self.jobs.join(scope.prefix()));
        };
        let folder = self.jobs.join(job.as_str());
        for entry in entries(&folder)? {
            // A machine may still write there. Its owner removes the workspace once the machine is stopped.
            if entry.file_name() == WORKSPACE {
                continue;
            }
            let removed = if entry.file_type()?.is_dir() {
                disk::remove_tree(&entry.path())
            } else {
                disk::remove_file(&entry.path())
            };
            removed?;
        }
        match std::fs::remove_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // The workspace is still there, so the folder stays for it.
            Err(_) if folder.join(WORKSPACE).exists() => Ok(()),
            removed => removed,
        }
    }
}

#[async_trait]
impl Blobs for FolderBlobs {
    async fn put(&self, key: &BlobKey, bytes: BlobStream, durability: Durability) -> Result<(), BlobError> {
        let written = self.write_stream(key.clone(), bytes, durability).await;
        written.map_err(|source| BlobError::new(key.name(), source))
    }

    async fn put_file(&self, key: &BlobKey, file: ScratchFile) -> Result<(), BlobError> {
        let (blobs, target) = (self.clone(), key.clone());
        let placed = disk::blocking(move || blobs.place(vec![(target, file)], Durability::Synced)).await;
        placed.map_err(|source| BlobError::new(key.name(), source))
    }

    async fn put_all(&self, blobs: Vec<(BlobKey, Bytes)>, durability: Durability) -> Result<(), BlobError> {
        let Some(first) = blobs.first().map(|(key, _)| key.name()) else { return Ok(()) };
        let folder = self.clone();
        let written = disk::blocking(move || folder.write_all(&blobs, durability)).await;
        written.map_err(|source| BlobError::new(first, source))
    }

    async fn get(&self, key: &BlobKey, range: BlobRange) -> Result<BlobContent, BlobError> {
        let failed = |source| BlobError::new(key.name(), source);
        let path = self.path(key);
        let opened = disk::blocking(move || open(&path, range)).await;
        let (file, start, length) = opened.map_err(failed)?;
        let bytes = read_file(file, start, length).map_err(failed)?;
        Ok(BlobContent { length, bytes })
    }

    /// One trip to a blocking thread in place of one for each 64 KiB: logs are read by chunks of 1 MiB.
    async fn read(&self, key: &BlobKey, range: BlobRange) -> Result<Bytes, BlobError> {
        let path = self.path(key);
        let read = disk::blocking(move || {
            let (file, start, length) = open(&path, range)?;
            let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, start)?;
            Ok(Bytes::from(bytes))
        });
        read.await.map_err(|source| BlobError::new(key.name(), source))
    }

    async fn length(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        let path = self.path(key);
        match disk::blocking(move || std::fs::metadata(path)).await {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BlobError::new(key.name(), source)),
        }
    }

    async fn list(&self, scope: &BlobScope, after: Option<&BlobKey>) -> Result<Vec<BlobKey>, BlobError> {
        let (blobs, wanted) = (self.clone(), scope.clone());
        let keys = disk::blocking(move || blobs.keys(&wanted)).await;
        let keys = keys.map_err(|source| BlobError::new(scope.prefix(), source))?;
        let after = after.map(BlobKey::name);
        let behind = keys.into_iter().filter(|key| after.as_ref().is_none_or(|after| key.name() > *after));
        Ok(behind.take(PAGE_KEYS).collect())
    }

    async fn jobs(&self, after: Option<&JobId>) -> Result<Vec<JobId>, BlobError> {
        let folder = self.jobs.clone();
        let jobs = disk::blocking(move || job_folders(&folder)).await;
        let jobs = jobs.map_err(|source| BlobError::new(ALL.to_owned(), source))?;
        let behind = jobs.into_iter().filter(|job| after.is_none_or(|after| job > after));
        Ok(behind.take(PAGE_KEYS).collect())
    }

    async fn remove(&self, keys: Vec<BlobKey>) -> Result<(), BlobError> {
        let blobs = self.clone();
        let removed = disk::blocking(move || {
            let failures = keys.iter().map(|key| (key, disk::remove_file(&blobs.path(key))));
            // Removes all it can: one failure must not keep the other blobs.
            let failures =
                failures.filter_map(|(key, removed)| removed.err().map(|error| (key.name(), error)));
            Ok(failures.fold(None, |first, failure| first.or(Some(failure))))
        });
        match removed.await {
            Ok(None) => Ok(()),
            Ok(Some((name, source))) => Err(BlobError::new(name, source)),
            Err(source) => Err(BlobError::new(ALL.to_owned(), source)),
        }
    }

    async fn remove_all(&self, scope: &BlobScope) -> Result<(), BlobError> {
        let (blobs, gone) = (self.clone(), scope.clone());
        let removed = disk::blocking(move || blobs.remove_scope(&gone)).await;
        removed.map_err(|source| BlobError::new(scope.prefix(), source))
    }
}

/// Returns the jobs that have a folder, in order. Skips names that are no job id, such as `lost+found`.
pub(super) fn job_folders(jobs: &Path) -> io::Result<Vec<JobId>> {
    let mut found: Vec<JobId> =
        entries(jobs)?.iter().filter_map(|entry| entry.file_name().to_str().and_then(JobId::parse)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Opens a file and holds a range to its length; returns the range as start and length.
fn open(path: &Path, range: BlobRange) -> io::Result<(File, u64, u64)> {
    let file = File::open(path)?;
    let total = file.metadata()?.len();
    match range {
        BlobRange::Whole => Ok((file, 0, total)),
        BlobRange::Bytes { start, length } if start.checked_add(length).is_some_and(|end| end <= total) => {
            Ok((file, start, length))
        }
        BlobRange::Bytes { .. } => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns the entries of a folder; none if the folder is missing.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
