//! The workspace as it was when the job began: the start that a patch and an explanation compare with.
//!
//! It comes from the host, so the job can't have changed it: a pack that `preparing` stored, or the files of the request.

use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::owner::JobOwner;
use super::preparing::is_object_id;
use crate::blobs::{BlobKey, BlobNoun, BlobRange, BlobStream, Blobs};
use crate::job::{InputFile, JobRow};
use crate::store::StoredRequest;

/// The start, in a form that git reads.
pub(super) enum StartTree {
    /// A tree in a pack of git's.
    Pack { tree: String, pack: BlobStream },
    /// The files of the request as a stream for git's fast-import.
    Files(Vec<u8>),
}

impl StartTree {
    /// The id of the tree, which is empty for files, and the input of the script that reads it.
    pub(super) fn into_input(self) -> (String, Box<dyn AsyncRead + Send + Unpin>) {
        match self {
            Self::Pack { tree, pack } => (tree, Box::new(StreamReader::new(pack))),
            Self::Files(stream) => (String::new(), Box::new(std::io::Cursor::new(stream))),
        }
    }
}

impl JobOwner {
    /// Returns the start of a job; `None` if there is nothing to compare with.
    pub(super) async fn start_tree(&self, row: &JobRow, request: &StoredRequest) -> Option<StartTree> {
        match (&request.job.git, request.files.is_empty()) {
            // If there is none, `preparing` has recorded the reason as an event of the job.
            (Some(_), _) => stored_start(self.context.blobs.as_ref(), row).await,
            (None, true) if row.task.is_none() => None,
            (None, _) => Some(StartTree::Files(stream(&request.files))),
        }
    }
}

/// Returns the start that `preparing` stored; `None` if it could not.
async fn stored_start(blobs: &dyn Blobs, row: &JobRow) -> Option<StartTree> {
    let tree = blobs.read(&BlobKey::new(&row.id, BlobNoun::StartTree), BlobRange::Whole).await.ok()?;
    // Read back from the host's disk, but first made by a script in the guest: only a hash may become an argument of git.
    let tree = String::from_utf8(tree.into()).ok().filter(|tree| is_object_id(tree))?;
    let pack = blobs.get(&BlobKey::new(&row.id, BlobNoun::StartPack), BlobRange::Whole).await.ok()?;
    Some(StartTree::Pack { tree, pack: pack.bytes })
}

/// The files as one commit for git's fast-import. Contents have a length in front; paths are quoted as git quotes them.
fn stream(files: &[InputFile]) -> Vec<u8> {
    let mut stream = b"commit refs/heads/start\ncommitter start <> 0 +0000\ndata 0\n".to_vec();
    for file in files {
        stream.extend(
            format!("M 100644 inline {}\ndata {}\n", quoted(&file.path), file.bytes.len()).as_bytes(),
        );
        stream.extend(&file.bytes);
        stream.push(b'\n');
    }
    stream.extend(b"done\n");
    stream
}

fn quoted(path: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in path.bytes() {
        match byte {
            // Everything but printable ASCII becomes an octal escape. A raw line end in a path would begin another command of
            // the stream.
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_not_break_out_of_the_stream() {
        assert_eq!(quoted("a b/ü\n\"M\\"), "\"a b/\\303\\274\\012\\\"M\\\\\"");
        let files = [InputFile { path: "a".into(), bytes: b"M 100644 inline b\ndata 0\n".to_vec() }];
        let stream = String::from_utf8(stream(&files)).unwrap();
        assert!(stream.contains("inline \"a\"\ndata 25\nM 100644 inline b"), "{stream}");
    }
}
