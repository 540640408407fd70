//! Export: the entries of a directory, one after the other. The caller checks the paths.

use bytes::Bytes;
use sandyard_pipe::Framed;
use sandyard_protocol::{EntryHeader, EntryKind, Reply, Request, limits};
use tokio::io::{AsyncRead, AsyncWrite};

use super::calls::{Machine, MachineError, next_part, unexpected};
use super::doors::MachineStream;

/// Paths that a guest may name as not read; it could name any number.
const MAX_SKIPPED: usize = 100;

impl Machine {
    /// Begins an export of a directory.
    pub async fn export(&self, path: &str) -> Result<Export, MachineError> {
        match self.call(&Request::Export { path: path.into() }).await? {
            (stream, Reply::Done) => Ok(Export(EntryStream::new(stream))),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

/// A running export. Call `next_entry`, then `next_bytes` until it returns `None`, and repeat.
#[derive(Debug)]
pub struct Export(EntryStream<MachineStream>);

/// The entries of an export on any stream.
#[derive(Debug)]
struct EntryStream<S> {
    stream: Framed<S>,
    /// Bytes of the present file that have not come yet.
    left: u64,
    skipped: Vec<String>,
}

/// One entry, as the guest describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportEntry {
    /// Relative path, not yet validated.
    pub path: String,
    /// File, directory or symbolic link.
    pub kind: EntryKind,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Number of bytes of a file that follow; 0 for other kinds.
    pub size: u64,
    /// Last change, in milliseconds since the epoch.
    pub modified_ms: i64,
    /// Target of a symbolic link.
    pub target: Option<String>,
}

impl Export {
    /// Returns the next entry, or `None` at the end. Skips the rest of the present file.
    pub async fn next_entry(&mut self) -> Result<Option<ExportEntry>, MachineError> {
        self.0.next_entry().await
    }

    /// Returns more bytes of the present file, or `None` after the last.
    pub async fn next_bytes(&mut self) -> Result<Option<Bytes>, MachineError> {
        self.0.next_bytes().await
    }

    /// Returns paths that the guest could not read, once the export has ended.
    pub fn skipped(&self) -> &[String] {
        &self.0.skipped
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> EntryStream<S> {
    fn new(stream: Framed<S>) -> Self {
        Self { stream, left: 0, skipped: Vec::new() }
    }

    async fn next_entry(&mut self) -> Result<Option<ExportEntry>, MachineError> {
        while self.next_bytes().await?.is_some() {}
        match self.stream.receive_message().await? {
            EntryHeader::Entry { path, kind, mode, size, modified_ms, target } => {
                // Before `left` is set: a directory with a size would swallow the entries after it.
                check(&path, kind, size, target.as_deref())?;
                self.left = size;
                Ok(Some(ExportEntry { path, kind, mode: mode & 0o7777, size, modified_ms, target }))
            }
            EntryHeader::End { skipped, .. } => {
                self.skipped = skipped.into_iter().take(MAX_SKIPPED).collect();
                Ok(None)
            }
        }
    }

    async fn next_bytes(&mut self) -> Result<Option<Bytes>, MachineError> {
        next_part(&mut self.stream, &mut self.left, "export data").await
    }
}

fn check(path: &str, kind: EntryKind, size: u64, target: Option<&str>) -> Result<(), MachineError> {
    let sound = match kind {
        EntryKind::File => target.is_none(),
        EntryKind::Directory => size == 0 && target.is_none(),
        EntryKind::Symlink => size == 0 && target.is_some_and(|target| target.len() <= limits::SYMLINK_BYTES),
        EntryKind::Other => false,
    };
    if sound && !path.is_empty() && path.len() <= 3 * limits::PATH_BYTES {
        Ok(())
    } else {
        Err(MachineError::Malformed("export entry".into()))
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
