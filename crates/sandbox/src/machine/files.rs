//! Files of a machine. Paths are relative to the workspace.

use bytes::Bytes;
use sandyard_protocol::{DirectoryEntry, Edit, FileRange, FileStat, Reply, Request, SearchHit, limits};

use super::calls::{GuestStream, Machine, MachineError, next_part, reply, unexpected};

impl Machine {
    /// Returns facts about a path. Does not follow a final symbolic link.
    pub async fn stat(&self, path: &str) -> Result<FileStat, MachineError> {
        self.facts(&Request::Stat { path: path.into() }).await
    }

    /// Returns a page of a directory, and true if more entries follow.
    pub async fn list(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> Result<(Vec<DirectoryEntry>, bool), MachineError> {
        match self.call(&Request::List { path: path.into(), after: after.map(Into::into) }).await?.1 {
            Reply::Entries { entries, more } => Ok((entries, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a file or a range of it.
    pub async fn read(&self, path: &str, range: Option<FileRange>) -> Result<FileContent, MachineError> {
        match self.call(&Request::Read { path: path.into(), range }).await? {
            (stream, Reply::Content { stat, length }) => {
                Ok(FileContent { stat, length, left: length, stream })
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Begins to write a whole file, which appears when the writer finishes.
    pub async fn write(&self, path: &str, size: u64, mode: Option<u32>) -> Result<FileWriter, MachineError> {
        let stream = self.request(&Request::Write { path: path.into(), size, mode }).await?;
        Ok(FileWriter { stream, left: size })
    }

    /// Moves a file or directory. The target must not exist.
    pub async fn rename(&self, path: &str, to: &str) -> Result<FileStat, MachineError> {
        self.facts(&Request::Move { path: path.into(), to: to.into() }).await
    }

    /// Replaces text in a file: all edits or none.
    pub async fn edit(&self, path: &str, edits: Vec<Edit>) -> Result<FileStat, MachineError> {
        self.facts(&Request::Edit { path: path.into(), edits }).await
    }

    /// Removes a file or directory.
    pub async fn remove(&self, path: &str, recursive: bool) -> Result<(), MachineError> {
        self.done(&Request::Remove { path: path.into(), recursive }).await
    }

    /// Makes a directory and its parents.
    pub async fn make_directory(&self, path: &str) -> Result<FileStat, MachineError> {
        self.facts(&Request::MakeDirectory { path: path.into() }).await
    }

    /// Searches names and contents for text. Returns the hits, and true if some were left out.
    pub async fn search(
        &self,
        path: &str,
        text: &str,
        limit: u32,
    ) -> Result<(Vec<SearchHit>, bool), MachineError> {
        match self.call(&Request::Search { path: path.into(), text: text.into(), limit }).await?.1 {
            Reply::Hits { hits, more } => Ok((hits, more)),
            other => Err(unexpected(&other)),
        }
    }

    async fn facts(&self, request: &Request) -> Result<FileStat, MachineError> {
        match self.call(request).await?.1 {
            Reply::Stat(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }
}

/// The bytes of a file, as they arrive.
#[derive(Debug)]
pub struct FileContent {
    /// Facts about the file.
    pub stat: FileStat,
    /// Number of bytes in all.
    pub length: u64,
    left: u64,
    stream: GuestStream,
}

impl FileContent {
    /// Returns the next bytes, or `None` after exactly `length` bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, MachineError> {
        next_part(&mut self.stream, &mut self.left, "file content").await
    }
}

/// Writes a file. Dropping it before `finish` leaves the old file as it was.
#[derive(Debug)]
pub struct FileWriter {
    stream: GuestStream,
    left: u64,
}

impl FileWriter {
    /// Sends bytes. Sending more than announced is an error.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), MachineError> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(MachineError::Malformed("more bytes than announced".into()));
        };
        self.left = left;
        for part in bytes.chunks(limits::DATA_BYTES) {
            if self.stream.send_data(part).await.is_err() {
                // The guest closed its side because it refused; its reply says why.
                return Err(refusal(&mut self.stream).await);
            }
        }
        Ok(())
    }

    /// Puts the file in place and returns its facts.
    pub async fn finish(mut self) -> Result<FileStat, MachineError> {
        self.stream.finish().await?;
        match reply(&mut self.stream).await? {
            Reply::Stat(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }
}

async fn refusal(stream: &mut GuestStream) -> MachineError {
    match reply(stream).await {
        Ok(other) => unexpected(&other),
        Err(error) => error,
    }
}
