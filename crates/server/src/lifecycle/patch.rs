//! `changes.patch`: the difference between the workspace and its start, which is a repository, the files of the request, or,
//! for a task, perhaps nothing.
//!
//! Git from the image makes the difference in the guest, where the tree is, with a git directory of its own. The start comes
//! from the host, so the job can't have changed it. The patch is bounded and never interpreted by the host.

use std::time::Duration;

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::machine::Machine;
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::guest_scripts::{GuestScript, ScriptError};
use super::owner::JobOwner;
use super::preparing::is_object_id;
use crate::artifacts::HostFile;
use crate::blobs::{BlobKey, BlobNoun, BlobRange, BlobStream, Blobs};
use crate::job::InputFile;
use crate::job::JobRow;
use crate::store::StoredRequest;

/// Name of the patch in the download.
const PATCH_NAME: &str = "changes.patch";
/// Time for the comparison; a tree that takes longer gets no patch.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest patch that is still useful to a person or a program.
const MAX_PATCH_BYTES: u64 = 16 * 1024 * 1024;

/// The patch, or why there is none.
#[derive(Debug)]
pub(super) enum PatchResult {
    /// Nothing to compare with, or nothing changed.
    None,
    /// The difference, as git prints it.
    Patch(HostFile),
    /// The patch could not be made, for this reason.
    Missing(String),
}

/// The workspace as it was when the job began.
enum StartTree {
    /// A tree in a pack of git's.
    Pack { tree: String, pack: BlobStream },
    /// The files of the request as a stream for git's fast-import.
    Files(Vec<u8>),
}

impl JobOwner {
    /// Makes the patch in a machine that has the workspace.
    pub(super) async fn make_patch(
        &self,
        row: &JobRow,
        request: &StoredRequest,
        machine: &Machine,
    ) -> PatchResult {
        let start = match (&request.job.git, request.files.is_empty()) {
            (Some(_), _) => match stored_start(self.context.blobs.as_ref(), row).await {
                Some(start) => start,
                // `preparing` has recorded the reason as an event of the job.
                None => return PatchResult::None,
            },
            (None, true) if row.task.is_none() => return PatchResult::None,
            (None, _) => StartTree::Files(stream(&request.files)),
        };
        compare(machine, start).await
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

async fn compare(machine: &Machine, start: StartTree) -> PatchResult {
    let (tree, input): (_, Box<dyn AsyncRead + Send + Unpin>) = match start {
        StartTree::Pack { tree, pack } => (tree, Box::new(StreamReader::new(pack))),
        StartTree::Files(stream) => (String::new(), Box::new(std::io::Cursor::new(stream))),
    };
    // One byte more than allowed tells a whole patch from a cut one.
    let most = MAX_PATCH_BYTES + 1;
    let script = GuestScript {
        text: include_str!("scripts/changes.sh"),
        arguments: &[&tree, &most.to_string()],
        time: COMPARE_TIMEOUT,
        most_output: most,
    };
    let mut patch = Vec::new();
    match script.run(machine, input, &mut patch).await {
        Ok(ran) if ran.succeeded() && patch.is_empty() => PatchResult::None,
        Ok(ran) if ran.succeeded() && patch.len() as u64 <= MAX_PATCH_BYTES => {
            PatchResult::Patch(HostFile { name: PATCH_NAME, bytes: patch.into() })
        }
        Ok(ran) if ran.succeeded() => missing("the changes are larger than 16 MiB"),
        Ok(_) => missing("git could not compare the workspace with its start"),
        Err(ScriptError::TooMuch(_)) => missing("the changes are larger than 16 MiB"),
        Err(error) => missing(&ErrorChain(&error).to_string()),
    }
}

fn missing(why: &str) -> PatchResult {
    PatchResult::Missing(format!("{PATCH_NAME}: {why}"))
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
